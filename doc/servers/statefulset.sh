#!/bin/sh
# Entry point of a container in a StatefulSet: the pods are numbered from 0, and
# their host names end with the number, which becomes the worker id.  The rest
# is left to the entry point of the image.
set -eu
# the runtime of the container sets it
# shellcheck disable=SC3028
ordinal=${HOSTNAME##*-}
case $ordinal in
	'' | *[!0-9]*) echo "the host name does not end with a number: \"$ordinal\"" >&2; exit 1 ;;
esac
exec docker-entrypoint.sh postgres -c "snowflake.worker_id=$ordinal" "$@"

#!/bin/sh
# Entry point for a container in a StatefulSet.  The host name of a pod ends with
# its number, from 0 on.  That number becomes the worker id.  The entry point of
# the image does the rest.
set -eu
# the container runtime sets HOSTNAME
# shellcheck disable=SC3028
ordinal=${HOSTNAME##*-}
case $ordinal in
	'' | *[!0-9]*) echo "host name does not end with a number: \"$ordinal\"" >&2; exit 1 ;;
esac
exec docker-entrypoint.sh postgres -c "snowflake.worker_id=$ordinal" "$@"

#!/bin/bash
#
# Run the queries in doc/monitoring with the real postgres_exporter, as a role that is a
# member of pg_monitor only; test the alert rules with Prometheus's promtool, and that the
# exporter has all metrics of the rules and the dashboard.
#
# usage: t/world/exporter.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

need_packages prometheus-postgres-exporter curl
start_throwaway_server </dev/null
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 <<'END' >/dev/null
CREATE EXTENSION snowflake;
SELECT count(snowflake_nextval()) FROM generate_series(1, 4711);
END
# an error for the counters
psql --no-psqlrc --quiet --command="LOAD 'snowflake'" --command="ALTER SYSTEM SET snowflake.worker_id = 4711" --command="SELECT pg_reload_conf()" >/dev/null
psql --no-psqlrc --quiet --command="SELECT pg_sleep(0.5)" --command="SELECT snowflake_nextval()" >/dev/null 2>&1 || true
psql --no-psqlrc --quiet --command="LOAD 'snowflake'" --command="ALTER SYSTEM RESET snowflake.worker_id" --command="SELECT pg_reload_conf()" >/dev/null

status=0
listen=127.0.0.1:19187
start_exporter "$listen"
trap 'kill "$exporter" || true; stop_throwaway_server' EXIT
for tries in {1..100}; do
	! curl --silent --fail "http://$listen/metrics" >metrics || break
	sleep 0.1
done
[ -s metrics ] || { cat exporter.log; die "no answer after $tries tries"; }
grep ^snowflake metrics | sed 's/^/# /'

# Print the value of a metric, given a pattern of its name and labels.
value()
{
	sed -n "s/^$1 //p" metrics
}
check "ids are counted" "$(value 'snowflake_stat_ids_total{.*}')" = 4711
check "errors are counted by kind" "$(value 'snowflake_errors_total{.*kind="F0000".*}')" = 1
check "other kinds have no errors" "$(value 'snowflake_errors_total{.*kind="SF001".*}')" = 0
check "ids can be made" "$(value 'snowflake_status_ready{.*state="ready".*}')" = 1
check "the exporter has all metrics" "$(grep -c '^snowflake_[a-z_]*{' metrics)" -eq 20
check "the exporter logs no errors" "$(grep -c 'level=error' exporter.log)" -eq 0

# only promtool is needed, and installing Prometheus would start a server
apt-get -q download prometheus >promtool.log 2>&1 || { cat promtool.log; die "could not download prometheus"; }
dpkg-deb --extract prometheus_*.deb prometheus
cp source/doc/monitoring/alerts.yaml source/t/world/alerts_test.yaml .
check "the alert rules fire when they should" \
	"$(prometheus/usr/bin/promtool test rules alerts_test.yaml >promtool.log 2>&1 && echo yes)" = yes
# check each of them: a rule for a missing metric would never fire, and its panel stay empty
dashboard=source/doc/monitoring/grafana.json
check "the dashboard is valid JSON" "$(python3 -m json.tool "$dashboard" >/dev/null && echo yes)" = yes
for metric in $(grep -h '^ *"\?\(expr\|query\)"\?:' alerts.yaml "$dashboard" | grep --only-matching 'snowflake_[a-z_]*' | sort --unique); do
	check "the exporter has $metric" "$(grep -c "^$metric{" metrics)" -ge 1
done
[ "$status" -eq 0 ] || cat exporter.log promtool.log
exit "$status"

#!/bin/bash
#
# Lease worker ids from a real registry: by 200 simulated servers, see
# registry_nodes.py, and by the service of doc/clients/registry.js.
#
# usage: t/world/registry.sh

set -euo pipefail
cd "$(dirname "$0")/../.."
. script/lib.sh

need_packages python3-psycopg
umask 022
start_throwaway_server <<END
max_connections = 250
END
need_node_pg
script=$throwaway/stage/usr/share/postgresql/$version/extension/snowflake_registry--1.0.sql
cp "$script" script.sql
status=0

# A registry in a database of its own, from a script with parts taken out.
create_registry()
{
	local database=$1
	shift

	cp script.sql "$script"
	for part in "$@"; do
		SCRIPT_PART=$part perl -0777 -i -pe \
			's/\Q$ENV{SCRIPT_PART}\E// or die "mutant does not fit"' "$script"
	done
	createdb "$database"
	PGDATABASE=$database psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 \
		--command="CREATE EXTENSION snowflake_registry" \
		--command="UPDATE snowflake_registry.registry SET max_clock_lead = '3 s'"
}

# Overlaps, leases, worker ids, leases acquired and the median time for that in
# ms, renewals and theirs, refusals.
simulate()
{
	PGDATABASE=$1 /usr/bin/python3 source/t/world/registry_nodes.py 200 128 "$2" >result || die "simulation broke off"
	read -r overlaps leases _ _ assign _ renew _ <result
	echo "# $(cat result)"
}

create_registry product
simulate product 30
check "of $leases leases none overlaps with another ($assign ms to lease, $renew ms to renew)" "$overlaps" -eq 0
check "there were many" "$leases" -gt 500
held=$(PGDATABASE=product psql --no-psqlrc --tuples-only --no-align \
	--command="SELECT count(*) - count(DISTINCT instance) FROM snowflake_registry.lease WHERE instance IS NOT NULL")
check "nobody holds two" "$held" -eq 0

# where a lease begins, and what its holder has to know
create_registry mutant_1 "
			AND old.ends <= excluded.starts" "lease.ends, "
simulate mutant_1 10
check "mutant that begins anywhere: $overlaps overlaps are found" "$overlaps" -gt 0
create_registry mutant_2 " AND lease.instance = renew.instance
		AND lease.ends = renew.ends"
simulate mutant_2 10
check "mutant that renews for anybody: $overlaps overlaps are found" "$overlaps" -gt 0

# The service: three of them, that are stopped and started while they make ids.
create_registry service
cat >service.js <<END
const { Client } = require('pg');
const Generator = require('$throwaway/source/doc/clients/registry.js');
async function main() {
  const client = new Client({ database: 'service' });
  await client.connect();
  for (let life = 0; life < 5; life++) {
    const generator = new Generator(client, process.argv[2]);
    await generator.keep();
    for (let i = 0; i < 5000; i++) {
      // a lease may begin ahead of the clock
      let id;
      while (id === undefined) {
        try { id = generator.next(); } catch { await new Promise((go) => setTimeout(go, 1)); }
      }
      console.log(String(id));
      if (i % 1000 === 0) await generator.keep();
    }
    await generator.stop();
  }
  await client.end();
}
main();
END
for number in 1 2 3; do
	node service.js "service $number" >"ids.$number" &
done
wait
ids=$(cat ids.[123] | wc -l)
different=$(sort -u ids.[123] | wc -l)
check "Node.js: 75000 ids" "$ids" -eq 75000
check "Node.js: all different" "$different" -eq 75000

exit "$status"

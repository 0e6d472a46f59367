# Citus: a coordinator and its workers, which lease their worker ids, insert at the same
# time in every way.  Nodes are added, crash, are cut off from the registry, and the
# coordinator fails over.  No id is made twice.  citus.sh runs this.
#
# SNOWFLAKE_SECONDS sets how long clients insert each time (default 10).

use FindBin;
use lib "$FindBin::RealBin/..";
use SnowflakeTest;

# Create Citus, and drop our extension, so that it comes from the coordinator later.
sub create_citus
{
	my ($node) = @_;

	$node->safe_psql('postgres', 'CREATE EXTENSION citus');
	$node->safe_psql('postgres', 'DROP EXTENSION snowflake');
	return;
}

# The address of a server, as Citus takes it.
sub address_of
{
	my ($node) = @_;

	return sprintf("'%s', %d", $node->host, $node->port);
}

my $seconds = $ENV{SNOWFLAKE_SECONDS} // 10;
my $registry = new_registry('registry');
my %settings = (
	'shared_preload_libraries' => 'citus, snowflake',
	'citus.node_conninfo' => 'sslmode=disable',
	'citus.local_hostname' => $registry->host,
	'citus.shard_count' => 12,
	'citus.enable_schema_based_sharding' => 'on',
	'max_prepared_transactions' => 100,
	'wal_level' => 'logical',
	'max_wal_senders' => 10,
	'snowflake.max_wait' => '10s');

# Create a node, with a role of its own in the registry, so that it can be cut off.
sub new_node
{
	my ($name, %others) = @_;

	sql($registry, <<"EOC");
CREATE ROLE $name LOGIN;
GRANT USAGE ON SCHEMA snowflake_registry TO $name;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA snowflake_registry TO $name;
EOC
	# long enough that even a busy machine renews it in time
	my %lease = lease_from($registry, 'snowflake.registry_lease' => '10s');
	delete $lease{preload};
	$lease{'snowflake.registry'} .= " user=$name";
	my $node = new_server($name, %lease, 'snowflake.node_name' => $name, %settings, %others);

	create_citus($node);
	return $node;
}

sub row_of
{
	my ($node, $sql) = @_;

	return sql($node, $sql);
}

sub wait_for_ids
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	sql_becomes_true($node, "SELECT state = 'ready' FROM snowflake_status()", $name);
	return;
}

# All ways to insert, from any of the nodes.  The last one makes ids where the shards
# are.  COPY evaluates the defaults on the node that runs it and sends rows to the shards
# in batches, whatever the default is, so its WAL does not tell one default from another.
my @scripts = (
	"\\set c random(1, 1000)\nINSERT INTO orders (customer) VALUES (:c);",
	'INSERT INTO orders (customer) SELECT generate_series(1, 100);',
	"COPY orders (customer) FROM PROGRAM 'seq 1 100';",
	"\\set c random(1, 1000)\nINSERT INTO copies (customer) SELECT customer FROM orders WHERE customer = :c LIMIT 50;");

sub start_load
{
	my @nodes = @_;

	return start_scripts(\@scripts, @nodes);
}

sub start_scripts
{
	my ($scripts, @nodes) = @_;

	return map {
		my $node = $_;
		map { start_clients($node, "--client=1 --time=$seconds", $_) } @$scripts
	} @nodes;
}

sub finish_load
{
	my ($name, @clients) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	finish_clients($_, $name) foreach @clients;
	return;
}

my @tables = qw(orders copies known readings tenant.orders);

# Return the number of all ids, and of duplicates.
sub rows_and_duplicates
{
	my ($node) = @_;
	my $all = join ' UNION ALL ', map { "SELECT id FROM $_" } @tables;

	return split /\|/, row_of($node, "SELECT count(*), count(*) - count(DISTINCT id) FROM ($all) AS ids");
}

# The coordinator has a fixed worker id, so that its standby can take it over; the
# timeline keeps their ids apart.
sql($registry, "SELECT snowflake_registry.reserve(0, 'the coordinator')");
# leave as many worker ids as there are workers
sql($registry, "SELECT snowflake_registry.reserve(i, 'later') FROM generate_series(4, 31) AS i");
my $coordinator = new_server('coordinator', 'snowflake.worker_id' => 0, %settings);
create_citus($coordinator);
my @workers = map { new_node("worker$_") } 1 .. 3;
sql($coordinator, 'SELECT citus_set_coordinator_host(' . address_of($coordinator) . ')');
sql($coordinator, 'SELECT citus_add_node(' . address_of($workers[0]) . ')');

sql($coordinator, 'CREATE EXTENSION snowflake');
is( row_of($workers[0], "SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'"), 1,
	'CREATE EXTENSION on the coordinator reaches a worker');
sql($coordinator, <<'EOC');
CREATE TABLE orders (customer int, id bigint DEFAULT snowflake_nextval(), note text,
	PRIMARY KEY (customer, id));
SELECT create_distributed_table('orders', 'customer');
CREATE TABLE copies (customer int, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (customer, id));
SELECT create_distributed_table('copies', 'customer', colocate_with => 'orders');
CREATE TABLE known (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text);
SELECT create_reference_table('known');
CREATE TABLE readings (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), value float8) PARTITION BY RANGE (id);
SELECT create_distributed_table('readings', 'id');
SELECT * FROM snowflake_create_partitions('readings', '1 day', now() - interval '1 day', now() + interval '1 day');
CREATE SCHEMA tenant;
CREATE TABLE tenant.orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text);
EOC
is( row_of($coordinator, "SELECT citus_table_type FROM citus_tables WHERE table_name = 'tenant.orders'::regclass"),
	'schema', 'a table can be in a distributed schema');

# Insert from one node into all kinds of tables.
sub insert_everywhere
{
	my ($node) = @_;
	my $name = $node->name;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	sql($node, 'SET search_path = public; SELECT snowflake_nextval()');
	foreach (
		[ 'a single row', "INSERT INTO orders (customer, note) VALUES (1, 'x')" ],
		[ 'several rows', 'INSERT INTO orders (customer) VALUES (1), (2), (3)' ],
		[
			'a prepared statement',
			'PREPARE p (int) AS INSERT INTO orders (customer) VALUES ($1); EXECUTE p(4); EXECUTE p(5)'
		],
		[ 'into a reference table', "INSERT INTO known (name) VALUES ('x')" ],
		[ 'by the key', 'INSERT INTO readings (value) VALUES (1.5)' ],
		[ 'into a distributed schema', "INSERT INTO tenant.orders (note) VALUES ('x')" ],
		[ 'rows of a query', 'INSERT INTO orders (customer) SELECT generate_series(1, 100)' ],
		[ 'by COPY', "COPY orders (customer) FROM PROGRAM 'seq 1 100'" ],
		[ 'where the shards are', 'INSERT INTO copies (customer) SELECT customer FROM orders WHERE customer < 10' ],
		[ 'in MERGE or UPSERT', 'INSERT INTO orders (customer) VALUES (9) ON CONFLICT DO NOTHING' ])
	{
		my ($way, $sql) = @$_;
		my ($state, $messages) = sqlstate_of($node, $sql);

		is($state, '00000', "$name inserts $way") or diag($messages);
	}
	return;
}

insert_everywhere($_) foreach $coordinator, $workers[0];

# in RETURNING, Citus accepts only IMMUTABLE functions, so a field needs the layout
sql_fails(
	$coordinator, 'INSERT INTO orders (customer) VALUES (1) RETURNING snowflake_worker_id(id)', '0A000',
	'a field cannot be returned without a layout');
is( row_of($coordinator, "INSERT INTO orders (customer) VALUES (1) RETURNING snowflake_worker_id(id, 'snowflake')"), 0,
	'but with a layout');
cmp_ok(
	row_of(
		$coordinator,
		"SELECT count(*) FROM orders WHERE snowflake_between(id, now() - interval '1 hour', NULL) AND customer = 1"),
	'>', 1,
	'snowflake_between() works within a shard');
is( row_of($coordinator, "SELECT count(*) FROM orders WHERE NOT snowflake_between(id, '2020-01-01', NULL)"), 0,
	'and in all shards');

# a table with another key
sql($coordinator, <<'EOC');
CREATE TABLE legacy (id bigserial PRIMARY KEY, note text);
SELECT create_distributed_table('legacy', 'id');
INSERT INTO legacy (note) SELECT 'x' FROM generate_series(1, 100);
EOC
sql($coordinator, 'CREATE EXTENSION snowflake_adopt');
my ($state, $messages) = sqlstate_of($coordinator, "CALL snowflake_adopt('legacy', 'id')");
is($state, '0A000', 'a distributed table is not adopted');
like($messages, qr/HINT: .*undistribute_table/, 'and the hint shows what to do');
sql($coordinator, "SELECT undistribute_table('legacy')");
sql_fails($coordinator, "CALL snowflake_adopt('legacy', 'id')", '0A000', 'nor is one whose sequence was distributed');
sql($coordinator, <<'EOC');
ALTER TABLE legacy ALTER COLUMN id SET DEFAULT snowflake_nextval();
SELECT create_distributed_table('legacy', 'id');
INSERT INTO legacy (note) VALUES ('y');
CREATE TABLE legacy_orders (customer int, id bigserial);
SELECT create_distributed_table('legacy_orders', 'customer');
ALTER TABLE legacy_orders ALTER COLUMN id SET DEFAULT snowflake_nextval();
INSERT INTO legacy_orders (customer) VALUES (1);
EOC
is( row_of(
		$coordinator, 'SELECT (SELECT max(id) FROM legacy) > 1000000 AND (SELECT max(id) FROM legacy_orders) > 1000000'
	),
	't',
	'setting the default works instead');

# One worker, then three, to which the shards are moved while clients insert
sub rate
{
	my ($what, @nodes) = @_;
	my ($before) = rows_and_duplicates($nodes[0]);
	my $begin = time;

	finish_load("$what: clients insert from each node", start_load(@nodes));
	my ($after) = rows_and_duplicates($nodes[0]);
	cmp_ok($after, '>', $before, sprintf('%s: %.0f rows per second', $what, ($after - $before) / (time - $begin)));
	return;
}

rate('1 worker', $coordinator, $workers[0]);
my @clients = start_load($coordinator, $workers[0]);
sql($coordinator, 'SELECT citus_add_node(' . address_of($_) . ')') foreach @workers[ 1, 2 ];
sql($coordinator, "SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')");
finish_load('clients insert while nodes are added and shards move', @clients);
is( row_of($coordinator, "SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'orders'::regclass"), 3,
	'the shards are on three workers');
is(row_of($_, "SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'"), 1, $_->name . ' has the extension')
  foreach @workers;
wait_for_ids($_, $_->name . ' is ready') foreach @workers;
is( scalar(keys %{ { map { row_of($_, 'SELECT worker_id FROM snowflake_status()') => 1 } $coordinator, @workers } }),
	4,
	'with different worker ids');
insert_everywhere($_) foreach @workers;
rate('3 workers', $coordinator, @workers);

# A worker crashes.
@clients = start_load($coordinator, $workers[0], $workers[2]);
sleep $seconds / 3;
$workers[1]->stop('immediate');
sleep 1;
$workers[1]->start;
# the errors that clients saw are those of lost connections
$_->{run}->finish foreach @clients;
wait_for_ids($workers[1], 'a crashed worker is ready again');
rate('after a crash', $coordinator, @workers);

# A worker is cut off from the registry for longer than its lease.  Another server gets
# its worker id.
my $worker_id = row_of($workers[2], 'SELECT worker_id FROM snowflake_status()');
sql($registry, 'ALTER ROLE worker3 NOLOGIN; '
	  . "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'worker3'");
sql_becomes_true(
	$workers[2], "SELECT state = 'no lease' FROM snowflake_status()",
	'the lease of a worker that was cut off ends');
sql_fails(
	$workers[2], 'SET snowflake.max_wait = 0; INSERT INTO orders (customer) VALUES (1)', 'SF004',
	'it makes no ids then');
my $spare = new_node('spare');
sql($coordinator, 'SELECT citus_add_node(' . address_of($spare) . ')');
wait_for_ids($spare, 'a node added meanwhile is ready');
is( row_of($spare, 'SELECT worker_id FROM snowflake_status()'), $worker_id,
	'with the worker id of the one that was cut off');
# its shards still take rows whose ids are made elsewhere
finish_load(
	'clients insert from the other nodes',
	start_scripts([ @scripts[ 0 .. 2 ] ], $coordinator, @workers[ 0, 1 ], $spare));
sql($registry, 'ALTER ROLE worker3 LOGIN');
sql($registry, 'SELECT snowflake_registry.unreserve(4, clock_timestamp())');
wait_for_ids($workers[2], 'the worker that was cut off is ready again');
is(row_of($workers[2], 'SELECT worker_id FROM snowflake_status()'), 4, 'with another worker id');
insert_everywhere($workers[2]);

# The coordinator fails over.
my $standby = new_standby($coordinator, 'standby');
@clients = start_load($coordinator);
sleep $seconds / 3;
$coordinator->wait_for_catchup($standby, 'replay', $coordinator->lsn('insert'));
$coordinator->stop('immediate');
$_->{run}->finish foreach @clients;
$standby->promote;

# citus_update_node() wakes the maintenance daemon, and crashes if it does not run yet
$standby->poll_query_until(
	'postgres',
	"SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type LIKE 'Citus Maintenance Daemon%'"
) or BAIL_OUT('Citus has no maintenance daemon');
sql($standby, 'SELECT citus_update_node(nodeid, ' . address_of($standby) . ') FROM pg_dist_node WHERE groupid = 0');
insert_everywhere($standby);
is( row_of($standby, 'SELECT snowflake_worker_id(snowflake_nextval())'), 0,
	'the new coordinator has the worker id of the old one');
isnt(
	row_of($standby, 'SELECT snowflake_timeline(snowflake_nextval())'),
	row_of($standby, 'SELECT min(snowflake_timeline(id)) FROM orders WHERE snowflake_worker_id(id) = 0'),
	'and another timeline');
my @nodes = ($standby, @workers, $spare);
rate('after a failover', @nodes);

# Without the registry, all nodes follow the other recipe of doc/guide.md.
foreach my $node (@nodes)
{
	sql($node, "ALTER SYSTEM SET snowflake.registry = ''");
	$node->stop;
}
$_->start foreach @nodes;
my ($recipe) = slurp_file('doc/guide.md') =~ /^  ```\n(  SELECT groupid .*?)^  ```/ms;
foreach my $node (@nodes)
{
	sql($node, $recipe);
	sql_becomes_true(
		$node,
		"SELECT worker_id = groupid AND worker_id_source = 'setting' FROM snowflake_status(), pg_dist_local_group",
		$node->name . ' has the id of its group');
}
is( scalar(keys %{ { map { row_of($_, 'SELECT snowflake_worker_id(snowflake_nextval())') => 1 } @nodes } }),
	5,
	'and all of them differ');
rate('with the ids of groups', @nodes);

my ($rows, $duplicates) = rows_and_duplicates($standby);
is($duplicates, 0, "none of $rows ids is made twice");
cmp_ok($rows, '>', 10_000, 'there are many rows');

done_testing();

# The guide's two ways from pgEdge's extension of the same name: a dump that is restored on
# another server, and in place.  The columns keep their ids, which mean the same, and new ids
# are above them and come once.
#
# SNOWFLAKE_PGEDGE names a directory below which pgEdge's extension is installed for this
# version of PostgreSQL, as an unpacked package has it: usr/lib/postgresql/... and
# usr/share/postgresql/...  Without it, an extension takes its place that has its functions
# and ids, and whose dumps are the same.

use SnowflakeTest;

my $settings = slurp_file($ENV{TEMP_CONFIG});
my $stage = stage_directory()
  or plan skip_all => 'the server is a copy, and has one directory for extensions';
my $dir = PostgreSQL::Test::Utils::tempdir();
my $pgedge = $ENV{SNOWFLAKE_PGEDGE};

if (!$pgedge)
{
	chomp(my $share = `$ENV{PG_CONFIG} --sharedir`);

	$pgedge = "$dir/pgedge";
	system_or_bail('mkdir', '-p', "$pgedge$share/extension");
	append_to_file(
		"$pgedge$share/extension/snowflake.control",
		"default_version = '2.6.0'\nrelocatable = false\nschema = snowflake\n");
	append_to_file("$pgedge$share/extension/snowflake--2.6.0.sql", <<'EOC');
GRANT USAGE ON SCHEMA snowflake TO PUBLIC;
CREATE SEQUENCE snowflake.id_seq;
GRANT USAGE ON SEQUENCE snowflake.id_seq TO PUBLIC;

-- a sequence keeps the last id: milliseconds since 2023, the node, and a count
CREATE FUNCTION snowflake.nextval(seq regclass DEFAULT 'snowflake.id_seq') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	last bigint;
	ms bigint := floor((extract(epoch FROM clock_timestamp()) - 1672531200) * 1000);
	count bigint := 0;
BEGIN
	EXECUTE format('SELECT last_value FROM %s', seq) INTO last;
	IF ms <= last >> 22 THEN
		ms := last >> 22;
		count := (last & 4095) + 1;
		IF count > 4095 THEN
			ms := ms + 1;
			count := 0;
		END IF;
	END IF;
	RETURN setval(seq, (ms << 22) + (current_setting('snowflake.node')::bigint << 12) + count);
END
$$;
CREATE FUNCTION snowflake.get_epoch(bigint) RETURNS numeric LANGUAGE sql AS 'SELECT round((($1 >> 22) + 1672531200000) / 1000.0, 3)';
CREATE FUNCTION snowflake.get_node(bigint) RETURNS integer LANGUAGE sql AS 'SELECT ($1 >> 12 & 1023)::integer';
CREATE FUNCTION snowflake.get_count(bigint) RETURNS integer LANGUAGE sql AS 'SELECT ($1 & 4095)::integer';
CREATE FUNCTION snowflake.format(bigint) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('ts', to_timestamp(snowflake.get_epoch($1))::text, 'count', snowflake.get_count($1), 'id', snowflake.get_node($1))
$$;
CREATE FUNCTION snowflake.convert_sequence_to_snowflake(seq regclass) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
	-- an identity column keeps its sequence
	UPDATE pg_attribute SET attidentity = '' FROM pg_depend
	WHERE objid = seq AND deptype = 'i' AND attrelid = refobjid AND attnum = refobjsubid;
	EXECUTE (SELECT format('ALTER TABLE %s ALTER %I SET DEFAULT snowflake.nextval(%L::regclass)', attrelid::regclass, attname, seq::text)
		FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
		WHERE objid = seq AND classid = 'pg_class'::regclass AND deptype IN ('a', 'i'));
	PERFORM snowflake.nextval(seq);
	RETURN 1;
END
$$;
EOC
}

my @tables = ('customers', 'orders', 'payments');
my $tables = q{
CREATE TABLE customers (id bigserial PRIMARY KEY, name text);
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint REFERENCES customers);
INSERT INTO customers (name) SELECT 'serial' FROM generate_series(1, 3);
SELECT snowflake.convert_sequence_to_snowflake('customers_id_seq'), snowflake.convert_sequence_to_snowflake('orders_id_seq');
CREATE TABLE payments (id bigint PRIMARY KEY DEFAULT snowflake.nextval(), order_id bigint REFERENCES orders);
CREATE VIEW decoded_orders AS SELECT id, snowflake.get_epoch(id) AS epoch, snowflake.format(id) FROM orders;
INSERT INTO customers (name) SELECT 'old' FROM generate_series(1, 10000);
INSERT INTO orders (customer_id) SELECT id FROM customers;
INSERT INTO payments (order_id) SELECT id FROM orders;
CREATE VIEW ids AS SELECT id FROM customers UNION ALL SELECT id FROM orders UNION ALL SELECT id FROM payments;
CREATE TABLE old_ids AS SELECT DISTINCT id FROM ids;
-- what its own functions say
CREATE TABLE decoded AS
	SELECT id, snowflake.get_epoch(id) AS epoch, snowflake.get_node(id) AS node, snowflake.get_count(id) AS count
	FROM old_ids WHERE id > 1000000;};
my $digest = join ';', map { "SELECT md5(string_agg($_\::text, ' ' ORDER BY id)) FROM $_" } @tables;
my $digest_view = q{SELECT md5(string_agg(decoded_orders::text, ' ' ORDER BY id)) FROM decoded_orders};

# what the page has: a query for the columns, and statements that repair sequences
my ($columns, $repair) = slurp_file('doc/coming-from.md') =~ /^## pgEdge\n.*?^```\n(.*?)^```\n.*?^```\n(.*?)^```\n/ms
  or BAIL_OUT('the page has no such section');

# The old server has the other extension, in two databases.
my $old = PostgreSQL::Test::Cluster->new('old');
$old->init;
$old->append_conf('postgresql.conf', ($settings =~ s/\Q$stage\E/$pgedge/gr) . "fsync = off\nsnowflake.node = 5\n");
$old->start;
my $whose = $ENV{SNOWFLAKE_PGEDGE} ? "pgEdge's extension" : "an extension like pgEdge's";
my %rows;
foreach my $database ('dumped', 'kept')
{
	sql($old, "CREATE DATABASE $database");
	$old->safe_psql($database, "CREATE EXTENSION snowflake; $tables");
	$rows{$database} = $old->safe_psql($database, $digest);
	sql_is(
		[ $old, $database ], $columns, "customers|id\norders|id\npayments|id",
		"$database: the query finds the columns");
	sql_is(
		[ $old, $database ], 'SELECT count(DISTINCT node), max(node) FROM decoded', '1|5',
		"$database: $whose made ids of node 5");
	$old->safe_psql($database, $repair);
}

# What is true when the columns have moved
sub check_moved
{
	my ($node, $database) = @_;

	$node->safe_psql($database, 'CREATE EXTENSION snowflake_adopt');
	$node->safe_psql($database, "CALL snowflake_adopt('$_', 'id', drop_sequence => true)") foreach @tables;
	sql_is([ $node, $database ], $digest, $rows{$database}, "$database: the same rows");
	sql_is(
		[ $node, $database ], q{
SELECT count(*) > 10000, count(*) FILTER (WHERE (extract(epoch FROM generated_at), worker_id, sequence) IS DISTINCT FROM (epoch, node, count))
FROM decoded, snowflake_decode(id)}, 't|0', "$database: all ids mean what they meant");
	sql_is(
		[ $node, $database ],
		q{SELECT string_agg(DISTINCT pg_get_expr(adbin, adrelid), ' ') FROM pg_attrdef WHERE adrelid::regclass::text IN ('customers', 'orders', 'payments')},
		'snowflake_id()', "$database: all columns have the default");
	sql_is(
		[ $node, $database ], q{SELECT count(*) FROM pg_sequences WHERE sequencename LIKE '%_id_seq'}, 0,
		"$database: the sequences are gone");

	finish_clients(
		start_clients($node, '--client=8 --transactions=500', <<'EOC', $database), "$database: clients insert");
INSERT INTO customers (name) VALUES ('new') RETURNING id \gset
INSERT INTO orders (customer_id) VALUES (:id) RETURNING id \gset
INSERT INTO payments (order_id) VALUES (:id);
EOC
	sql_is(
		[ $node, $database ], q{
SELECT count(*), count(*) - count(DISTINCT id), count(*) FILTER (WHERE id <= (SELECT max(id) FROM old_ids)),
	min(snowflake_worker_id(id)), max(snowflake_worker_id(id))
FROM ids
WHERE id NOT IN (SELECT id FROM old_ids)}, '12000|0|0|5|5',
		"$database: new ids are this node's, above all old ones, and none comes twice");
	return;
}

# Another server
my $view = $old->safe_psql('dumped', $digest_view);
my $new = new_server('new', 'snowflake.layout' => 'pgedge', 'snowflake.worker_id' => 5);
sql($new, 'CREATE DATABASE dumped');
$new->safe_psql('dumped', 'CREATE EXTENSION snowflake');
my @psql = (
	'psql', '--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1',
	'--dbname' => $new->connstr('dumped'),
	'--file');
# the owner of the schema could replace the functions
$new->safe_psql('dumped', 'CREATE ROLE mallory; CREATE SCHEMA snowflake AUTHORIZATION mallory');
command_fails([ @psql, 'doc/convert/pgedge.sql' ], 'dumped: no functions in the schema of another role');
$new->safe_psql('dumped', 'DROP SCHEMA snowflake; DROP ROLE mallory; CREATE ROLE "Admin" LOGIN SUPERUSER');
command_ok([ @psql, 'doc/convert/pgedge.sql', '--username' => 'Admin' ], 'dumped: functions of the old names');
command_ok(
	[ 'pg_dump', '--exclude-schema=snowflake', '--file', "$dir/dump.sql", $old->connstr('dumped') ],
	'dumped: it is dumped');
command_ok([ @psql, "$dir/dump.sql" ], 'dumped: and restored without an error');
sql_is([ $new, 'dumped' ], $digest_view, $view, 'dumped: a view that calls the functions has the same rows');
sql_is(
	[ $new, 'dumped' ], q{
BEGIN;
INSERT INTO customers (name) VALUES ('before') RETURNING snowflake.currval('customers_id_seq') = id AND id NOT IN (SELECT id FROM old_ids);
ROLLBACK}, 't', 'dumped: defaults work before the columns are adopted');
$new->safe_psql('dumped', 'CREATE SEQUENCE pooled INCREMENT 50');
sql_fails(
	[ $new, 'dumped' ], "SELECT snowflake.nextval('pooled')", '0A000',
	'dumped: a sequence that counts in steps is refused');
check_moved($new, 'dumped');
$new->safe_psql(
	'dumped',
	'DROP VIEW decoded_orders; DROP SCHEMA snowflake CASCADE; INSERT INTO customers DEFAULT VALUES');
$new->stop;

# In place; a view that calls functions of the extension goes with them
$old->safe_psql('dumped', 'DROP EXTENSION snowflake CASCADE');
$old->safe_psql('kept', 'DROP EXTENSION snowflake CASCADE');
$old->stop;
$old->adjust_conf('postgresql.conf', 'snowflake.node', undef);
$old->append_conf('postgresql.conf', "$settings\nsnowflake.layout = 'pgedge'\nsnowflake.worker_id = 5\n");
$old->start;
$old->safe_psql('kept', 'CREATE EXTENSION snowflake');
check_moved($old, 'kept');

done_testing();

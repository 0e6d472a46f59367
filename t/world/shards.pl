# postgres_fdw: a table in two parts, one of them on another server; where ids are made,
# and ids that are made on both sides.

use FindBin;
use lib "$FindBin::RealBin/..";
use SnowflakeTest;

# the worker ids of both servers
my ($here, $there) = (1, 2);
my $local = new_server('here', 'snowflake.worker_id' => $here);
my $remote = new_server('there', 'snowflake.worker_id' => $there);

sub made_by
{
	my ($sql) = @_;
	return sql($local, "WITH new AS ($sql RETURNING id) SELECT DISTINCT snowflake_worker_id(id) FROM new");
}

sql($remote, <<'EOC');
CREATE TABLE orders_1 (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), customer int, item text);
EOC
sql($local, sprintf(<<'EOC', $remote->host, $remote->port));
CREATE EXTENSION postgres_fdw;
CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '%s', port '%s', dbname 'postgres', batch_size '100');
CREATE USER MAPPING FOR CURRENT_USER SERVER there;
CREATE TABLE orders (id bigint NOT NULL DEFAULT snowflake_nextval(), customer int, item text)
	PARTITION BY HASH (customer);
CREATE TABLE orders_0 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE FOREIGN TABLE orders_1 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER there;
CREATE FOREIGN TABLE other_defaults (id bigint, customer int, item text)
	SERVER there OPTIONS (table_name 'orders_1');
CREATE FOREIGN TABLE without_id (customer int, item text)
	SERVER there OPTIONS (table_name 'orders_1');
CREATE FOREIGN TABLE asks_there (id bigint GENERATED ALWAYS AS (NULL::bigint) STORED, customer int, item text)
	SERVER there OPTIONS (table_name 'orders_1');
CREATE SCHEMA imported;
IMPORT FOREIGN SCHEMA public LIMIT TO (orders_1) FROM SERVER there INTO imported OPTIONS (import_default 'true');
EOC

# The guide describes where defaults are evaluated.
is( made_by('INSERT INTO orders (customer) SELECT generate_series(1, 100)'), $here,
	'with the parent table, all ids are made here');
cmp_ok(sql($remote, 'SELECT count(*) FROM orders_1'), '>', 10, 'even those of remote rows');
is( made_by('INSERT INTO orders_1 (customer) VALUES (1)'), $here,
	'with the foreign table, its own default is evaluated here');
sql_fails(
	$local, 'INSERT INTO other_defaults (customer) VALUES (1)', '23502',
	'a foreign table without a default sends NULL');
sql($local, 'INSERT INTO without_id (customer) VALUES (4711)');
sql_is(
	$remote, 'SELECT snowflake_worker_id(id) FROM orders_1 WHERE customer = 4711', $there,
	'a foreign table without the column leaves it to the remote default');
is( made_by('INSERT INTO asks_there (customer) VALUES (1)'), $there,
	'so does one with a generated column, which also returns the id');
is(made_by('INSERT INTO imported.orders_1 (customer) VALUES (1)'), $here, 'an imported default is evaluated here');

# both sides at the same time, each in its own way
my @clients = (
	start_clients($local, '--client=4 --time=10', 'INSERT INTO orders (customer) SELECT generate_series(1, 20);'),
	start_clients(
		$remote, '--client=4 --time=10', 'INSERT INTO orders_1 (customer) SELECT 1 FROM generate_series(1, 20);'));
finish_clients($_, 'clients insert on both sides') foreach @clients;

my ($rows, $duplicates, $workers) = split /\|/,
  sql($local, 'SELECT count(*), count(*) - count(DISTINCT id), count(DISTINCT snowflake_worker_id(id)) FROM orders');
note("$rows rows");
cmp_ok($rows, '>', 20_000, 'there are many rows');
is($duplicates, 0, 'all ids differ, which no index could ensure');
is($workers, 2, 'they were made on both sides');

done_testing();

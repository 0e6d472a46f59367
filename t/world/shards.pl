# postgres_fdw: a table in two parts, one of them on another server, with ids
# that are made on either side; and on which side that is.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/..";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

# in the ids: who made them
my ($here, $there) = (1, 2);
my $local = new_server('here', 'snowflake.worker_id' => $here);
my $remote = new_server('there', 'snowflake.worker_id' => $there);

sub made_by
{
	my ($sql) = @_;
	return $local->safe_psql(
		'postgres',
		"WITH new AS ($sql RETURNING id) SELECT DISTINCT snowflake_worker_id(id) FROM new");
}

$remote->safe_psql('postgres', <<'EOC');
CREATE TABLE orders_1 (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), customer int, item text);
EOC
$local->safe_psql('postgres', sprintf(<<'EOC', $remote->host, $remote->port));
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

# What the guide says about where defaults are evaluated.
is( made_by('INSERT INTO orders (customer) SELECT generate_series(1, 100)'),
	$here, 'through the parent, all ids are made here');
cmp_ok($remote->safe_psql('postgres', 'SELECT count(*) FROM orders_1'), '>', 10, 'also those of rows that live there');
is( made_by('INSERT INTO orders_1 (customer) VALUES (1)'),
	$here, 'into the foreign table, by its own default, here');
is( (sqlstate_of($local, 'INSERT INTO other_defaults (customer) VALUES (1)'))[0], '23502',
	'a foreign table without a default sends NULL');
$local->safe_psql('postgres', 'INSERT INTO without_id (customer) VALUES (4711)');
is( $remote->safe_psql('postgres', 'SELECT snowflake_worker_id(id) FROM orders_1 WHERE customer = 4711'),
	$there, 'one without the column leaves it to the default there');
is( made_by('INSERT INTO asks_there (customer) VALUES (1)'),
	$there, 'and so does one whose column is generated, which also returns it');
is( made_by('INSERT INTO imported.orders_1 (customer) VALUES (1)'),
	$here, 'a default that is imported is evaluated here');

# both sides at once, each in its own way
my @clients = (
	start_clients($local, '--client=4 --time=10', 'INSERT INTO orders (customer) SELECT generate_series(1, 20);'),
	start_clients(
		$remote, '--client=4 --time=10', 'INSERT INTO orders_1 (customer) SELECT 1 FROM generate_series(1, 20);'));
finish_clients($_, 'inserted on either side') foreach @clients;

my ($rows, $duplicates, $workers) = split /\|/, $local->safe_psql(
	'postgres',
	'SELECT count(*), count(*) - count(DISTINCT id), count(DISTINCT snowflake_worker_id(id)) FROM orders');
note("$rows rows");
cmp_ok($rows, '>', 20_000, 'there are many rows');
is($duplicates, 0, 'with different ids, which no index could tell');
is($workers, 2, 'made on both sides');

done_testing();

# pg_dump and restore of tables with the default, by a superuser and by an
# owner of a database who is none.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $node = new_server('main');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';

$node->safe_psql(
	'postgres', q{
CREATE ROLE owner LOGIN;
CREATE DATABASE source OWNER owner;
CREATE DATABASE copy OWNER owner;
CREATE DATABASE custom OWNER owner;
});

# the extension is trusted: the owner of a database may create it
my @owner = (extra_params => [ '-U', 'owner' ]);
$node->safe_psql(
	'source', q{
CREATE EXTENSION snowflake;
CREATE TABLE items (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text);
CREATE TABLE parts (id bigint DEFAULT snowflake_nextval(), item bigint REFERENCES items) PARTITION BY RANGE (id);
CREATE TABLE parts_all PARTITION OF parts DEFAULT;
CREATE INDEX ON items (snowflake_timestamp(id, 'snowflake'));
CREATE VIEW recent AS SELECT name, snowflake_timestamp(id) FROM items;
INSERT INTO items (name) SELECT 'item ' || i FROM generate_series(1, 1000) AS i;
INSERT INTO parts (item) SELECT id FROM items;
}, @owner);
my $digest =
  'SELECT (SELECT md5(string_agg(i::text, chr(10) ORDER BY id)) FROM items AS i), (SELECT md5(string_agg(p::text, chr(10) ORDER BY id)) FROM parts AS p)';
my $expected = $node->safe_psql('source', $digest, @owner);

my @connection = ('--host', $node->host, '--port', $node->port);
command_ok([ 'pg_dump', @connection, '--username=owner', '--file', $dump, 'source' ], 'dump by the owner');
command_ok([ 'psql', @connection, '--username=owner', '--quiet', '--no-psqlrc', '--set=ON_ERROR_STOP=1', '--file', $dump, 'copy' ], 'restore by the owner');
unlink $dump;
command_ok([ 'pg_dump', @connection, '--format=custom', '--file', $dump, 'source' ], 'dump by a superuser');
command_ok([ 'pg_restore', @connection, '--exit-on-error', '--dbname=custom', $dump ], 'restore by a superuser');

foreach my $database ('copy', 'custom')
{
	is($node->safe_psql($database, $digest, @owner), $expected, "$database: the same rows");
	is( $node->safe_psql(
			$database, q{
INSERT INTO items (name) VALUES ('new') RETURNING id > ALL (SELECT id FROM items);
WITH new AS (INSERT INTO parts (item) SELECT id FROM items RETURNING id)
SELECT count(DISTINCT id) FROM new;
}, @owner),
		"t\n1001",
		"$database: the default makes ids that are new");
	is($node->safe_psql($database, "SELECT count(*) FROM recent", @owner), 1001, "$database: views work");
}

$node->stop;
done_testing();

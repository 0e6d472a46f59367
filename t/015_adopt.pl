# Adopting all keys of a schema goes step by step: the steps before an interruption stand,
# and the next call does the rest.

use SnowflakeTest;

my $node = new_server('adopt', client_min_messages => 'warning');
sql($node, 'CREATE EXTENSION snowflake_adopt');

# as a role that owns the tables and nothing else
sql($node, q{
CREATE ROLE seller LOGIN;
CREATE SCHEMA shop AUTHORIZATION seller;
SET ROLE seller;
SET search_path = shop;
CREATE TABLE colors (id serial PRIMARY KEY);
CREATE TABLE clients (id serial PRIMARY KEY, v int);
CREATE TABLE sales (id serial PRIMARY KEY, client int REFERENCES clients);
CREATE TABLE visits (id serial PRIMARY KEY, client int REFERENCES clients);
INSERT INTO clients SELECT FROM generate_series(1, 1000);
INSERT INTO sales (client) SELECT id FROM clients;
INSERT INTO visits (client) SELECT id FROM clients;});

# for each table: the types of its key and of references to it, and whether the key
# makes ids
my $state = q{
SELECT string_agg(format('%s %s%s', relname, (SELECT string_agg(atttypid::regtype::text, ' ' ORDER BY attnum)
		FROM pg_attribute WHERE attrelid = pg_class.oid AND attname IN ('id', 'client')),
	CASE WHEN pg_get_expr(adbin, adrelid) ~ 'snowflake_id' THEN ' new' END), ', ' ORDER BY relname)
FROM pg_class JOIN pg_attrdef ON adrelid = pg_class.oid
WHERE relnamespace = 'shop'::regnamespace AND relkind = 'r'};
my $files = q{SELECT string_agg(pg_relation_filenode(oid)::text, ' ' ORDER BY relname)
FROM pg_class WHERE relnamespace = 'shop'::regnamespace AND relname = 'colors'};
my $adopt_all = "SET lock_timeout = '200ms'; CALL snowflake_adopt_all('shop')";

my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE shop.visits IN ACCESS SHARE MODE');
sql_fails(
	[ $node, 'postgres', 'seller' ], "$adopt_all", '55P03',
	'adoption with a transaction for each step is interrupted');
sql_is(
	$node, $state, 'clients integer, colors bigint, sales integer integer, visits integer integer',
	'completed steps stand');
my $rewritten = sql($node, $files);
$locker->query_safe('COMMIT');
$locker->quit;
my ($code, $messages) = sqlstate_of([ $node, 'postgres', 'seller' ], "SET client_min_messages = notice; $adopt_all");
is($code, '00000', 'the next call succeeds');
like($messages, qr/step 1: rewrite table shop\.clients .*step 1 took [0-9.]+ s/s, 'its messages name the work done');
sql_is(
	$node, $state, 'clients bigint new, colors bigint new, sales bigint bigint new, visits bigint bigint new',
	'all keys make ids');
sql_is($node, $files, $rewritten, 'no table is rewritten twice');
# each step locks only what it changes, and references to that
sql($node, 'CREATE TABLE shop.first (id serial PRIMARY KEY); CREATE TABLE shop.second (id serial PRIMARY KEY);
CREATE TABLE shop.third (id serial PRIMARY KEY); ALTER SCHEMA shop OWNER TO CURRENT_USER');
sql_is(
	$node, q{
BEGIN;
CALL snowflake_adopt_all('shop', dry_run => true);
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation >= 16384}, 0, 'a plan keeps no locks on tables'
);
$locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE shop.second IN ACCESS SHARE MODE');
my $adopter = $node->background_psql('postgres');
my $pid = $adopter->query_safe('SELECT pg_backend_pid()');
begin_query($adopter, "CALL snowflake_adopt_all('shop');");
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE pid = $pid AND NOT granted") or die;
sql_is(
	$node, "SELECT count(*) FROM pg_locks WHERE pid = $pid AND granted
	AND relation IN ('shop.first'::regclass, 'shop.third'::regclass)", 0, 'tables of other steps are not locked');
$locker->query_safe('COMMIT');
$adopter->query_safe('SELECT 1');
$_->quit foreach $locker, $adopter;
sql_succeeds($node, "CALL snowflake_adopt_all('shop')", 'a further call has nothing to do');

done_testing();

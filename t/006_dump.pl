# A database that is dumped and restored or copied takes its mark along, whether a
# superuser or an ordinary owner does it.  New ids are above all old ones, even if the
# clock of the new server passes the same ticks again, and even if a dump loaded into a
# database in use sets the mark back.

use List::Util qw(max);
use SnowflakeTest;

# One lane, and no random numbers, so that new ids would collide with old ones.  The
# mark may be ahead of the clock by far more than the time that passes again.
my %settings = (
	clock => 1,
	synchronous_commit => 'on',
	'snowflake.layout' => 'snowflake lane:0',
	'snowflake.sequence_start' => 'zero',
	'snowflake.worker_id' => 3,
	'snowflake.max_ahead' => '1min',
	'snowflake.max_set_back' => 0,
	'snowflake.max_wait' => 0);
my $dir = PostgreSQL::Test::Utils::tempdir();
# options of a client that dumps and restores
my %user = (superuser => [], owner => [ '--username', 'owner' ]);
my $digest = q{SELECT (SELECT md5(string_agg(i::text, chr(10) ORDER BY id)) FROM items AS i),
	(SELECT md5(string_agg(p::text, chr(10) ORDER BY id)) FROM parts AS p)};
my $mark = 'SELECT last_value FROM snowflake_internal.mark';

# Make ids while the clock passes the time of an earlier run again.  All of them have to be
# above those.
sub continues
{
	my ($node, $database, $old, $name) = @_;
	my ($number, $duplicates, $lower) = live_again($node, $database, $old);

	is($lower + $duplicates, 0, "$name: of $number ids $lower are below old ones, $duplicates are duplicates");
	return;
}

sub dump_ok
{
	my ($node, $who, $file, @options) = @_;

	unlink $file;
	command_ok(
		[
			'pg_dump', '--host', $node->host, '--port', $node->port,
			@{ $user{$who} }, '--file', $file, @options, 'source'
		],
		"pg_dump by the $who: @options");
	return;
}

sub load_ok
{
	my ($node, $who, $file, $database, @options) = @_;
	my @command = ('psql', '--quiet', '--no-psqlrc', '--set=ON_ERROR_STOP=1', '--output=/dev/null', '--file', $file);

	@command = ('pg_restore', '--exit-on-error', $file) if $file =~ /custom$/;
	command_ok(
		[
			@command, '--host', $node->host, '--port', $node->port,
			@{ $user{$who} }, '--dbname', $database, @options
		],
		"$command[0] by the $who: into $database @options");
	return;
}

# Start a server, and have it read its clock an hour ahead.  After that, it trusts a
# clock that steps to anything less.
sub start_without_doubt
{
	my ($node) = @_;

	start_with_clock($node, 3600);
	sql($node, 'SELECT snowflake_advance(0)');
	set_clock($node, 0);
	return;
}

# Restart a server, because until then lanes remember earlier ids, including those of
# other databases.
sub restart
{
	my ($node) = @_;

	$node->stop;
	start_without_doubt($node);
	return;
}

my $node = new_server('main', %settings);
my $target = new_server('target', %settings);
restart($_) foreach $node, $target;

sql($_, 'CREATE ROLE owner LOGIN; CREATE ROLE visitor LOGIN') foreach $node, $target;
sql($node, 'CREATE DATABASE source OWNER owner');

# the extension is trusted, so that the owner of a database may create it
sql([ $node, 'source', 'owner' ], q{
CREATE EXTENSION snowflake;
CREATE TABLE items (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text);
CREATE TABLE parts (id bigint DEFAULT snowflake_nextval(), item bigint REFERENCES items) PARTITION BY RANGE (id);
CREATE TABLE parts_all PARTITION OF parts DEFAULT;
CREATE INDEX ON items (snowflake_timestamp(id, 'snowflake'));
INSERT INTO items (name) SELECT 'item ' || i FROM generate_series(1, 1000) AS i;
INSERT INTO parts (item) SELECT id FROM items;
});
my $rows = sql([ $node, 'source', 'owner' ], $digest);

# No table has these ids: all that a dump contains of them is the mark.
my $old = make_ids($node, 'source');

my @kinds = ([ 'superuser', 'plain' ], [ 'superuser', 'custom' ], [ 'owner', 'plain' ], [ 'owner', 'custom' ]);
dump_ok($node, $_->[0], "$dir/$_->[0].$_->[1]", "--format=$_->[1]") foreach @kinds;
dump_ok($node, 'owner', "$dir/schema", '--schema-only');

# Check what was restored on a new server, whose clock is behind.
sub check_restored
{
	my ($database, $name) = @_;

	sql_is([ $target, $database, 'owner' ], $digest, $rows, "$name: the rows are the same");

	set_clock($target, -3600);
	sql_fails(
		[ $target, $database ], 'SELECT snowflake_nextval()', 'SF001',
		"$name: no ids while the clock is back by an hour");
	continues($target, $database, $old, $name);

	cmp_ok(
		sql([ $target, $database, 'owner' ], $mark),
		'>', max(@{ $old->{ids} }), "$name: the owner can read the mark");
	cmp_ok(
		sql([ $target, $database, 'visitor' ], 'SELECT snowflake_nextval()'),
		'>', max(@{ $old->{ids} }), "$name: but any role can make ids");

	sql_is(
		[ $target, $database, 'owner' ], q{
INSERT INTO items (name) VALUES ('new') RETURNING id > ALL (SELECT id FROM items);
WITH new AS (INSERT INTO parts (item) SELECT id FROM items RETURNING id)
SELECT count(DISTINCT id) FROM new;
}, "t\n1001", "$name: the default makes new ids");
	return;
}

foreach my $kind (@kinds)
{
	my ($who, $format) = @$kind;
	my $database = "${who}_$format";

	restart($target);
	sql($target, "CREATE DATABASE $database OWNER owner");
	load_ok($target, $who, "$dir/$who.$format", $database, '--single-transaction');
	check_restored($database, "$format by the $who");
}

# a dump without data has no mark
sql($target, 'CREATE DATABASE empty OWNER owner');
load_ok($target, 'owner', "$dir/schema", 'empty');
sql_is(
	[ $target, 'empty', 'owner' ], 'INSERT INTO items DEFAULT VALUES RETURNING snowflake_worker_id(id)', 3,
	'ids in a database that was restored without data');

# copies of a database
set_clock($target, 20);
my $template = make_ids($target, 'owner_plain');
foreach my $strategy ('wal_log', 'file_copy')
{
	my $database = "copy_$strategy";

	sql($target, "CREATE DATABASE $database TEMPLATE owner_plain STRATEGY $strategy");
	continues($target, $database, $template, $database);
	restart($target);
	continues($target, $database, $template, "$database, restart");
}

# created again with the same OID, from a copy in which the mark was set
sql($target, 'CREATE DATABASE again OID 60001 TEMPLATE owner_plain');
my $set =
  sql([ $target, 'again' ], "SELECT snowflake_nextval(); SELECT snowflake_first_from(now() + '10 s')") =~ s/.*\n//r;
sql($target, 'CREATE DATABASE copied TEMPLATE again; DROP DATABASE again');
sql([ $target, 'copied' ], "SELECT setval('snowflake_internal.mark', $set)");
sql($target, 'CREATE DATABASE again OID 60001 TEMPLATE copied');
sql_is([ $target, 'again' ], "SELECT snowflake_nextval() > $set", 't', 'ids are above a mark that a copy comes with');
$target->stop;

# Loaded into the original database, which has moved on

# Ways to recover lost rows from a dump that is older than the last ids
my %way = (
	'data' => { file => "$dir/data", dump => ['--data-only'], before => 'TRUNCATE items, parts', load => [] },
	'everything' => {
		file => "$dir/everything.custom",
		dump => ['--format=custom'],
		before => 'SELECT',
		load => [ '--clean', '--if-exists' ]
	});

sub load_the_past
{
	my ($who, $way, $made) = @_;

	sql([ $node, 'source', 'owner' ], $way{$way}{before});
	load_ok($node, $who, $way{$way}{file}, 'source', @{ $way{$way}{load} });
	sql_is([ $node, 'source' ], $digest, $rows, 'the rows are back');
	cmp_ok($node->safe_psql('source', $mark), '<', $made->{ids}[-1], 'the mark is back where it was, too');
	return;
}

# Make ids with the clock set further ahead.
my $ahead = 0;

sub make_ids_later
{
	my ($seconds) = @_;

	set_clock($node, $ahead += $seconds);
	return make_ids($node, 'source');
}

foreach my $round ([ 'owner', 'data' ], [ 'superuser', 'everything' ])
{
	my ($who, $way) = @$round;
	my $name = "$way loaded by the $who";

	# ids above all earlier ones, which the mark in the dump covers, and ids above that
	make_ids_later(30);
	dump_ok($node, $who, $way{$way}{file}, @{ $way{$way}{dump} });
	my $before = make_ids_later(5);
	load_the_past($who, $way, $before);

	# the next move of the mark detects it
	my $offset = -s $node->logfile;
	my $made = make_ids_later(5);
	cmp_ok($made->{ids}[0], '>', $before->{ids}[-1], "$name: ids continue above the earlier ones");
	ok( $node->log_contains(qr/LOG: .*"snowflake_internal.mark" was set below the snowflake ids/, $offset),
		"$name: the log reports it");
	cmp_ok($node->safe_psql('source', $mark), '>', $made->{ids}[-1], "$name: the mark is corrected");

	# or never, because the server crashes first
	load_the_past($who, $way, $made);
	$node->stop('immediate');
	start_without_doubt($node);
	continues($node, 'source', $made, "$name, crash");
}
$node->stop;

done_testing();

# A database that is dumped and restored or copied takes its mark along, whether a
# superuser or an ordinary owner does it.  New ids are above all old ones, even if the
# clock of the new server passes the same ticks again, and even if a dump loaded into a
# database in use sets the mark back.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use IPC::Run;
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(time);

# Few lanes, and no random numbers, so that new ids would collide with old ones.  The
# mark may be ahead of the clock by far more than the time that passes again.
my %settings = (
	clock => 1,
	synchronous_commit => 'on',
	'snowflake.layout' => 'snowflake lane:1',
	'snowflake.sequence_start' => 'zero',
	'snowflake.worker_id' => 3,
	'snowflake.max_ahead' => '1min');

my $dir = PostgreSQL::Test::Utils::tempdir();
my $say_clock = "SELECT extract(epoch FROM clock_timestamp());\n";
append_to_file(
	"$dir/script",
	$say_clock . "SELECT snowflake_nextval() FROM generate_series(1, 50), pg_sleep(0.002);\n" x 200 . $say_clock);

# options of a client that dumps and restores
my %user = (superuser => [], owner => [ '--username', 'owner' ]);
my @owner = (extra_params => $user{owner});
my @visitor = (extra_params => [ '--username', 'visitor' ]);

my $digest =
  'SELECT (SELECT md5(string_agg(i::text, chr(10) ORDER BY id)) FROM items AS i), (SELECT md5(string_agg(p::text, chr(10) ORDER BY id)) FROM parts AS p)';

# Read the clock of a server, and set it to such a value.
sub clock_of
{
	my ($node) = @_;

	return $node->safe_psql('postgres', $say_clock);
}

sub set_clock_to
{
	my ($node, $instant) = @_;

	set_clock($node, $instant - time);
	return;
}

# Make ids with two clients, and note when by the server's clock.  Set that to an instant
# before, if one is given: once they are connected, as a busy machine takes its time for
# that.
sub make_ids
{
	my ($node, $database, $instant) = @_;
	my @clients;
	my %run = (ids => [], begin => 'inf', end => 0);

	foreach my $i (0, 1)
	{
		my %client = (in => "SET snowflake.max_wait = 0;\n\\echo ready\n", out => '', err => '');

		$client{run} = IPC::Run::start(
			[ 'psql', '-XAtq', '--set=ON_ERROR_STOP=1', '--dbname', $node->connstr($database) ],
			'<' => \$client{in},
			'>' => \$client{out},
			'2>' => \$client{err});
		push @clients, \%client;
	}
	foreach my $client (@clients)
	{
		$client->{run}->pump until $client->{out} =~ /ready/;
	}
	set_clock_to($node, $instant) if defined $instant;
	foreach my $i (0, 1)
	{
		# neither client may wait for us to read what the other one writes
		$clients[$i]{in} .= "\\o $dir/ids$i\n\\i $dir/script\n";
		$clients[$i]{run}->pump_nb while length $clients[$i]{in};
	}
	foreach my $i (0, 1)
	{
		$clients[$i]{run}->finish or fail("a client fails: $clients[$i]{err}");

		my ($begin, @ids) = split /\n/, slurp_file("$dir/ids$i");
		my $end = pop @ids;
		push @{ $run{ids} }, @ids;
		$run{begin} = min($run{begin}, $begin);
		$run{end} = max($run{end}, $end);
	}
	return \%run;
}

# Return how many ids of a run were made before, and how many are not greater.
sub repeats
{
	my ($old, $new) = @_;
	my $greatest = max(@{ $old->{ids} });
	my %seen = map { $_ => 1 } @{ $old->{ids} };
	my $duplicates = grep { $seen{$_}++ } @{ $new->{ids} };
	my $lower = grep { $_ <= $greatest } @{ $new->{ids} };

	return ($duplicates, $lower);
}

sub is_above
{
	my ($old, $new, $name) = @_;
	my ($duplicates, $lower) = repeats($old, $new);
	my $number = @{ $new->{ids} };

	is("$duplicates, $lower", '0, 0', "$name: of $number ids none is a duplicate, and none is below an old one");
	return;
}

my $duplicates_of_mutants = 0;

sub is_not_above
{
	my ($old, $new, $name) = @_;
	my ($duplicates, $lower) = repeats($old, $new);
	my $number = @{ $new->{ids} };

	# whether two ids collide is up to chance
	cmp_ok($lower, '>', 0, "$name: of $number ids $lower are below old ones, $duplicates are duplicates");
	$duplicates_of_mutants += $duplicates;
	return;
}

# Make ids while the clock passes the time of an earlier run again.
sub live_again
{
	my ($node, $database, $old, $name) = @_;

	my $instant = $old->{begin} - 1;
	my ($new, $again) = live_through(
		$old, 20,
		sub {
			my $run = make_ids($node, $database, $instant);
			undef $instant;
			return $run;
		});
	cmp_ok($again, '>', 1000, "$name: the clock passes the time of $again ids again");
	return $new;
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
	$node->safe_psql('postgres', 'SELECT snowflake_advance(0)');
	set_clock($node, 0);
	return;
}

# Restart a server, because until then lanes remember earlier ids, including those of
# other databases.
sub restart
{
	my ($node, $mutant) = @_;

	$node->stop;
	use_mutant($node, $mutant) if $mutant;
	start_without_doubt($node);
	return;
}

#
# The source of the dumps
#

my $node = new_server('main', %settings);
my $target = new_server('target', %settings);
restart($_) foreach $node, $target;

$node->safe_psql(
	'postgres', q{
CREATE ROLE owner LOGIN;
CREATE ROLE visitor LOGIN;
CREATE DATABASE source OWNER owner;
});

# the extension is trusted, so that the owner of a database may create it
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
my $rows = $node->safe_psql('source', $digest, @owner);

# No table has these ids: all that a dump contains of them is the mark.
my $old = make_ids($node, 'source');

my @kinds = ([ 'superuser', 'plain' ], [ 'superuser', 'custom' ], [ 'owner', 'plain' ], [ 'owner', 'custom' ]);
dump_ok($node, $_->[0], "$dir/$_->[0].$_->[1]", "--format=$_->[1]") foreach @kinds;
dump_ok($node, 'owner', "$dir/schema", '--schema-only');
command_ok([ 'pg_dumpall', '--host', $node->host, '--port', $node->port, '--file', "$dir/all" ], 'pg_dumpall');

#
# Restored on a new server, whose clock is behind
#

sub check_restored
{
	my ($database, $name) = @_;

	is($target->safe_psql($database, $digest, @owner), $rows, "$name: the rows are the same");

	set_clock($target, -3600);
	my ($code) = sqlstate_of(
		$target,
		"\\connect $database\nSET snowflake.max_wait = 0;\nSELECT snowflake_nextval();");
	is($code, 'SF001', "$name: no ids while the clock is back by an hour");
	is_above($old, live_again($target, $database, $old, $name), $name);

	cmp_ok(
		$target->safe_psql($database, 'SELECT last_value FROM snowflake_internal.mark', @owner),
		'>', max(@{ $old->{ids} }), "$name: the owner can read the mark");
	is( $target->safe_psql(
			$database, q{
SELECT role, has_sequence_privilege(role, mark, 'SELECT'), has_sequence_privilege(role, mark, 'UPDATE'), has_table_privilege(role, guard, 'SELECT'),
	has_table_privilege(role, guard, 'INSERT')
FROM unnest('{owner,visitor}'::text[]) AS role, (VALUES ('snowflake_internal.mark', 'snowflake_internal.guard')) AS r (mark, guard)
ORDER BY role;
}),
		"owner|t|t|f|f\nvisitor|f|f|f|f",
		"$name: others cannot, and the guard cannot be set");
	cmp_ok(
		$target->safe_psql($database, 'SELECT snowflake_nextval()', @visitor),
		'>', max(@{ $old->{ids} }), "$name: but any role can make ids");

	is( $target->safe_psql(
			$database, q{
INSERT INTO items (name) VALUES ('new') RETURNING id > ALL (SELECT id FROM items);
WITH new AS (INSERT INTO parts (item) SELECT id FROM items RETURNING id)
SELECT count(DISTINCT id) FROM new;
}, @owner),
		"t\n1001",
		"$name: the default makes new ids");
	is($target->safe_psql($database, "SELECT count(*) FROM recent", @owner), 1001, "$name: views work");
	return;
}

my ($out, $err);
IPC::Run::run(
	[ 'psql', '--no-psqlrc', '--quiet', '--file', "$dir/all", '--dbname', $target->connstr('postgres') ],
	'>' => \$out,
	'2>' => \$err);
is( join(' ', $err =~ /ERROR: +(.*)/g),
	'role "' . $target->safe_psql('postgres', 'SELECT current_user') . '" already exists',
	'the output of pg_dumpall can be restored');
check_restored('source', 'pg_dumpall');

foreach my $kind (@kinds)
{
	my ($who, $format) = @$kind;
	my $database = "${who}_$format";

	restart($target);
	$target->safe_psql('postgres', "CREATE DATABASE $database OWNER owner");
	load_ok($target, $who, "$dir/$who.$format", $database, '--single-transaction');
	check_restored($database, "$format by the $who");
}

# a dump without data has no mark
$target->safe_psql('postgres', 'CREATE DATABASE empty OWNER owner');
load_ok($target, 'owner', "$dir/schema", 'empty');
is( $target->safe_psql('empty', 'INSERT INTO items DEFAULT VALUES RETURNING snowflake_worker_id(id)', @owner),
	3,
	'ids in a database that was restored without data');

# copies of a database
set_clock($target, 20);
my $template = make_ids($target, 'owner_plain');
foreach my $strategy ('wal_log', 'file_copy')
{
	my $database = "copy_$strategy";

	$target->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE owner_plain STRATEGY $strategy");
	is_above($template, live_again($target, $database, $template, $database), $database);
	restart($target);
	is_above($template, live_again($target, $database, $template, "$database, restart"), "$database, restart");
}

# The same checks find ids that are made again by a mutant.
if (can_use_mutants())
{
	restart($target, 'forgets the mark');
	$target->safe_psql('postgres', 'CREATE DATABASE mutant');
	load_ok($target, 'superuser', "$dir/owner.custom", 'mutant');
	is_not_above($old, live_again($target, 'mutant', $old, 'mutant, restored'), 'mutant, restored');
	is_not_above($template, live_again($target, 'copy_wal_log', $template, 'mutant, copied'), 'mutant, copied');
}
$target->stop;

#
# Loaded into the original database, which has moved on
#

# Ways to recover lost rows from a dump that is older than the last ids
my %way = (
	'data' => {
		file => "$dir/data",
		dump => ['--data-only'],
		before => 'TRUNCATE items, parts',
		load => []
	},
	'everything' => {
		file => "$dir/everything.custom",
		dump => ['--format=custom'],
		before => 'SELECT',
		load => [ '--clean', '--if-exists' ]
	});

sub load_the_past
{
	my ($who, $way, $made) = @_;

	$node->safe_psql('source', $way{$way}{before}, @owner);
	load_ok($node, $who, $way{$way}{file}, 'source', @{ $way{$way}{load} });
	is($node->safe_psql('source', $digest), $rows, 'the rows are back');
	cmp_ok(
		$node->safe_psql('source', 'SELECT last_value FROM snowflake_internal.mark'),
		'<', max(@{ $made->{ids} }), 'the mark is back where it was, too');
	return;
}

foreach my $round (
	[ 'owner', 'data' ],
	[ 'owner', 'everything' ],
	[ 'superuser', 'data' ],
	[ 'superuser', 'everything' ],
	can_use_mutants()
	? ([ 'owner', 'data', 'has no guard' ], [ 'superuser', 'everything', 'forgets what was dropped' ])
	: ())
{
	my ($who, $way, $mutant) = @$round;
	my $name = "$way loaded by the $who" . ($mutant ? ", mutant" : '');
	my $clock = clock_of($node);
	my @ids;

	# set the clock ahead of all earlier ids
	restart($node, $mutant) if $mutant;
	set_clock_to($node, $clock + 20);
	push @ids, @{ make_ids($node, 'source')->{ids} };
	dump_ok($node, $who, $way{$way}{file}, @{ $way{$way}{dump} });

	# and ahead of the mark in the dump
	set_clock_to($node, clock_of($node) + 5);
	my $made = make_ids($node, 'source');
	load_the_past($who, $way, $made);

	# the next move of the mark detects it
	my $offset = -s $node->logfile;
	push @ids, @{ $made->{ids} };
	set_clock_to($node, clock_of($node) + 5);
	$made = make_ids($node, 'source');
	is_above({ ids => \@ids }, $made, $name);
	ok( $node->log_contains(qr/LOG: .*"snowflake_internal.mark" was set below the snowflake ids/, $offset),
		"$name: the log reports it") if !$mutant;
	cmp_ok(
		$node->safe_psql('source', 'SELECT last_value FROM snowflake_internal.mark'),
		'>', max(@{ $made->{ids} }), "$name: the mark is corrected");

	# or never, because the server crashes first
	push @{ $made->{ids} }, @ids;
	load_the_past($who, $way, $made);
	$node->stop('immediate');
	start_without_doubt($node);
	my $new = live_again($node, 'source', $made, "$name, crash");
	if ($mutant)
	{
		is_not_above($made, $new, "$name, crash");
	}
	else
	{
		is_above($made, $new, "$name, crash");
	}
}
$node->stop;

cmp_ok($duplicates_of_mutants, '>', 0, 'mutants make duplicates, which are found') if can_use_mutants();

done_testing();

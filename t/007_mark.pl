# The durable mark: its cost, the first ids after a start, and changes to the sequence and the
# guard that hold it.  The simulator has all orders of events.

use SnowflakeTest;

my $last_value = 'SELECT last_value FROM snowflake_internal.mark';

# The cost: at most two records and flushes per second, and none while no ids are made.
my $node = new_server('cost', clock => 1);
my $extensions = 'SELECT mark_extensions FROM snowflake_stat()';
my $position = sql($node, 'SELECT pg_current_wal_insert_lsn()');
my $count = sql($node, $extensions);
my $began = time;
my @collectors = start_collectors($node, 2);
sleep 4;
stop_collectors(@collectors);
my $moves = sql($node, $extensions) - $count;
cmp_ok($moves, '>=', 2, 'the mark is written while ids are made');
cmp_ok($moves, '<=', 2 * (time - $began), 'the mark is written at most twice a second');
# two pages with all their free space would take 16 kB each time
my $size = sql($node, "SELECT pg_current_wal_insert_lsn() - '$position'");
cmp_ok($size, '<', 1000 * $moves + 10_000, 'its records are small');
$count += $moves;
sleep 2;
sql_is($node, $extensions, $count, 'nothing is written while no ids are made');

# The limit is moved early, so that nobody has to wait for it, even if each session makes
# one id.
sql($node, 'SELECT snowflake_nextval()');
$count = sql($node, $extensions);
sleep 1.3;
sql($node, 'SELECT snowflake_nextval()');
sql_is($node, $extensions, $count + 1, 'a new session moves the limit if half of a reservation is used');

# With unbounded borrowing, a crash skips no more.
$node->stop;
$node = new_server('borrow', 'snowflake.max_ahead' => -1, 'snowflake.layout' => 'time:41 worker:5');
my $last = sql($node, 'SELECT max(snowflake_nextval()) >> 5 FROM generate_series(1, 300000)');
$node->stop('immediate');
$node->start;
my $skipped = sql($node, 'SELECT snowflake_nextval() >> 5') - $last;
cmp_ok($skipped, '>', 0, 'after 300 s were borrowed and a crash, ids begin above the mark');
cmp_ok($skipped, '<=', 2010, 'a crash skips two seconds of them');
$node->stop;

# With a small max_ahead, the first call waits for up to a reservation, whatever
# max_wait is.
$node = new_server('little', clock => 1, 'snowflake.max_ahead' => 0, 'snowflake.max_wait' => 0);
my $id = sql($node, 'SELECT snowflake_nextval()');
restart_with($node, stop => 'immediate', clock => -0.1);
cmp_ok(sql($node, 'SELECT snowflake_nextval()'), '>', $id, 'max_ahead = 0: a start waits out the reservation');

# These statements take longer than a reservation, so that they must write the mark: in
# a read-only transaction, and in parallel workers.
my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my $statement =
  "SELECT count(DISTINCT id), max(snowflake_timestamp(id)) - min(snowflake_timestamp(id)) > interval '2.1 s' FROM (SELECT snowflake_nextval() AS id, pg_sleep(0.25) FROM generate_series(1, 10)) AS m";
sql_is($node, "SET default_transaction_read_only = on; $statement", '10|t', 'a read-only transaction writes the mark');
sql_is($node, "SET $force = on; $statement", '10|t', 'a parallel worker writes the mark');
sql_is(
	$node,
	"SET $force = on; SET default_transaction_read_only = on; SET default_transaction_isolation = serializable; $statement",
	'10|t', 'a read-only parallel worker writes the mark');
$node->stop;

# The disk of the WAL is full when the mark is written: a limit on the size of files
# keeps the server from creating another WAL file.
$node = new_server('full', wal_writer_delay => '10s', restart_after_crash => 'off');
$last = sql($node, 'SELECT snowflake_nextval(); SELECT pg_switch_wal()') =~ s/\n.*//r;
my ($postmaster) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
system_or_bail('prlimit', '--pid', $postmaster, '--fsize=8388608');
my @ids = ($last);
my $deadline = time + 30;
do
{
	# psql may be gone before psql() has written the query, which throws an error
	my (undef, $out) = eval { $node->psql('postgres', 'SELECT snowflake_nextval()') };
	push @ids, $out if defined $out && $out =~ /^\d+$/;
	sleep 0.1;
} while (-e $node->data_dir . '/postmaster.pid' && time < $deadline);
like(
	slurp_file($node->logfile), qr/PANIC: .*(File too large|could not write)/,
	'the server panics when it cannot write the mark');
$node->stop('immediate', fail_ok => 1);
$node->start;
sql_is($node, "SELECT snowflake_nextval() > $_", 't', 'after that ids are above all earlier ones') foreach $ids[-1];
$node->stop;

# There is room for a number of databases at the same time.
if (can_use_mutants())
{
	$node = new_server('room', mutant => 'has room for two');
	my %session;
	add_database($node, 'one');
	add_database($node, 'three');
	sql($node, 'CREATE DATABASE two');
	foreach my $database ('postgres', 'one')
	{
		$session{$database} = $node->background_psql($database);
		$last = $session{$database}->query_safe('SELECT snowflake_nextval()');
	}
	sql_fails(
		[ $node, 'two' ], 'CREATE EXTENSION snowflake', '54000', 'an error if there are too many databases',
		qr/too many databases.*HINT: .*sessions in other databases have ended/s);
	sql_is([ $node, 'three' ], 'SELECT state FROM snowflake_status()', 'too many databases', 'the state shows it');
	sql_fails([ $node, 'three' ], 'SELECT snowflake_nextval()', '54000', 'no ids');
	sql_is([ $node, 'three' ], 'SELECT too_many_databases FROM snowflake_stat()', 2, 'which is counted');
	$session{one}->quit;
	sql_becomes_true(
		$node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'one'",
		'a database without sessions');
	sql_succeeds(
		[ $node, 'two' ], 'CREATE EXTENSION snowflake',
		'makes room, although its limit is ahead of the clock');
	$session{postgres}->quit;
	sql_becomes_true([ $node, 'one' ], "SELECT snowflake_nextval() > $last", 'and continues above its ids');
	$node->stop;
}

# Trying a preset strands nobody: the hint says how to get back.
foreach my $case ([ 'snowflake', 'SF001', 'has to reach 204\d-' ], [ 'time:42 sequence:12', 'SF003', 'no tick left' ])
{
	my ($layout, $code, $cause) = @$case;

	$node = new_server('presets', 'snowflake.layout' => $layout, 'snowflake.max_wait' => 0);
	sql($node, 'CREATE TABLE ids (id bigint PRIMARY KEY); INSERT INTO ids SELECT snowflake_nextval()');
	restart_with($node, conf => "snowflake.layout = 'twitter'");
	sql_is($node, 'SELECT snowflake_nextval() > max(id) FROM ids', 't', "$layout: ids of an earlier epoch are greater");
	restart_with($node, conf => "snowflake.layout = '$layout'");
	sql_fails(
		$node, 'SELECT snowflake_nextval()', $code,
		"$layout: after a try of twitter, the error says how to get back",
		qr/$cause.*HINT:  .*return to that.*drop the extension and create it again\./s);
	like(
		sql($node, 'SELECT hint FROM snowflake_status()'), qr/return to that.*drop the extension and create it again\./,
		'and so does the status');
	sql_is(
		$node, 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake;
INSERT INTO ids SELECT snowflake_nextval() RETURNING id > (SELECT max(id) FROM ids)', 't', 'that works');
	$node->stop;
	$node->clean_node;
}

done_testing();

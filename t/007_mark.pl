# The durable mark: its cost, the first ids after a start, advance and reset, and
# changes to the sequence and the guard that hold it.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my ($code, $message);

sub mark_of
{
	my ($node, $database) = @_;
	return $node->safe_psql($database // 'postgres', 'SELECT last_value FROM snowflake_internal.mark');
}

# The cost: at most two records and flushes per second, and none while no ids are made.
my $node = new_server('cost', clock => 1);
my $generic_records = sub {
	my ($start, $end) = @_;
	my ($out) = run_command(
		[
			'pg_waldump', '--rmgr=Generic', "--start=$start", "--end=$end",
			'--path=' . $node->data_dir . '/pg_wal'
		]);
	return split /\n/, $out;
};
my $position = sub { $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()') };
my $start = $position->();
my $began = time;
my @collectors = start_collectors($node, 2);
sleep 4;
stop_collectors(@collectors);
my $seconds = time - $began;
my $end = $node->safe_psql('postgres', 'SELECT pg_switch_wal()');
my @records = $generic_records->($start, $end);
note(scalar(@records) . " records in $seconds s: $records[0]");
cmp_ok(scalar(@records), '>=', 2, 'the mark is written while ids are made');
cmp_ok(scalar(@records), '<=', 2 * $seconds, 'the mark is written at most twice a second');
my ($size) = $records[0] =~ m{len \(rec/tot\):\s+\d+/\s*(\d+)};
cmp_ok($size, '<', 500, 'its records are small');
$start = $position->();
sleep 2;
is( scalar(my @none = $generic_records->($start, $node->safe_psql('postgres', 'SELECT pg_switch_wal()'))), 0,
	'nothing is written while no ids are made');

# The limit is moved early, so that nobody has to wait for it, even if each session makes
# one id.
my $extensions = 'SELECT mark_extensions FROM snowflake_stat()';
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
my $count = $node->safe_psql('postgres', $extensions);
sleep 1.3;
$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
is( $node->safe_psql('postgres', $extensions), $count + 1,
	'a new session moves the limit if half of a reservation is used');

# With unbounded borrowing, the reservation grows with the pace of ids.
$node->stop;
$node = new_server('borrow', 'snowflake.max_ahead' => -1, 'snowflake.layout' => 'time:41 worker:5');
$start = $position->();
$began = time;
$node->safe_psql('postgres', 'SELECT count(snowflake_nextval()) FROM generate_series(1, 3000000)');
$seconds = time - $began;
@records = $generic_records->($start, $node->safe_psql('postgres', 'SELECT pg_switch_wal()'));
note(scalar(@records) . " records for 3000 s of id time in $seconds s");
cmp_ok(scalar(@records), '<=', 15 + 2 * $seconds, 'borrowing 3000 s does not write the mark 3000 times');
$node->stop;

# But it does not take ids to a mark that was set by hand: they wait for the clock to get
# there, which a start does for as long as the mark can be ahead by itself.
$node = new_server('borrow_by_hand', 'snowflake.max_ahead' => -1, 'snowflake.max_wait' => 0);
my $set_ahead = sub {
	my ($ahead) = @_;

	$node->safe_psql(
		'postgres',
		"SELECT setval('snowflake_internal.mark', snowflake_from_timestamp(clock_timestamp() + interval '$ahead'))");
	$node->restart;
};
$set_ahead->('1.5 s');
is( $node->safe_psql('postgres', 'SELECT snowflake_nextval() > last_value FROM snowflake_internal.mark'),
	't', 'an id waits for the clock to reach a mark that was set by hand');
$set_ahead->('1 hour');
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'but fails if it is too far ahead');
like(
	$message, qr/has to advance by another (?:59\.\d|60\.0) minutes .* "snowflake\.max_ahead" is -1, /,
	'and the error says how far');
$node->stop;

# The first id after a start is above the mark, at once, however the server went down,
# even if the clock was set back by less than max_ahead.
$node = new_server('start', clock => 1, 'snowflake.max_wait' => 0);
my $ahead = 0;
foreach my $case ([ 'fast', 0 ], [ 'immediate', 0 ], [ 'fast', -2.7 ], [ 'immediate', -2.9 ])
{
	my ($mode, $offset) = @$case;

	# move past what the last start has left
	$node->stop;
	start_with_clock($node, $ahead += 20);
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	my $mark = mark_of($node);
	$node->stop($mode);
	start_with_clock($node, $ahead + $offset);
	is( $node->safe_psql('postgres', "SELECT snowflake_nextval() > $mark"),
		't', "$mode stop, clock off by $offset s: the first id is above the mark");
}
$node->stop;

# It is also true of a session that follows one that wrote the mark, but was canceled
# before a synchronous standby had it; and after an advance to an id far below.
my $half_way = new_server(
	'half_way',
	clock => 1,
	wal_level => 'replica',
	max_wal_senders => 5,
	'snowflake.max_ahead' => '60s');
my $id = $half_way->safe_psql('postgres', 'SELECT snowflake_nextval()');
my $mark = mark_of($half_way);
$half_way->stop;
$half_way->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
start_with_clock($half_way, -30);
my $session = $half_way->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
begin_query($session, 'SELECT snowflake_nextval();');
wait_until($half_way, $pid, "wait_event = 'SyncRep'", 'the first session after a start writes the mark');
$half_way->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT 1');
like(take_errors($session), qr/canceling statement due to user request/, 'and is canceled');
$session->quit;
cmp_ok(mark_of($half_way), '>', $mark, 'the mark was moved before that');
set_and_reload($half_way, "synchronous_standby_names = ''");
cmp_ok(
	$half_way->safe_psql('postgres', 'SELECT snowflake_nextval()'),
	'>', $mark, 'the next session makes ids above the mark');

$mark = mark_of($half_way);
$half_way->stop;
start_with_clock($half_way, -40);
$half_way->safe_psql('postgres', 'SELECT snowflake_advance(1)');
cmp_ok(
	$half_way->safe_psql('postgres', 'SELECT snowflake_nextval()'),
	'>', $mark, 'an advance below the mark changes nothing');
$half_way->stop;

# And it is true of another worker id, lower or higher.
start_with_clock($node, $ahead);
my $last = mark_of($node);
foreach my $worker_id (31, 7, 0)
{
	$node->append_conf('postgresql.conf', "snowflake.worker_id = $worker_id");
	$node->stop;
	start_with_clock($node, $ahead += 20);
	my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	cmp_ok($id, '>', $last, "worker id $worker_id: the first id is above the mark");
	cmp_ok(mark_of($node), '>=', $id, "worker id $worker_id: the mark covers it");
	$last = mark_of($node);
}

# Another layout or epoch whose ids would be below the mark
foreach my $case (
	[
		'js53', 'SF003',
		qr/no tick left above the mark.*ids up to \d+ .*HINT: .*drop the extension.*return to that layout/s
	],
	[
		'snowflake epoch:2026-06-01T00:00:00Z', 'SF001',
		qr/too far ahead.*Ids up to \d+ are taken.*HINT: .*drop the extension.*return to that layout/s
	])
{
	my ($layout, $expected, $explanation) = @$case;

	$node->append_conf('postgresql.conf', "snowflake.layout = '$layout'");
	$node->stop;
	start_with_clock($node, $ahead);
	($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
	is($code, $expected, "layout '$layout' would need ids below the mark");
	like($message, $explanation, 'the error explains it');
	is(mark_of($node), $last, 'the mark stays where it was');
}
$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake epoch:2025-06-01T00:00:00Z'");
$node->stop;
start_with_clock($node, $ahead);
cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $last, 'an earlier epoch is fine');
$node->stop;

# With a small max_ahead, the first call waits for up to a reservation, whatever
# max_wait is.
$node = new_server('little', clock => 1, 'snowflake.max_ahead' => 0, 'snowflake.max_wait' => 0);
foreach (1 .. 3)
{
	my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	$node->stop('immediate');
	start_with_clock($node, -0.1 * $_);
	cmp_ok(
		$node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $id,
		'max_ahead = 0: a start waits out the reservation');
}

# These statements take longer than a reservation, so that they must write the mark: in
# a read-only transaction, and in parallel workers.
my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my $statement =
  "SELECT count(DISTINCT id), max(snowflake_timestamp(id)) - min(snowflake_timestamp(id)) > interval '2.1 s' FROM (SELECT snowflake_nextval() AS id, pg_sleep(0.25) FROM generate_series(1, 10)) AS m";
is( $node->safe_psql('postgres', "SET default_transaction_read_only = on; $statement"), '10|t',
	'a read-only transaction writes the mark');
is($node->safe_psql('postgres', "SET $force = on; $statement"), '10|t', 'a parallel worker writes the mark');
is( $node->safe_psql(
		'postgres',
		"SET $force = on; SET default_transaction_read_only = on; SET default_transaction_isolation = serializable; $statement"
	),
	'10|t',
	'a read-only parallel worker writes the mark');
$node->stop;

# Advance: no session makes an id below it, even if all are busy.
$node = new_server(
	'advance', clock => 1, 'snowflake.layout' => 'time:31 worker:5 lane:3 sequence:22 tick:1s',
	'snowflake.max_ahead' => '1min');
@collectors = start_collectors($node, 4);
sleep 0.5;
foreach (1 .. 3)
{
	my $target =
	  $node->safe_psql('postgres', 'SELECT max(snowflake_nextval()) + (1 << 30) FROM generate_series(1, 10)');
	$node->safe_psql('postgres', "SELECT snowflake_advance($target)");
	my @late = $node->background_psql('postgres');
	cmp_ok($late[0]->query_safe('SELECT snowflake_nextval()'), '>', $target, 'ids are above the target of an advance');
	$late[0]->quit;

	# the sizes of what the others have seen, to look at what comes after
	my @sizes = map { -s $_->{ids} } @collectors;
	sleep 0.3;
	my $below = 0;
	foreach my $i (0 .. $#collectors)
	{
		# psql may be in the middle of the last line
		my @lines = slurp_file($collectors[$i]->{ids}, $sizes[$i]) =~ /^(.*)\n/mg;
		splice @lines, 0, 41;    # a line cut in two, and ids that were on their way
		$below += grep { /^\d+$/ && $_ <= $target } @lines;
	}
	is($below, 0, 'even in sessions that were busy');
}
stop_collectors(@collectors);
$last = mark_of($node);
$node->stop('immediate');
start_with_clock($node, 0);
cmp_ok($node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $last, 'even after a crash');
$node->stop;

# A transaction changes the sequence or the guard, drops the extension, or holds a lock:
# no deadlock occurs, ids are made for the rest of the reservation, then calls fail, and
# ids are made again when the transaction is over.
$node = new_server('locked', wal_level => 'replica', max_wal_senders => 5, 'snowflake.max_wait' => '300ms');
$session = $node->background_psql('postgres', on_error_stop => 0);
my $other = $node->background_psql('postgres', on_error_stop => 0);
foreach my $statement (
	'ALTER SEQUENCE snowflake_internal.mark RESTART 5',
	'ALTER SEQUENCE snowflake_internal.mark SET LOGGED; DROP EXTENSION snowflake',
	'ALTER SEQUENCE snowflake_internal.mark OWNER TO CURRENT_USER',
	'REFRESH MATERIALIZED VIEW snowflake_internal.guard')
{
	my $start = time;
	my $id = $session->query_safe('SELECT snowflake_nextval()');
	$other->query_safe('SELECT snowflake_nextval()');
	$session->query("BEGIN; $statement;");
	take_errors($session);
	$other->query('SELECT snowflake_nextval()');
	ok(take_errors($other) eq '' || time - $start > 0.9, 'the rest of the reservation can be used');
	sleep 2.2;
	($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
	is($code, '55P03', 'the mark cannot move while the sequence is locked');
	like(
		$message, qr/could not obtain lock on the snowflake mark.*DETAIL: .*Another transaction.*HINT: /s,
		'with detail and hint');
	$session->query_safe('ROLLBACK');
	cmp_ok($session->query_safe('SELECT snowflake_nextval()'), '>', $id, 'ids are made again when it is over');
}
$_->quit foreach $session, $other;

# Sessions wait for a synchronous standby that does not exist.  The wait can be ended in
# every way; then the next session waits.
set_and_reload($node, "synchronous_standby_names = 'nobody'");
$node->safe_psql('postgres', 'SET synchronous_commit = local; CREATE TABLE settled ()');
sleep 2.2;
my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
my @pids = map { $_->query_safe('SELECT pg_backend_pid()') } @sessions;
begin_query($sessions[0], 'SELECT snowflake_nextval();');
wait_until($node, $pids[0], "wait_event = 'SyncRep'", 'one session waits for the standby');
begin_query($sessions[1], 'SELECT snowflake_nextval();');
wait_until($node, $pids[1], "wait_event_type = 'Extension'", 'another session waits for the first');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pids[0])");
$sessions[0]->query('SELECT 1');
like(take_errors($sessions[0]), qr/canceling statement due to user request/, 'the wait can be canceled');
wait_until($node, $pids[1], "wait_event = 'SyncRep'", 'then the next session waits for the standby');
begin_query($sessions[2], 'SELECT snowflake_nextval();');
wait_until($node, $pids[2], "wait_event_type = 'Extension'", 'while another one waits for it');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pids[1])");
wait_until($node, $pids[2], "wait_event = 'SyncRep'", 'and the next when that session is terminated');
($code) = sqlstate_of($node, "SET statement_timeout = '200ms'; SELECT snowflake_nextval()");
is($code, '57014', 'statement_timeout ends the wait for other sessions');
set_and_reload($node, "synchronous_standby_names = ''");
like($sessions[2]->query_safe('SELECT 1'), qr/^\d+\n1$/, 'the last one continues when no standby is required');
eval { $_->quit } foreach @sessions;
$node->stop;

# The disk of the WAL is full when the mark is written: a limit on the size of files
# keeps the server from creating another WAL file.
$node = new_server('full', wal_writer_delay => '10s', restart_after_crash => 'off');
$last = $node->safe_psql('postgres', 'SELECT snowflake_nextval(); SELECT pg_switch_wal()') =~ s/\n.*//r;
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
is($node->safe_psql('postgres', "SELECT snowflake_nextval() > $_"), 't', 'after that ids are above all earlier ones')
  foreach $ids[-1];
$node->stop;

# There is room for a number of databases at the same time.
if (can_use_mutants())
{
	$node = new_server('room', mutant => 'has room for two');
	my %id;
	my %session;
	$node->safe_psql('postgres', "CREATE DATABASE $_") foreach 'one', 'two';
	$node->safe_psql('one', 'CREATE EXTENSION snowflake');
	foreach my $database ('postgres', 'one')
	{
		$session{$database} = $node->background_psql($database);
		$id{$database} = $session{$database}->query_safe('SELECT snowflake_nextval()');
	}
	my ($ret, $out, $err) = $node->psql('two', "\\set VERBOSITY verbose\nCREATE EXTENSION snowflake");
	like(
		$err, qr/ERROR:  54000: too many databases.*HINT: .*sessions in other databases have ended/s,
		'an error if there are too many databases');
	$session{one}->quit;
	$node->poll_query_until('two', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'one'")
	  or die 'the session has not ended';
	is( $node->psql('two', 'CREATE EXTENSION snowflake'),
		0, 'a database without sessions makes room, although its limit is ahead of the clock');
	$session{two} = $node->background_psql('two');
	$id{two} = $session{two}->query_safe('SELECT snowflake_nextval()');
	($ret, $out, $err) = $node->psql('one', "\\set VERBOSITY verbose\nSELECT snowflake_nextval()");
	like($err, qr/ERROR:  54000: too many databases/, 'then it has no room itself');
	$session{postgres}->quit;
	ok( $node->poll_query_until('one', "SELECT snowflake_nextval() > $id{one}"),
		'and continues above its ids when it has room again');
	$session{two}->quit;
	ok($node->poll_query_until('postgres', "SELECT snowflake_nextval() > $id{postgres}"), 'so does the next database');
	$node->stop;
}

done_testing();

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
	$message, qr/has to advance by another 35\d{5}\.\d+ ms .* "snowflake\.max_ahead" is -1, /,
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

# The same is true if several sessions start at once and find at every step that another
# one is ahead of them.  They wait for a lock until all are there.  Returns how many ids
# were made, and how many of them are not above the mark.
sub begin_at_once
{
	my ($name, $try) = @_;
	my $node =
	  new_server(($name =~ tr/ /_/r) . ($try // ''), clock => 1, mutant => $name, 'snowflake.max_ahead' => '60s');
	my $script = PostgreSQL::Test::Utils::tempdir() . '/at_once.sql';

	append_to_file($script, "SELECT pg_advisory_lock_shared(1);\nINSERT INTO seen VALUES (snowflake_nextval());");
	$node->safe_psql('postgres', 'CREATE TABLE seen (id bigint); SELECT snowflake_nextval()');
	$node->stop('immediate');
	# so that the clock does not pass the mark meanwhile
	start_with_clock($node, -30);
	my $mark = mark_of($node);
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('CREATE TABLE IF NOT EXISTS seen (id bigint); SELECT pg_advisory_lock(1)');
	my $clients = IPC::Run::start(
		[
			'pgbench', '--no-vacuum', '--client=16', '--jobs=2', '--transactions=1', "--file=$script",
			'--host', $node->host, '--port', $node->port, 'postgres'
		],
		'>' => '/dev/null',
		'2>' => '/dev/null');
	$node->poll_query_until(
		'postgres',
		"SELECT count(*) = 16 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
	) or BAIL_OUT('clients do not wait');
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	$clients->finish;
	my $result = $holder->query_safe("SELECT count(*), count(*) FILTER (WHERE id <= $mark) FROM seen");
	$holder->quit;
	$node->stop('immediate');
	return split /\|/, $result;
}

my ($made, $below) = begin_at_once('looks slowly');
is("$made $below", '16 0', 'all ids of sessions that start at once are above the mark');
# a matter of chance
foreach my $try (1 .. 20)
{
	($made, $below) = begin_at_once('reads the floor first', $try);
	last if $below > 0;
}
cmp_ok($below, '>', 0, "mutant that reads the floor first: $below ids are not");

# It is also true of a session that follows one that wrote the mark, but was canceled
# before a synchronous standby had it; and after an advance to an id far below.
foreach my $mutant (undef, with_mutants() ? 'raises the floor last' : ())
{
	my $node = new_server(
		$mutant ? 'half_way_mutant' : 'half_way', clock => 1, wal_level => 'replica', max_wal_senders => 5,
		'snowflake.max_ahead' => '60s',
		$mutant ? (mutant => $mutant) : ());

	$node->safe_psql('postgres', 'SELECT snowflake_nextval()');
	my $mark = mark_of($node);
	$node->stop;
	$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
	start_with_clock($node, -30);
	my $first = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $first->query_safe('SELECT pg_backend_pid()');
	begin_query($first, 'SELECT snowflake_nextval();');
	wait_until($node, $pid, "wait_event = 'SyncRep'", 'the first session after a start writes the mark');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$first->query('SELECT 1');
	like(take_errors($first), qr/canceling statement due to user request/, 'and is canceled');
	$first->quit;
	cmp_ok(mark_of($node), '>', $mark, 'the mark was moved before that');
	set_and_reload($node, "synchronous_standby_names = ''");
	my $id = $node->safe_psql('postgres', 'SELECT snowflake_nextval()');

	if ($mutant)
	{
		cmp_ok($id, '<', $mark, "mutant that $mutant: the next session makes ids below the mark");
		$node->stop('immediate');
		next;
	}
	cmp_ok($id, '>', $mark, 'the next session makes ids above the mark');

	$mark = mark_of($node);
	$node->stop;
	start_with_clock($node, -40);
	$node->safe_psql('postgres', 'SELECT snowflake_advance(1)');
	cmp_ok(
		$node->safe_psql('postgres', 'SELECT snowflake_nextval()'), '>', $mark,
		'an advance below the mark changes nothing');
	$node->stop;
}

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
	[ 'js53', 'SF003', qr/no tick left above the mark.*ids up to \d+ .*HINT: .*layout was changed/s ],
	[
		'snowflake epoch:2026-06-01T00:00:00Z', 'SF001',
		qr/too far ahead.*Ids up to \d+ are taken.*HINT: .*layout or its epoch was changed/s
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

# The clock of a server was in 2090 once.  Two databases.
$node = new_server('accident', clock => 1, 'snowflake.max_wait' => 0, 'snowflake.max_jump' => -1);
$node->safe_psql('postgres', 'CREATE DATABASE other');
add_extension($node, 'other');
my @before = map { $node->safe_psql($_, 'SELECT snowflake_nextval()') } 'postgres', 'other';
$node->stop;
start_with_clock($node, 64 * 365.25 * 86400);
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $accident = $session->query_safe('SELECT snowflake_nextval()');
my @ids = map { $node->safe_psql($_, 'SELECT snowflake_nextval()') } 'postgres', 'other';
is($node->safe_psql('postgres', "SELECT extract(year FROM snowflake_timestamp($accident))"), 2090, 'ids of 2090');
set_clock($node, 0);
$session->query('SELECT snowflake_nextval()');
like(take_errors($session), qr/too far ahead.*HINT: .*snowflake_reset_mark/s, 'the error says what to do');
$session->quit;
set_and_reload($node, 'snowflake.worker_id = 1');
($code, $message) = sqlstate_of($node, 'SELECT snowflake_reset_mark(1)');
is($code, '55000', 'no reset while the server remembers 2090');
like($message, qr/far ahead of the clock.*HINT: .*Restart the server/s, 'with detail and hint');
set_and_reload($node, 'snowflake.worker_id = 0');
$node->stop;
start_with_clock($node, 0);
($code, $message) = sqlstate_of($node, 'SELECT snowflake_reset_mark(0)');
is($code, '55000', 'no reset for the same worker id');
like($message, qr/same worker id.*ids up to \d+, .*HINT: .*has never made an id/s, 'with detail and hint');
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'a refused reset changes nothing');

set_and_reload($node, 'snowflake.worker_id = 1');
my ($ret, $out, $err) = $node->psql('postgres', 'SELECT snowflake_reset_mark(1)');
is($ret, 0, 'a reset succeeds with a fresh worker id') or diag($err);
my $now = "abs(extract(epoch FROM snowflake_timestamp(snowflake_currval()) - clock_timestamp())) < 5";
is( $node->safe_psql('postgres', "SELECT snowflake_worker_id(snowflake_nextval()); SELECT $now;"), "1\nt",
	'ids continue in the present');
set_and_reload($node, 'snowflake.worker_id = 0');
($code, $message) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'the old worker id would start above 2090');
like($message, qr/begin above (\d+)/, 'and the error names its last id');
my ($taken) = $message =~ /begin above (\d+)/;
cmp_ok($taken, '>=', $ids[0], 'which is the last one of 2090, or greater');
set_and_reload($node, 'snowflake.worker_id = 1');

# the other database has a mark of its own
is( (   sqlstate_of(
			$node, '\c other
SELECT snowflake_nextval()'))[0],
	'SF001',
	'the other database is still in 2090');
my $burst = 'SELECT snowflake_nextval() FROM generate_series(1, 20000)';
my %fresh = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', $burst);
$node->safe_psql('other', 'SET client_min_messages = error; SELECT snowflake_reset_mark(1)');
my @again = grep { $fresh{$_} } split /\n/, $node->safe_psql('other', $burst);
is(scalar(@again), 0, 'a reset of another database leaves lanes above what the fresh worker id has made');
is( $node->safe_psql('other', "SELECT snowflake_worker_id(snowflake_nextval()); SELECT $now;"), "1\nt",
	'a reset of the other database brings it back to the present');
foreach my $database ('postgres', 'other')
{
	cmp_ok(
		$node->safe_psql($database, 'SELECT snowflake_nextval()'), '>', shift @before,
		"$database: ids are above those before the accident");
}
$node->stop('immediate');
start_with_clock($node, 0);
is( $node->safe_psql('postgres', "SELECT extract(year FROM snowflake_timestamp(snowflake_nextval())) < 2080"), 't',
	'the reset survives a crash');
set_and_reload($node, 'snowflake.worker_id = 0');
($code) = sqlstate_of($node, 'SELECT snowflake_nextval()');
is($code, 'SF001', 'the bound of the old worker id survives it, too');
is((sqlstate_of($node, 'SELECT snowflake_reset_mark(0)'))[0], '55000', 'which it cannot reset');
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
@ids = ($last);
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

# Dropped, created again, with or without an id, and a crash with the clock set back: no
# id that was made before is made again.
foreach my $case ([1], [0], with_mutants() ? [ 0, 'forgets what was dropped' ] : ())
{
	my ($new_ids, $mutant) = @$case;

	$node = new_server(
		"dropped$new_ids" . ($mutant ? '_mutant' : ''), clock => 1, 'snowflake.layout' => 'snowflake lane:0',
		'snowflake.max_ahead' => '10s',
		'snowflake.sequence_start' => 'zero',
		$mutant ? (mutant => $mutant, synchronous_commit => 'on') : ());
	my $began = time;
	@collectors = start_collectors($node, 4);
	sleep 1.5;
	wait_for_lines(50_000, map { $_->{ids} } @collectors);
	stop_collectors(@collectors);
	my $ended = time;

	# right after the mark was written, so that it stays for a while
	my $file = PostgreSQL::Test::Utils::tempdir() . '/one.ids';
	append_to_file(
		$file,
		$node->safe_psql(
			'postgres', qq{
DO \$\$
DECLARE
	mark bigint := (SELECT last_value FROM snowflake_internal.mark);
BEGIN
	WHILE mark = (SELECT last_value FROM snowflake_internal.mark) LOOP
		PERFORM snowflake_nextval();
	END LOOP;
END \$\$;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval() FROM generate_series(1, $new_ids);
})
		  . "\n") if $new_ids;
	$node->safe_psql('postgres', 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake') if !$new_ids;
	push @collectors, { ids => $file } if $new_ids;
	$node->stop('immediate');
	start_with_clock($node, $began - time);
	my ($later) = live_from($node, $began, $ended + 1);
	my ($ids, $duplicates) = count_duplicates(@collectors, @$later);
	note("$ids ids, $duplicates duplicates");

	if ($mutant)
	{
		cmp_ok($duplicates, '>', 0, "mutant that $mutant: duplicates are found");
	}
	else
	{
		is($duplicates, 0, "dropped, created, $new_ids ids, crashed, clock back: no id is made twice");
		cmp_ok($ids, '>', 50_000, 'many ids were made');
	}
	$node->stop('immediate');
}

# An advance closes the windows of other sessions even if the limit, and the floor with
# it, are already above the id.
foreach my $mutant (undef, with_mutants() ? 'trusts the floor to close windows' : ())
{
	my $below = 0;

	$node = new_server(
		$mutant ? 'closes_mutant' : 'closes',
		'snowflake.layout' => 'time:33 worker:5 sequence:4 lane:2 tick:1s',
		'snowflake.max_ahead' => '120s',
		$mutant ? (mutant => $mutant) : ());
	my @two = map { $node->background_psql('postgres') } 1 .. 2;
	foreach my $round (1 .. 5)
	{
		my $id = $two[0]->query_safe('SELECT snowflake_nextval()') + (1 << 11);

		$two[1]->query_safe('SELECT count(snowflake_nextval()) FROM generate_series(1, 180)');
		$two[1]->query_safe("SELECT snowflake_advance($id)");
		$below++ if $two[0]->query_safe('SELECT snowflake_nextval()') <= $id;
	}
	$_->quit foreach @two;
	if ($mutant)
	{
		cmp_ok($below, '>', 0, "mutant that $mutant: $below ids are below an advance");
	}
	else
	{
		is($below, 0, 'an advance closes windows even if the floor is above it');
	}
	$node->stop;
}

# Several databases: the ids of each continue above its own mark.
$node = new_server('databases', clock => 1, 'snowflake.layout' => 'snowflake lane:1');
my %collectors;
foreach my $database ('one', 'two')
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	add_extension($node, $database);
}
foreach my $round (1 .. 2)
{
	push @{ $collectors{$_} }, start_collectors($node, 4, database => $_) foreach 'one', 'two';
	sleep 1;
	$node->stop('immediate');
	stop_collectors(map { @$_ } values %collectors);
	if ($round == 1)
	{
		my ($ids, $duplicates) = count_duplicates(map { @$_ } values %collectors);
		is($duplicates, 0, "while the server runs, none of $ids ids of two databases is in both");
		start_with_clock($node, -1.5);
	}
}
foreach my $database (sort keys %collectors)
{
	my ($ids, $duplicates) = count_duplicates(@{ $collectors{$database} });
	is($duplicates, 0, "none of $ids ids of database $database was made twice across a crash");
}

# An advance also affects a session whose next call fails, and which then continues in
# the same tick.
$node = new_server('long_tick', 'snowflake.layout' => 'snowflake tick:1s');
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $failures = 0;
foreach my $round (1 .. 3)
{
	my $id = $session->query('SELECT snowflake_nextval()');
	$node->safe_psql('postgres', "SELECT snowflake_advance($id + 1000)");
	$session->query("SELECT snowflake_advance(-1)");
	$failures++ if $session->query('SELECT snowflake_nextval()') <= $id + 1000;
}
is($failures, 0, 'ids are above an advance after a failed call');
$session->quit;
$node->stop;

# There is room for a number of databases at the same time.
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
($ret, $out, $err) = $node->psql('two', "\\set VERBOSITY verbose\nCREATE EXTENSION snowflake");
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

done_testing();

# Waiting for the mark: for synchronous standbys, and for the session that moves it.

use SnowflakeTest;

my %replicates = (wal_level => 'replica', max_wal_senders => 5);

# Wait until a number of sessions wait for a standby, and others for those.
sub wait_until_waiting
{
	my ($node, $standby, $others, $name) = @_;

	sql_becomes_true(
		$node, qq{
SELECT count(*) FILTER (WHERE wait_event = 'SyncRep') = $standby
	AND count(*) FILTER (WHERE wait_event_type = 'Extension') = $others
FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%snowflake_nextval%' AND pid <> pg_backend_pid()}, $name);
	return;
}

# Statements that begin after synchronous standbys are named, or others, make no ids that
# those do not have, even of a tick of which there are some left.
my $node = new_server(
	'standby', %replicates,
	log_lock_waits => 'on',
	'snowflake.max_wait' => 0,
	'snowflake.layout' => 'time:32 worker:5 sequence:10 lane:3 tick:1s');
my @sessions = map { [ open_session($node) ] } 1 .. 6;
my $soon = "SET statement_timeout = '300ms'; SELECT snowflake_nextval()";

sub make_no_ids
{
	my ($name) = @_;
	my $before = sql($node, 'SELECT ids FROM snowflake_stat()');

	sql_fails($node, $soon, '57014', "$name: no ids in a new session");
	$sessions[0]->[0]->query("$soon;");
	like(take_errors($sessions[0]->[0]), qr/due to statement timeout/, "$name: nor in one that was there");
	sql_fails(
		$node, "SET statement_timeout = '900ms'; SELECT pg_reload_conf(), pg_sleep(0.3), snowflake_nextval()",
		'57014', "$name: nor after another reload");
	sql_is($node, 'SELECT ids FROM snowflake_stat()', $before, "$name: none at all");
	return;
}
$sessions[0]->[0]->query_safe('SELECT snowflake_nextval()');
set_and_reload($node, "synchronous_standby_names = 'one'");
make_no_ids('a standby is named');
my $standby = IPC::Run::start(
	[
		'pg_receivewal', '--synchronous', '--directory', $node->backup_dir,
		'--dbname', $node->connstr('postgres') . ' application_name=one'
	]);
sql_succeeds($node, 'SELECT snowflake_nextval()', 'there are ids once it is there');
$sessions[0]->[0]->query_safe('RESET statement_timeout; SELECT snowflake_nextval()');
set_and_reload($node, "synchronous_standby_names = 'two'");
make_no_ids('another standby is named');
$sessions[0]->[0]->query_safe('RESET statement_timeout');
$standby->kill_kill(grace => 0);
set_and_reload($node, "synchronous_standby_names = 'nobody'");

# The mark waits for a synchronous standby even if the session itself does not.  If the
# wait is canceled, no ids are made.
foreach my $level ('off', 'local', 'remote_write', 'on', 'remote_apply')
{
	my ($session, $pid) = @{ $sessions[0] };

	begin_query($session, "SET synchronous_commit = $level; SELECT snowflake_nextval();");
	wait_until($node, $pid, "wait_event = 'SyncRep'", "synchronous_commit = $level: the mark waits for a standby");
	sql($node, "SELECT pg_cancel_backend($pid)");
	$session->query('SELECT 1');
	like(
		take_errors($session), qr/canceling statement due to user request/,
		"synchronous_commit = $level: a canceled wait makes no ids");
}
my ($doomed, $pid) = open_session($node);
begin_query($doomed, 'SELECT snowflake_nextval();');
wait_until($node, $pid, "wait_event = 'SyncRep'", 'another session waits');
sql_is($node, "SELECT pg_terminate_backend($pid, 60000)", 't', 'and ends when it is terminated');
eval { $doomed->quit };

# Clients may ask for messages, but get none while others wait for their sessions: one
# that does not read them would keep the others waiting.
$_->[0]->query_safe('SET client_min_messages = log') foreach @sessions;

# All sessions wait for as long as it takes, regardless of max_wait.  If the one that
# waits for the standby is canceled, another one takes its place.
begin_query($_->[0], 'SELECT snowflake_nextval();') foreach @sessions;
wait_until_waiting($node, 1, 5, 'one session waits for the standby, and the others wait for it');
sql($node,
	"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%snowflake_nextval%'"
);
wait_until_waiting($node, 1, 4, 'if that session is canceled, another one waits for the standby');
sleep 2;
wait_until_waiting($node, 1, 4, 'the sessions wait for longer than max_wait');
set_and_reload($node, "synchronous_standby_names = ''");
my ($ids, $errors) = (0, '');

foreach my $session (map { $_->[0] } @sessions)
{
	$ids++ if $session->query('SELECT 1') =~ /^\d{10,}\n/;
	$errors .= take_errors($session);
	$session->quit;
}
is($ids, 5, 'the others make ids once no standby is required');
like($errors, qr/\A[^\n]*canceling statement due to user request\s*\z/, 'and see no errors or other messages');
$node->stop;

# The module that looks for reports under locks finds one.
if (with_mutants())
{
	local $ENV{SNOWFLAKE_TEST_REPORTS} = PostgreSQL::Test::Utils::tempdir() . '/reports';
	$node = new_server('speaks', mutant => 'speaks under the lock');
	sql($node, <<'EOC');
SELECT snowflake_nextval();
SELECT setval('snowflake_internal.mark', 1);
SELECT pg_sleep(2.5);
SELECT snowflake_nextval();
EOC
	like(
		slurp_file($ENV{SNOWFLAKE_TEST_REPORTS}),
		qr/"sequence \S+ was set below the snowflake ids that have been made" at limit.c:\d+ while holding the mark/,
		'mutant that speaks under the lock: the report is found');
	$node->stop;
}

# A library with which a flush of the WAL takes 3 s; a signal must not make it fail.
my $slow_flush = PostgreSQL::Test::Utils::tempdir() . '/slow_flush';
append_to_file("$slow_flush.c", <<'EOC');
#include <time.h>
int fdatasync(int file)
{
	struct timespec left = {3, 0};
	while (nanosleep(&left, &left) != 0)
		;
	return 0;
}
EOC
system_or_bail('gcc', '-shared', '-fPIC', '-o', "$slow_flush.so", "$slow_flush.c");

# A flush takes longer than a reservation lasts.  Who has waited for it gets an id all
# the same, whose time is within the call, even if there is not one for each of those
# who wait.
$node = new_server(
	'slow', clock => 1, 'snowflake.layout' => 'time:41 worker:5 sequence:1', 'snowflake.max_ahead' => 0,
	wal_sync_method => 'fdatasync', wal_writer_delay => '10s');
$node->stop;
$node->append_conf('postgresql.conf', 'fsync = on');
{
	local $ENV{LD_PRELOAD} = join ':', $ENV{LD_PRELOAD} // (), "$slow_flush.so";
	start_with_clock($node, 0);
}
run_clients($node, '--client=6 --transactions=1', 'slow flushes: the time of an id is within the call', <<'EOC');
SET statement_timeout = '60s';
SELECT extract(epoch FROM clock_timestamp()) AS called \gset
SELECT snowflake_nextval() AS id \gset
SELECT 1 / (snowflake_timestamp(:id) BETWEEN to_timestamp(:called) - interval '1 ms' AND clock_timestamp())::int;
EOC

# once the reservation is used up
my $extensions = 'SELECT mark_extensions FROM snowflake_stat()';
my $session = $node->background_psql('postgres');
$session->query_safe('SELECT snowflake_nextval()');
sleep 2.5;
my $before = sql($node, $extensions);
$session->query_safe('SELECT snowflake_nextval()');
is(sql($node, $extensions) - $before, 1, 'a call waits for one flush');
$session->quit;
$node->stop('immediate');

done_testing();

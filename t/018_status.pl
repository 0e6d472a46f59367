# snowflake_status() and snowflake_stat() in various situations.

use POSIX qw(strftime);
use SnowflakeTest;

my $day = 24 * 3600;

sub stat_of
{
	my ($node, $column) = @_;
	return sql($node, "SELECT $column FROM snowflake_stat()");
}

sub status_of
{
	my ($node, $column) = @_;
	# any state other than "ready" comes with a hint
	return sql($node, "SELECT $column FROM snowflake_status() WHERE state = 'ready' OR hint <> ''");
}

# A session that makes ids must wait for something, at the latest when the reservation
# is used up.
sub wait_event_is
{
	my ($node, $event) = @_;
	my ($waiting, $pid) = open_session($node);

	# up to 16, one event serves all extensions
	$event = 'Extension' if $node->pg_version < 17;
	$waiting->query_safe("SET snowflake.max_wait = '5min'");
	begin_query($waiting, 'SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, 100000000)) AS numbers;');
	sql_becomes_true(
		$node,
		"SELECT wait_event_type = 'Extension' AND wait_event = '$event' FROM pg_stat_activity WHERE pid = $pid",
		"a wait shows as $event");
	sql($node, "SELECT pg_terminate_backend($pid)");
	eval { $waiting->quit };
	return;
}

# Blocks fill narrow lanes.  The epoch and the end of the layout are within 20 days, because a
# server with assertions aborts if the clock steps back by more than 24.
my $epoch = strftime('%Y-%m-%dT00:00:00Z', gmtime(time - 10 * $day));
my $node = new_server(
	'node', clock => 1, preload => 1, max_prepared_transactions => 2,
	'snowflake.layout' => "snowflake time:31 sequence:9 epoch:$epoch",
	'snowflake.max_jump' => '5d', 'snowflake.max_wait' => 100);
is( status_of($node, 'state, preloaded, ids_ahead, mark, mark_ahead'), 'ready|t||0|',
	'status before the first id');

# the count is exact in the end, whichever process made the ids
run_clients(
	$node, '--client=8 --transactions=2000', 'clients make ids',
	'SELECT snowflake_nextval() FROM generate_series(1, 7);');
sql_becomes_true($node, 'SELECT ids = 8 * 2000 * 7 FROM snowflake_stat()', 'all ids are counted');

# a session that then stays idle, however its transaction ended
my $session = $node->background_psql('postgres', on_error_stop => 0);
foreach my $sql (
	'SELECT snowflake_nextval()',
	'SELECT snowflake_nextval() / 0',
	'BEGIN; SELECT snowflake_nextval(); ROLLBACK',
	"BEGIN; SAVEPOINT s; SELECT snowflake_nextval() / 0;\nROLLBACK TO s; COMMIT",
	"BEGIN; SELECT snowflake_nextval(); PREPARE TRANSACTION 'prepared'")
{
	my $before = stat_of($node, 'ids');
	$session->query($sql);
	is(stat_of($node, 'ids'), $before + 1, "an id is counted when its transaction ends: $sql");
}
$session->query("ROLLBACK PREPARED 'prepared'");

# a long-running statement
my $before = stat_of($node, 'ids');
begin_query(
	$session,
	'SELECT count(snowflake_nextval()) FROM generate_series(1, 40000) AS a, generate_series(1, 40000) AS b;');
sql_becomes_true($node, "SELECT ids > $before + 1000 FROM snowflake_stat()", 'ids are counted while a statement runs');
sql($node,
	"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%40000%' AND pid <> pg_backend_pid()");
eval { $session->quit };

# a crash, which clears shared memory
crash($node);
is(stat_of($node, 'ids'), 0, 'counters restart after a crash');

# steps of the clock, and their effects; the long statement was ahead, so the first call may wait
sql($node, 'SELECT snowflake_nextval()');
sql($node, 'SELECT snowflake_stat_reset()');
set_and_reload($node, 'snowflake.max_set_back = 1');
set_clock($node, -100);
sql_fails($node, 'SELECT snowflake_nextval()', 'SF001', 'no ids after the clock was stepped back');
is(status_of($node, 'state'), 'too far ahead', 'the state shows it');
cmp_ok(status_of($node, 'extract(epoch FROM ids_ahead)'), '>', 90, 'and the status shows how far ids are ahead');
sql_fails(
	$node, "SET statement_timeout = '500ms'; SET snowflake.max_wait = '1h'; SELECT snowflake_nextval()", '57014',
	'a call that may wait waits');
is( stat_of(
		$node,
		'clock_steps_back, too_far_ahead, waits, wait_time >= 90, round(largest_step_back / 1000), last_step_back IS NOT NULL'
	),
	'1|1|1|t|100|t',
	'the step, the failure and the wait are counted');
wait_event_is($node, 'SnowflakeClock');
set_clock($node, 0);
sql($node, 'SELECT snowflake_nextval()');
is(stat_of($node, 'clock_steps_back'), 1, 'a step forward is not counted');
set_clock($node, -20 * $day);
sql_fails($node, 'SELECT snowflake_nextval()', 'SF001', 'no ids while the clock is before the epoch');
set_clock($node, 20 * $day);
is(status_of($node, 'state'), 'clock refused', 'the state announces a refused clock');
sql_fails($node, 'SELECT snowflake_nextval()', 'SF002', 'and it is refused if it stays there');
set_and_reload($node, 'snowflake.max_jump = -1');
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF003', 'no ids while the clock is past the end of the layout',
	qr/layout has no tick left.*DETAIL: .*HINT: /s);
sql_fails(
	$node, 'SELECT snowflake_advance(last_value) FROM snowflake_internal.mark', 'SF003',
	'nor does an advance carry the mark there');
is(status_of($node, 'state'), 'exhausted', 'the state shows it');
set_clock($node, 0);
is(stat_of($node, 'exhausted, clock_refused'), '2|1', 'all failures are counted');

# a lock on the mark
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; ALTER SEQUENCE snowflake_internal.mark RENAME TO other_mark');
sql_is(
	$node, "SET lock_timeout = '1s'; SELECT mark IS NULL, state FROM snowflake_status()", 't|no mark',
	'status does not wait for a lock on the mark');
wait_event_is($node, 'SnowflakeMark');
$locker->query_safe('ROLLBACK');
$locker->quit;

# what the log says when ids are first made, and when the worker id cannot be used
my $log = slurp_file($node->logfile);
like(
	$log, qr/LOG:  making snowflake ids with worker id 0 from "snowflake.worker_id"\n.*DETAIL: .*The layout is "/,
	'the first id is logged');
my @started = $log =~ /database system is ready to accept connections/g;
my @announced = $log =~ /making snowflake ids/g;
cmp_ok(@announced, '<=', @started, 'once for each start');
set_and_reload($node, 'snowflake.worker_id = 4711');
sql_becomes_true($node, 'SELECT worker_id = 4711 FROM snowflake_status()', 'the status shows new settings');
sql_fails($node, 'SELECT snowflake_nextval()', 'F0000', 'no ids if the worker id is out of range');
sql_is($node, 'SET client_min_messages = error; SELECT snowflake_worker_id(1)', 0, 'but decoding works');
is(stat_of($node, 'unusable_settings'), 1, 'the failure is counted');
like(
	status_of($node, 'state, hint'), qr/^unusable settings\|Correct "snowflake\.worker_id"/,
	'the state shows it, and the hint names the setting');

# a registry that does not exist
restart_with($node, conf => "snowflake.registry = 'host=/nowhere'\nsnowflake.worker_id = 0");
sql_becomes_true($node, "SELECT lease_state = 'unreachable' FROM snowflake_status()", 'the registry cannot be reached');
is(status_of($node, 'state, worker_id, worker_id_source, lease_ends'), 'no lease||registry|', 'there is no lease');
sql_fails($node, 'SELECT snowflake_nextval()', 'SF004', 'and there are no ids');
is(stat_of($node, 'no_lease'), 1, 'the failure is counted');
wait_event_is($node, 'SnowflakeLease');
$node->stop;

# a layout that cannot be read, at first while another one is in force
my $unusable = new_server('unusable');
sql($unusable, 'SELECT snowflake_nextval()');
set_and_reload($unusable, "snowflake.layout = 'nonsense'");
is(status_of($unusable, 'state, layout IS NULL'), 'unusable settings|f', 'the layout in force is still known');
sql_is($unusable, 'SET client_min_messages = error; SELECT snowflake_worker_id(1)', 0, 'and ids are decoded');
$unusable->restart;
is(status_of($unusable, 'state, layout, last_instant, ids_ahead'), 'unusable settings|||', 'there is no layout');
like(status_of($unusable, 'hint'), qr/^Correct "snowflake\.layout"/, 'which the hint names');
sql_fails($unusable, 'SELECT snowflake_worker_id(1)', 'F0000', 'so ids are not decoded');

# a layout whose ids are all less than the mark
restart_with($unusable, conf => "snowflake.layout = 'js53'");
is(status_of($unusable, q{state, mark_ahead > '10 years'}), 'exhausted|t', 'the state shows a mark of another layout');
sql_fails($unusable, "SELECT $_", 'SF003', "and $_ fails for that reason")
  foreach 'snowflake_nextval()', 'snowflake_advance(1)', 'snowflake_advance(1, true)';
$unusable->stop;

# ids of a long tick, most of which are made without looking at anything else
my $long_tick = new_server('long_tick', 'snowflake.layout' => 'snowflake tick:1s');
sql($long_tick, 'SELECT snowflake_nextval(), pg_sleep(0.1) FROM generate_series(1, 20)');
sql_becomes_true($long_tick, 'SELECT ids = 20 FROM snowflake_stat()', 'all ids of long ticks are counted');
sql_succeeds(
	$long_tick, 'SELECT snowflake_nextval(); SELECT snowflake_advance(last_value) FROM snowflake_internal.mark',
	'an advance to the mark is possible');
$long_tick->stop;

# Stop a server, and return where the mark or its guard is, its page, and the offset of the
# first item in it.
sub stop_and_read_page
{
	my ($node, $relation) = @_;
	my $path = $node->data_dir . '/' . sql($node, "SELECT pg_relation_filepath('snowflake_internal.$relation')");

	$node->stop;
	# from 18 on, pages have checksums, which would notice changes first
	run_log([ 'pg_checksums', '--disable', '--pgdata' => $node->data_dir ]);
	my $page = slurp_file($path);
	return ($path, $page, unpack('L', substr($page, 24, 4)) & 0x7fff);
}

sub write_page
{
	my ($path, $page) = @_;

	unlink $path;
	append_to_file($path, $page);
	return;
}

my $other = new_server('other');

# A damaged page of the mark or its guard fails calls, and nothing is read or written
# outside the row.
my $last_id;
foreach my $relation ('mark', 'guard')
{
	$last_id = sql($other, 'SELECT snowflake_nextval()');
	my ($page_file, $page, $offset) = stop_and_read_page($other, $relation);
	# 15 bits of offset, 2 of flags, and 15 of length
	my $item = unpack('L', substr($page, 24, 4));

	foreach my $damage (
		[ 'is outside', 24, pack('L', $item | 0x7fff) ],
		[ 'is longer than the page', 24, pack('L', $item | 0x7fff << 17) ],
		[ 'is shorter than its header', 24, pack('L', ($item & 0x1ffff) | 8 << 17) ],
		[ 'has a header that leaves no room', $offset + 22, "\xff" ],
		[ 'is missing', 0, "\0" x 8192 ])
	{
		my ($how, $at, $bytes) = @$damage;
		my $damaged = $page;

		substr($damaged, $at, length $bytes) = $bytes;
		write_page($page_file, $damaged);
		$other->start;
		sql_fails($other, 'SELECT snowflake_nextval()', 'XX001', "the row of the $relation $how: an error");
		$other->stop('immediate');
	}
	write_page($page_file, $page);
	$other->start;
	cmp_ok(sql($other, 'SELECT snowflake_nextval()'), '>', $last_id, "a $relation that was restored is used");
}

# A mark that was set by hand can be half of max_ahead ahead, and a call waits for 6 s more; the
# state says what a call does.
set_and_reload($other, "snowflake.max_ahead = '100s'");
foreach my $case ([ 20, 'ready', '00000' ], [ 54, 'ready', '00000' ], [ 90, 'too far ahead', 'SF001' ])
{
	my ($ahead, $state, $code) = @$case;

	sql($other,
		"SELECT setval('snowflake_internal.mark', snowflake_compose(clock_timestamp() + interval '$ahead s'))");
	# or else ids go on below it for a moment
	$other->restart;
	is(status_of($other, 'state'), $state, "the state with a mark $ahead s ahead");
	is((sqlstate_of($other, 'SELECT snowflake_nextval()'))[0], $code, 'is what a call says');
}
$other->stop;

done_testing();

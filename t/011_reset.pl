# The reset after the clock was far ahead: who may reset the mark and when, and that a reset
# stands even if its wait for a standby is canceled.  The simulator has all orders of events.

use FindBin;
use lib $FindBin::RealBin;
use SnowflakeTest;

# The instant that the clock got to by accident.  A server with assertions aborts if the clock
# steps by more than 24 days.
my $accident = time + 20 * 86400;

# A reset by an operator who states that a worker id has made no ids.
sub reset_for
{
	my ($worker_id) = @_;

	return "SET client_min_messages = notice; SELECT snowflake_reset_mark($worker_id)";
}

# Make an id.  Returns its worker id, as "7" if the id is of the present and "7 far
# ahead" if it is of the accident, or the SQLSTATE of the error.
sub next_id
{
	my ($node, $database) = @_;
	my ($ret, $out, $err) = $node->psql($database // 'postgres', sprintf <<'EOC', $accident - 10 * 86400);
\set VERBOSITY verbose
SELECT snowflake_worker_id(id), extract(epoch FROM snowflake_timestamp(id)) < %f FROM snowflake_nextval() AS id;
EOC

	return $err =~ /ERROR:  (\w{5}):/ ? $1 : $out =~ s/\|t$//r =~ s/\|f$/ far ahead/r;
}

# Requirements of a reset
my $node = new_server(
	'needs', clock => 1, 'snowflake.worker_id' => 3, 'snowflake.max_wait' => 0, 'wal_level' => 'replica',
	'max_wal_senders' => 5);
add_database($node, 'other');
my @before = map { $node->safe_psql($_, 'SELECT snowflake_nextval()') } 'postgres', 'other';
sql_succeeds(
	$node, reset_for(3), 'a reset that is not needed does not fail',
	qr/NOTICE: .*not too far ahead.*Nothing was reset/s);
restart_with($node, clock => $accident - time);
is(next_id($node, $_), '3 far ahead', "$_: ids of the accident") foreach 'postgres', 'other';

# A restart, because sessions have windows there.  A fresh worker id is not enough.
set_clock($node, 0);
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF001', 'ids are too far ahead when the clock is right again',
	qr/HINT: .*snowflake_reset_mark/s);
set_and_reload($node, 'snowflake.worker_id = 7');
sql_fails($node, reset_for(7), '55000', 'no reset while lanes are ahead', qr/HINT:  Restart the server/);
is(next_id($node), 'SF001', 'ids are still too far ahead');
restart_with($node, conf => 'snowflake.worker_id = 3', clock => 0);

# The likeliest mistakes
my $ways = qr/HINT: .*statement that this worker id.*has never made an id in this database.*restart.*Wait.*raise/s;
sql_fails($node, reset_for(3), '55000', 'no reset for the worker id that ran ahead', qr/same worker id.*$ways/s);
sql_fails(
	$node, reset_for(7), '22023', 'no reset for a worker id that is not in force',
	qr/DETAIL:  The worker id in force is 3\..*$ways/s);

# Without a limit, nothing is too far ahead.
my $session = $node->background_psql('postgres', on_error_stop => 0);
is($session->query('SELECT snowflake_nextval()'), '', 'a session from before the reset makes no ids');
take_errors($session);
set_and_reload($node, "snowflake.worker_id = 7\nsnowflake.max_ahead = -1");
sql_succeeds(
	$node, reset_for(7), 'no reset if max_ahead has no limit',
	qr/NOTICE: .*Nothing was reset.*max_ahead" is -1/s);
set_and_reload($node, "snowflake.max_ahead = '5s'");

# An advance that changes nothing does not look like ids of the fresh worker id, either.
my $bound = sql($node, 'SELECT bound FROM snowflake_internal.guard');
sql_succeeds($node, 'SELECT snowflake_advance(1)', 'ids can be advanced to one of the past');
sql_is($node, 'SELECT bound FROM snowflake_internal.guard', $bound, 'which leaves the mark as it was');

# A privilege
sql($node,
	'CREATE ROLE admin LOGIN; GRANT EXECUTE ON FUNCTION snowflake_reset_mark TO admin; CREATE ROLE nobody LOGIN');
sql_fails([ $node, 'postgres', 'nobody' ], reset_for(7), '42501', 'a role without the privilege may not reset');

# A role with the privilege may reset.  The wait for a standby is canceled, but the reset
# stands.
set_and_reload($node, "synchronous_standby_names = 'nobody'");
my ($admin, $pid) = open_session([ $node, 'postgres', 'admin' ]);
begin_query($admin, reset_for(7) . ';');
wait_until($node, $pid, "wait_event = 'SyncRep'", 'a reset waits for a standby');
sql($node, "SELECT pg_cancel_backend($pid)");
$admin->query('SELECT 1');
my $message = take_errors($admin);
$admin->quit;
like($message, qr/WARNING: .*standby.*NOTICE: .*snowflake mark was reset/s, 'a reset whose wait is canceled warns');
unlike($message, qr/ERROR/, 'and does not fail');
set_and_reload($node, "synchronous_standby_names = ''");

# Effects of a reset
is(next_id($node), 7, 'a new session makes ids of the present');
is($session->query_safe('SELECT snowflake_worker_id(snowflake_nextval())'), 7, 'and so does one from before the reset');
$session->quit;
is(next_id($node, 'other'), 'SF001', 'the other database has a mark of its own');
sql_succeeds([ $node, 'other' ], reset_for(7), 'the other database can be reset in turn');
is(next_id($node, 'other'), 7, 'then it makes ids, too');

foreach my $database ('postgres', 'other')
{
	cmp_ok(
		$node->safe_psql($database, 'SELECT snowflake_nextval()'), '>', shift @before,
		"$database: ids are above those before the accident");
}
sql_succeeds($node, reset_for(7), 'a second reset has nothing to do', qr/NOTICE: .*Nothing was reset/s);

# A third worker id was not reset to the present.
set_and_reload($node, 'snowflake.worker_id = 9');
is(next_id($node), 'SF001', 'a third worker id may have run ahead, too');
sql_succeeds($node, reset_for(9), 'it can do a reset of its own');
is(next_id($node), 9, 'then it makes ids of the present');
set_and_reload($node, 'snowflake.worker_id = 7');
is(next_id($node), 'SF001', 'in place of the worker id before it');
set_and_reload($node, 'snowflake.worker_id = 9');
restart_with($node, stop => 'immediate', clock => 0);
is(next_id($node), 9, 'all of that survives a crash');
$node->stop('immediate');

# Without worker ids, nothing would keep new ids apart.
$node = new_server('no_worker', clock => 1, 'snowflake.layout' => 'snowflake worker:0', 'snowflake.max_wait' => 0);
restart_with($node, clock => $accident - time);
my $far_id = sql($node, 'SELECT snowflake_nextval()');
restart_with($node, clock => 0);
sql_fails(
	$node, reset_for(0), '55000', 'no reset in a layout without worker ids',
	qr/HINT:  Wait .*raise "snowflake\.max_ahead".*setval/s);
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'SF001', 'the hint is another one there',
	qr/HINT:  If no id .* drop the extension, restart the server, and create the extension again/);
set_and_reload($node, 'snowflake.max_ahead = -1');
cmp_ok(sql($node, 'SELECT snowflake_nextval()'), '>', $far_id, 'one of them is to raise max_ahead');
$node->stop;

# Trying a preset strands nobody: the hint says how to get back.
foreach my $case ([ 'snowflake', 'SF001', 'has to reach 204\d-' ], [ 'time:42 sequence:12', 'SF003', 'no tick left' ])
{
	my ($layout, $code, $cause) = @$case;

	$node = new_server('presets', 'snowflake.layout' => $layout, 'snowflake.max_wait' => 0);
	sql($node, 'CREATE TABLE ids (id bigint PRIMARY KEY); INSERT INTO ids SELECT snowflake_nextval()');
	restart_with($node, conf => "snowflake.layout = 'twitter'");
	sql($node, 'SELECT snowflake_nextval()');
	restart_with($node, conf => "snowflake.layout = '$layout'");
	sql_fails(
		$node, 'SELECT snowflake_nextval()', $code,
		"$layout: after a try of twitter, the error says how to get back",
		qr/$cause.*HINT:  .*drop the extension and create it again\..*return to that layout/s);
	like(
		sql($node, 'SELECT hint FROM snowflake_status()'), qr/^If no id .* drop the extension and create it again\./,
		'and so does the status');
	sql_is(
		$node, 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake;
INSERT INTO ids SELECT snowflake_nextval() RETURNING id > (SELECT max(id) FROM ids)', 't', 'that works');
	$node->stop;
	$node->clean_node;
}

# The owner of a database sets the mark far ahead while ids are ahead of the clock, and
# the server crashes.  Even the reset of an operator who is mistaken does not forget those
# ids, because the guard is near.
$node = new_server('set', synchronous_commit => 'on', 'snowflake.worker_id' => 3, 'snowflake.max_ahead' => '2min');
sql($node, "SELECT snowflake_advance(snowflake_compose(clock_timestamp() + '50 s'))");
my $last_id = sql($node, 'SELECT snowflake_nextval()');
sql($node, "SELECT setval('snowflake_internal.mark', snowflake_compose(now() + '1 year', 0, 4))");
restart_with($node, stop => 'immediate');
sql_succeeds($node, reset_for(3), 'a mark that SQL set far ahead is reset', qr/mark was reset/);
cmp_ok(sql($node, 'SELECT snowflake_nextval()'), '>', $last_id, 'ids begin above those that were ahead of the clock');
$node->stop;

# The layout is changed, and the mark is far ahead of the clock in the new one.  No worker
# id keeps its ids apart from those of the old one, in which it has other bits.  Nor does a
# new extension in a running server forget that there are ids of the old layout.
$node = new_hunting_server('layout', 'snowflake.layout' => 'snowflake timeline:0 lane:1', 'snowflake.worker_id' => 3);
restart_with($node, clock => $accident - time);
is(next_id($node), '3 far ahead', 'ids of the accident');
sql($node, 'DROP EXTENSION snowflake; CREATE EXTENSION snowflake');
restart_with($node, conf => "snowflake.layout = 'time:41 sequence:13 worker:5'\nsnowflake.worker_id = 7", clock => 0);
sql_fails(
	$node, reset_for(7), '55000', 'no reset in another layout',
	qr/below ids of another layout.*HINT:  Wait .*raise .*return to the old one/s);

# nor when the present layout has made ids above those
restart_with($node, conf => 'snowflake.worker_id = 9', clock => $accident + 10 - time);
is(next_id($node), '9 far ahead', 'ids of the present layout');
restart_with($node, conf => 'snowflake.worker_id = 7', clock => 0);
sql_fails($node, reset_for(7), '55000', 'no reset below ids of an earlier layout');

done_testing();

# No id is made twice by a primary and a standby that takes over: an asynchronous one that
# was cut off, and a synchronous one.  The simulator has all orders of events; this shows on
# real servers that the pieces fit.
#
# The standby passes through clock ticks of the primary, with the same worker id on the same
# two lanes.  All ids count that clients have seen, committed or not.

use List::Util qw(max min);
use SnowflakeTest;

# Create a primary with three clients that make ids, and a standby.
sub new_pair
{
	my ($name, %settings) = @_;
	my $primary = new_hunting_server(
		$name, 'wal_level' => 'replica', 'max_wal_senders' => 10, 'wal_retrieve_retry_interval' => '100ms',
		'snowflake.sequence_start' => 'zero', 'wal_consistency_checking' => 'all', %settings);
	my $standby = new_standby($primary, "${name}_standby", clock => 0);
	my @clients = start_collectors($primary, 3);
	wait_for_collectors($primary, 3);
	$primary->wait_for_catchup($standby);
	return ($primary, $standby, @clients);
}

# Cut a standby off from its upstream.  Returns when.
sub cut_off
{
	my ($standby) = @_;

	sql($standby, q{ALTER SYSTEM SET primary_conninfo = ''});
	$standby->reload;
	sql_becomes_true($standby, 'SELECT count(*) = 0 FROM pg_stat_wal_receiver', 'the standby is cut off');
	return time;
}

# Check what clients of a promoted standby did while its clock passed seconds of the primary.
# Returns their lowest id.
sub check_again
{
	my ($name, $standby, $old, $clients, undef, $errors) = @_;
	my ($ids, $duplicates) = count_duplicates(@$old, @$clients);

	is(join(' ', %$errors), '', "$name: clients see no errors");
	is($duplicates, 0, "$name: none of $ids ids is made twice");
	$standby->stop('immediate');
	unlike(slurp_file($standby->logfile), qr/inconsistent page/, "$name: replay makes the pages of the primary");
	my @new = ids_of(@$clients);
	cmp_ok(scalar @new, '>', 1000, "$name: the standby makes ids");
	return min(@new);
}

# The primary lives on, and makes the ids of 3 s and more before its standby does, whose clock
# is behind: the mark that it knows may be 2 s ahead of the moment when it was cut off, and no
# more.  However long a busy machine takes for the promotion, the same ticks pass again.
# The timeline tells the ids apart.
my ($primary, $standby, @clients) = new_pair('async');
foreach my $call ('snowflake_nextval()', 'snowflake_advance(0)', 'snowflake_reserve(1)')
{
	sql_fails($standby, "SELECT $call", '25006', "a standby refuses $call");
}
# a session that has done all that can be done before the promotion
my $session = $standby->background_psql('postgres', on_error_stop => 0);
$session->query("SELECT snowflake_decode(1);\nSELECT snowflake_nextval()");
like(take_errors($session), qr/during recovery/, 'and so it does in a session that remains');
my $cut = cut_off($standby);
sleep 5;
$standby->promote;
set_clock($standby, $cut + 2 - time);
is( $session->query_safe('SELECT (snowflake_decode(snowflake_nextval())).timeline'), 2,
	'a session from before the promotion uses the new timeline');
$session->quit;
my @again = live_from($standby, $cut + 2, $cut + 4.5);
$primary->stop('immediate');
is(join(' ', %{ stop_collectors(@clients) }), '', 'clients of the primary see no errors');
# without sequence, lane and timeline
cmp_ok(
	check_again('asynchronous', $standby, \@clients, @again) >> 20,
	'<', max(ids_of(@clients)) >> 20, 'the same ticks pass again');

# A synchronous standby, in a layout without a timeline.  The primary must not make ids above
# the mark that the standby has, although its clients do not wait for any commit.  Later, ids
# begin up to 3 s ahead of the clock of the standby: even half of max_ahead, which a session
# gets that a busy machine lets catch up on its statements, must be more.
($primary, $standby, @clients) =
  new_pair('sync', 'snowflake.layout' => 'snowflake timeline:0 lane:1', 'snowflake.max_ahead' => '8s');
set_and_reload($primary, "synchronous_standby_names = '*'");
sql_becomes_true(
	$primary, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'",
	'the standby is synchronous');
$primary->wait_for_catchup($standby);
my $blocked = q{
SELECT count(*) FILTER (WHERE wait_event = 'SyncRep') = 1 AND count(*) FILTER (WHERE wait_event_type = 'Extension') = 2
FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 20)%' AND pid <> pg_backend_pid()};
cut_off($standby);
sql_becomes_true($primary, $blocked, 'clients wait until the mark is on the standby');
sql($standby, 'ALTER SYSTEM RESET primary_conninfo');
$standby->reload;
sql_is(
	$primary, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 1000)', 1000,
	'they continue when the standby is back');
$primary->wait_for_catchup($standby);
cut_off($standby);
sql_becomes_true($primary, $blocked, 'they wait again');
$primary->stop('immediate');
is(join(' ', %{ stop_collectors(@clients) }), '', 'and see no errors');

$standby->promote;
my $last = max(ids_of(@clients));
cmp_ok(
	$last, '<=', sql($standby, 'SELECT last_value FROM snowflake_internal.mark'),
	'the mark of the standby covers all ids of the primary');
# its clock is behind them
my $begin = sql($standby, "SELECT extract(epoch FROM snowflake_timestamp($last)) - 1");
@again = live_from($standby, $begin, $begin + 2.5);
cmp_ok(
	check_again('synchronous', $standby, \@clients, @again),
	'>', $last, 'ids begin above those of the primary');

done_testing();

# No id is made twice by a primary and its standbys: an asynchronous standby that was
# cut off, a base backup that is recovered to a point in time, a synchronous standby.
#
# In each hunt, the new server passes through clock ticks of the old one, with the same
# worker id on the same few lanes.  The hunt counts the ids that clients have seen,
# committed or not.  It runs on the product, which must make no duplicates, and in
# parallel on a mutant, where it must find some.

use FindBin;
use lib $FindBin::RealBin;
use List::Util qw(max);
use SnowflakeTest;

# All servers come from backups of one, so that they can be standbys of each other.
# Ticks start at sequence 0, where duplicates are most likely.
my $origin = new_server(
	'origin', 'wal_level' => 'replica', 'max_wal_senders' => 10, 'wal_retrieve_retry_interval' => '100ms',
	'shared_buffers' => '32MB', 'client_min_messages' => 'error', 'snowflake.worker_id' => 3,
	'snowflake.sequence_start' => 'zero');
$origin->backup('empty');

# By layout: the mask that reduces an id to its tick and lane
my %cell_mask =
  map { $_ => sql($origin, "SELECT sum(largest << shift) FROM snowflake_layout('$_') WHERE name IN ('time', 'lane')") }
  ('snowflake lane:1', 'snowflake timeline:0 lane:1');
$origin->stop;

# Create a server from a backup.  "upstream" makes it a standby, and "mutant" gives it a
# library with a fault.
my %mutant_of;

sub server_from_backup
{
	my ($name, $source, $backup, %settings) = @_;
	my $upstream = delete $settings{upstream};
	my $mutant = delete $settings{mutant};

	$name .= '_mutant' if $mutant;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($source, $backup);
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") foreach sort keys %settings;
	$node->enable_streaming($upstream) if $upstream;
	use_mutant($node, $mutant) if $mutant;
	$mutant_of{$name} = $mutant;
	return $node;
}

# Return how many ids were made twice, and in how many ticks two servers used the same lane.
sub compare
{
	my ($layout, $first, $second) = @_;
	my $mask = int $cell_mask{$layout};
	my %seen = map { $_ => 1 } @$first;
	my %cells = map { ($_ & $mask) => 1 } @$first;

	return (scalar(grep { $seen{$_}++ } @$second), scalar grep { delete $cells{ $_ & $mask } } @$second);
}

# Have clients make ids on servers whose clock shows the time of an old one again, and judge
# the result.  The product makes no ids in the same ticks if it knows the mark.
sub hunt
{
	my ($name, $layout, $old, $knows_mark, @nodes) = @_;
	my @clients = map { [ start_collectors($_, 2) ] } @nodes;

	sleep 2.5;
	foreach my $node (@nodes)
	{
		my $mutant = $mutant_of{ $node->name };
		my $label = "$name: " . ($mutant ? "mutant that $mutant" : 'product');
		my @new = @{ shift @clients };

		wait_for_lines(5000, map { $_->{ids} } @new);
		is(join(' ', %{ stop_collectors(@new) }), '', "$label: clients see no errors");
		my ($first, $second) = ($old->{ $mutant // '' }, [ ids_of(@new) ]);
		my ($duplicates, $cells) = compare($layout, $first, $second);
		note sprintf '%s: %d and %d ids, %d ticks of a lane passed twice, %d duplicates', $label, scalar @$first,
		  scalar @$second, $cells, $duplicates;
		cmp_ok(scalar @$_, '>=', 5000, "$label: a server makes ids") foreach $first, $second;
		if ($knows_mark && !$mutant)
		{
			is($cells, 0, "$label: ids start above the mark");
		}
		else
		{
			cmp_ok($cells, '>=', 20, "$label: the same ticks pass on the same lanes");
		}
		cmp_ok($duplicates, $mutant ? '>' : '==', 0, "$label: duplicates");
		$node->stop('immediate');
	}
	return;
}

# Wait until a standby has replayed what its upstream has flushed.
sub wait_until_streaming
{
	my ($upstream, $standby) = @_;
	my $lsn = sql($upstream, 'SELECT pg_current_wal_flush_lsn()');

	$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'")
	  or die 'standby does not follow';
	return;
}

# Cut a standby off from its upstream.
sub cut_off
{
	my ($standby) = @_;

	sql($standby, q{ALTER SYSTEM SET primary_conninfo = ''});
	$standby->reload;
	$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver')
	  or die 'standby was not cut off';
	return;
}

# An asynchronous standby is cut off; the primary runs for another 5 s and disappears.
# The standby is promoted with its clock 3 s behind, and passes those seconds again: the
# mark that it knows may be 2 s ahead of the moment when it was cut off, and no more.  A
# base backup, taken under load, is recovered to that moment, too.  The timeline tells
# the ids apart.
my $layout = 'snowflake lane:1';
my @builds = with_mutants() ? (undef, 'ignores the timeline') : (undef);
my $primary = server_from_backup('primary', $origin, 'empty', 'snowflake.layout' => $layout);
$primary->enable_archiving;
$primary->start;
my @clients = start_collectors($primary, 4);
wait_for_collectors($primary, 4);
$primary->backup('base');

my @standbys =
  map { server_from_backup('standby', $primary, 'base', upstream => $primary, mutant => $_, 'archive_mode' => 'off') }
  @builds;
foreach my $standby (@standbys)
{
	start_with_clock($standby, 0);
	wait_until_streaming($primary, $standby);
}
sql_fails($standbys[0], 'SELECT snowflake_nextval()', '25006', 'a standby makes no ids');
sql_fails($standbys[0], 'SELECT snowflake_advance(0)', '25006', 'a standby does not move the mark');
sql_fails($standbys[0], 'SELECT * FROM snowflake_reserve(1)', '25006', 'a standby reserves no ids');
# a session that has done all that can be done before the promotion
my $session = $standbys[0]->background_psql('postgres', on_error_stop => 0);
$session->query("SELECT snowflake_decode(1);\nSELECT snowflake_nextval()");
like(take_errors($session), qr/during recovery/, 'nor does a session that remains');

cut_off($_) foreach @standbys;
my $wal = sql($primary, <<'EOC');
SELECT pg_walfile_name(pg_create_restore_point('cut'));
SELECT FROM pg_switch_wal();
EOC
my $cut = time;
my @recovered = map {
	server_from_backup(
		'recovered', $primary, 'base', mutant => $_, 'archive_mode' => 'off',
		'recovery_target_name' => 'cut', 'recovery_target_action' => 'promote')
} @builds;
$_->enable_restoring($primary, 0) foreach @recovered;
sleep max(0, $cut + 5 - time);
$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver")
  or die 'WAL was not archived';
$primary->stop('immediate');
is(join(' ', %{ stop_collectors(@clients) }), '', 'clients of the primary see no errors');
my %old = map { ($_ // '') => [ ids_of(@clients) ] } @builds;

$_->promote foreach @standbys;
set_clock($_, $cut + 2 - time) foreach @standbys;
is( $session->query_safe('SELECT snowflake_timeline(snowflake_nextval())'), 2,
	'a session from before the promotion uses the new timeline');
$session->quit;
hunt('standby that was cut off', $layout, \%old, 0, @standbys);

start_with_clock($_, $cut + 2 - time) foreach @recovered;
foreach my $node (@recovered)
{
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery did not end';
	set_clock($node, $cut + 2 - time);
}
hunt('point-in-time recovery', $layout, \%old, 0, @recovered);

# A synchronous standby, in a layout without a timeline.  The standby is cut off, and
# the primary must not make ids above the mark that the standby has, although its
# clients do not wait for any commit.
$layout = 'snowflake timeline:0 lane:1';
@builds = with_mutants() ? (undef, 'does not wait for standbys') : (undef);
my @pairs;
foreach my $mutant (@builds)
{
	my %pair = (mutant => $mutant // '');
	my @settings = ('snowflake.layout' => $layout, 'snowflake.max_ahead' => '4s', mutant => $mutant);

	$pair{primary} = server_from_backup('sync', $origin, 'empty', 'synchronous_standby_names' => '*', @settings);
	$pair{primary}->start;
	$pair{standby} = server_from_backup('sync_standby', $origin, 'empty', upstream => $pair{primary}, @settings);
	start_with_clock($pair{standby}, 0);
	sql_becomes_true(
		$pair{primary}, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'",
		'the standby is synchronous');
	$pair{clients} = [ start_collectors($pair{primary}, 3) ];
	push @pairs, \%pair;
}
wait_for_collectors($_->{primary}, 3) foreach @pairs;

# Wait until all clients wait for the mark, and one of them for the standby.
sub wait_until_blocked
{
	my ($node) = @_;

	return sql_becomes_true(
		$node, q{
SELECT count(*) FILTER (WHERE wait_event = 'SyncRep') = 1 AND count(*) FILTER (WHERE wait_event_type = 'Extension') = 2
FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 20)%' AND pid <> pg_backend_pid()},
		'clients wait until the mark is on the standby');
}

my ($sync, $sync_standby) = @{ $pairs[0] }{ 'primary', 'standby' };
cut_off($sync_standby);
wait_until_blocked($sync);
sql_fails(
	$sync, q{SET statement_timeout = '200ms'; SELECT snowflake_nextval()}, '57014',
	'a wait for the waiting session can be ended');
# the session may be checking for an end of the wait just then
$sync->poll_query_until(
	'postgres',
	"SELECT count(pg_cancel_backend(pid)) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
) or die 'no session waits';
wait_until_blocked($sync);
sql($sync_standby, 'ALTER SYSTEM RESET primary_conninfo');
$sync_standby->reload;
sql_is(
	$sync, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 1000)', 1000,
	'they continue when the standby is back');
wait_until_streaming($sync, $sync_standby);

foreach my $pair (@pairs)
{
	cut_off($pair->{standby});
	$pair->{cut} = time;
}
wait_until_blocked($sync);
sleep 3;
%old = ();
foreach my $pair (@pairs)
{
	$pair->{primary}->stop('immediate');
	my $errors = join ' ', %{ stop_collectors(@{ $pair->{clients} }) };
	is($errors, '57014 1', 'only the canceled client sees an error') if !$pair->{mutant};
	$old{ $pair->{mutant} } = [ ids_of(@{ $pair->{clients} }) ];
}
foreach my $pair (@pairs)
{
	my ($standby, $mutant) = @{$pair}{ 'standby', 'mutant' };
	my @ids = @{ $old{$mutant} };
	my $label = 'synchronous standby: ' . ($mutant ? "mutant that $mutant" : 'product');

	$standby->promote;
	my $mark = sql($standby, 'SELECT last_value FROM snowflake_internal.mark');
	cmp_ok(scalar(grep { $_ > $mark } @ids), $mutant ? '>' : '==', 0, "$label: ids of the primary above its mark");
	set_clock($standby, $pair->{cut} - 1 - time);
	sql_is(
		$standby, 'SELECT snowflake_timestamp(' . max(@ids) . ') > clock_timestamp()', 't',
		"$label: its clock is behind ids of the primary");
}
hunt('synchronous standby', $layout, \%old, 1, map { $_->{standby} } @pairs);

done_testing();

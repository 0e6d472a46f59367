# No id is made twice by a primary and its standbys: an asynchronous standby that was
# cut off, a base backup that is recovered to a point in time, a synchronous standby.
#
# In each hunt, the new server passes through clock ticks of the old one, with the same
# worker id on the same few lanes.  The hunt counts the ids that clients have seen,
# committed or not.  It runs on the product, which must make no duplicates, and in
# parallel on a mutant, where it must find some.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use IPC::Run;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

# All servers come from backups of one, so that they can be standbys of each other.
# Ticks start at sequence 0, where duplicates are most likely.
my $origin = new_server(
	'origin',
	'wal_level' => 'replica',
	'max_wal_senders' => 10,
	'wal_retrieve_retry_interval' => '100ms',
	'shared_buffers' => '32MB',
	'client_min_messages' => 'error',
	'snowflake.worker_id' => 3,
	'snowflake.sequence_start' => 'zero');
$origin->backup('empty');

# By layout: the mask that reduces an id to its tick and lane
my %cell_mask = map {
	$_ => $origin->safe_psql(
		'postgres',
		"SELECT sum(largest << shift) FROM snowflake_layout('$_') WHERE name IN ('time', 'lane')")
} ('snowflake lane:1', 'snowflake timeline:0 lane:1');
$origin->stop;

# Create a server from a backup.  "upstream" makes it a standby, and "mutant" gives it a
# library with a fault.
sub server_from_backup
{
	my ($name, $source, $backup, %settings) = @_;
	my $upstream = delete $settings{upstream};
	my $mutant = delete $settings{mutant};
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init_from_backup($source, $backup);
	$node->append_conf('postgresql.conf', "test.server = '$name'");
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") foreach sort keys %settings;
	$node->enable_streaming($upstream) if $upstream;
	use_mutant($node, $mutant) if $mutant;
	return $node;
}

# Start clients that write down each id and the server that it came from.  They use
# whichever of the servers is the primary.  Each makes some thousand ids per second, in
# every tick; more would only take longer to evaluate.
sub start_clients
{
	my ($count, @nodes) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my %clients = (dir => $dir, runs => []);

	# They continue while a file exists, which disappears along with a failed test.
	# Lines are long, so that few of them are left in the pipe by then.
	my @command = (
		'sh', '-c', <<'EOC',
while [ -e "$0" ]; do
	while [ -e "$0" ]; do
		printf '%-2000s\n' "$1" || break
	done 2>/dev/null | "$2" -XAtq -v ON_ERROR_STOP=1 -d "$3"
	sleep 0.1
done
EOC
		"$dir/go_on",
		"SELECT snowflake_nextval(), current_setting('test.server') FROM generate_series(1, 10), pg_sleep(0.001);",
		$nodes[0]->installed_command('psql'),
		'dbname=postgres application_name=client target_session_attrs=read-write'
		  . ' host='
		  . join(',', map { $_->host } @nodes)
		  . ' port='
		  . join(',', map { $_->port } @nodes));

	append_to_file("$dir/go_on", '');
	push @{ $clients{runs} },
	  IPC::Run::start(\@command, '<' => \undef, '>' => "$dir/out$_", '2>' => "$dir/err$_") foreach 1 .. $count;
	return \%clients;
}

# Wait until a number of clients are connected.
sub wait_for_clients
{
	my ($node, $count) = @_;

	$node->poll_query_until(
		'postgres',
		"SELECT count(*) = $count FROM pg_stat_activity WHERE application_name = 'client'"
	) or die 'clients do not connect';
	return;
}

# Stop clients.  Returns their ids, by server, and the errors that they saw other than
# the loss of a server.
sub stop_clients
{
	my ($clients) = @_;
	my %ids;
	my $errors = '';

	unlink "$clients->{dir}/go_on";
	$_->finish foreach @{ $clients->{runs} };
	foreach my $file (glob "$clients->{dir}/out*")
	{
		open my $out, '<', $file or die "could not open $file: $!";
		while (<$out>)
		{
			/^(\d+)\|(\w+)$/ or die "not an id: $_";
			push @{ $ids{$2} }, int $1;
		}
		close $out;
	}
	$errors .= join '', grep { /ERROR:/ } split /^/, slurp_file($_) foreach glob "$clients->{dir}/err*";
	return (\%ids, $errors);
}

# Look for ids that were made twice, and for ticks in which two servers used the same
# lane.
sub compare
{
	my ($layout, $first, $second) = @_;
	my $mask = int $cell_mask{$layout};
	my (%seen, %cells);
	my %result = (
		first => scalar @$first,
		second => scalar @$second,
		duplicates => 0,
		cells => 0);

	foreach (@$first, @$second)
	{
		$result{duplicates}++ if $seen{$_}++;
	}
	$cells{ $_ & $mask } = 1 foreach @$first;
	foreach (@$second)
	{
		$result{cells}++ if delete $cells{ $_ & $mask };
	}
	return \%result;
}

# Judge the result of a hunt.
sub is_unique
{
	my ($result, $mutant, $name) = @_;
	my $label = "$name: " . ($mutant ? "mutant that $mutant" : 'product');

	note "$label: $result->{first} and $result->{second} ids, "
	  . ($result->{cells} // 0)
	  . " ticks of a lane passed twice, $result->{duplicates} duplicates";
	cmp_ok($result->{first}, '>=', 5000, "$label: the old server makes ids");
	cmp_ok($result->{second}, '>=', 5000, "$label: the new server makes ids");
	cmp_ok($result->{cells}, '>=', 20, "$label: the same ticks pass on the same lanes")
	  if defined $result->{cells};
	if ($mutant)
	{
		cmp_ok($result->{duplicates}, '>', 0, "$label: duplicates are found");
	}
	else
	{
		is($result->{duplicates}, 0, "$label: no duplicate");
	}
	return;
}

# Set the clock of a server to an instant.
sub live_again
{
	my ($node, $instant) = @_;

	set_clock($node, $instant - time);
	return;
}

# Wait until a standby has replayed what its upstream has flushed.
sub wait_until_streaming
{
	my ($upstream, $standby) = @_;
	my $lsn = $upstream->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');

	$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'")
	  or die 'standby does not follow';
	return;
}

# Cut a standby off from its upstream, and attach it again.
sub cut_off
{
	my ($standby) = @_;

	$standby->safe_psql('postgres', q{ALTER SYSTEM SET primary_conninfo = ''});
	$standby->reload;
	$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver')
	  or die 'standby was not cut off';
	return;
}

sub attach
{
	my ($standby) = @_;

	$standby->safe_psql('postgres', 'ALTER SYSTEM RESET primary_conninfo');
	$standby->reload;
	return;
}

# Open a session on a standby, and have it try to make an id, which does all that can be
# done before the promotion.
sub session_on_standby
{
	my ($standby) = @_;
	my $session = $standby->background_psql('postgres', on_error_stop => 0);

	$session->query('SELECT snowflake_decode(1)');
	$session->query('SELECT snowflake_nextval()');
	like(
		$session->{stderr}, qr/cannot execute snowflake_nextval\(\) during recovery/,
		'a session on ' . $standby->name . ' makes no id before it is promoted');
	$session->{stderr} = '';
	$session->query('SELECT * FROM snowflake_reserve(1)');
	like(
		$session->{stderr}, qr/cannot execute snowflake_reserve\(\) during recovery/,
		'a session on ' . $standby->name . ' reserves no ids, either');
	$session->{stderr} = '';
	return $session;
}

#
# An asynchronous standby is cut off; the primary runs for another 5 s and disappears.
# The standby is promoted with its clock 3 s behind, and passes those seconds again: the
# mark that it knows may be 2 s ahead of the moment when it was cut off, and no more.  A
# base backup, taken under load, is recovered to that moment, too.  The timeline tells
# the ids apart.
#
my $layout = 'snowflake lane:1';
my @builds = with_mutants() ? (undef, 'ignores the timeline') : (undef);
my $primary = server_from_backup('primary', $origin, 'empty', 'snowflake.layout' => $layout);
$primary->enable_archiving;
$primary->start;
my $clients = start_clients(4, $primary);
wait_for_clients($primary, 4);
$primary->backup('base');

my @standbys;
foreach my $mutant (@builds)
{
	my $standby = server_from_backup(
		$mutant ? 'standby_mutant' : 'standby',
		$primary, 'base',
		upstream => $primary,
		mutant => $mutant,
		'archive_mode' => 'off');

	start_with_clock($standby, 0);
	wait_until_streaming($primary, $standby);
	push @standbys, $standby;
}

my ($code) = sqlstate_of($standbys[0], 'SELECT snowflake_nextval()');
is($code, '25006', 'a standby makes no ids');
($code) = sqlstate_of($standbys[0], 'SELECT snowflake_advance(0)');
is($code, '25006', 'a standby does not move the mark');
my $session = session_on_standby($standbys[0]);

cut_off($_) foreach @standbys;
my $wal = $primary->safe_psql('postgres', <<'EOC');
SELECT pg_walfile_name(pg_create_restore_point('cut'));
SELECT FROM pg_switch_wal();
EOC
my $cut = time;
my @recovered;
foreach my $mutant (@builds)
{
	my $node = server_from_backup(
		$mutant ? 'recovered_mutant' : 'recovered',
		$primary, 'base',
		mutant => $mutant,
		'archive_mode' => 'off',
		'recovery_target_name' => 'cut',
		'recovery_target_action' => 'promote');

	$node->enable_restoring($primary, 0);
	push @recovered, $node;
}
sleep max(0, $cut + 5 - time);
$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver")
  or die 'WAL was not archived';
$primary->stop('immediate');
my ($old, $errors) = stop_clients($clients);
is($errors, '', 'clients of the primary see no errors');

$_->promote foreach @standbys;
live_again($_, $cut + 2) foreach @standbys;
is( $session->query_safe('SELECT snowflake_timeline(snowflake_nextval())'),
	2, 'a session from before the promotion uses the new timeline');
$session->quit;
my @runs = map { start_clients(2, $_) } @standbys;
sleep 2.5;
wait_for_lines(5000, glob "$_->{dir}/out*") foreach @runs;
foreach my $mutant (@builds)
{
	my ($new, $errors) = stop_clients(shift @runs);
	my $standby = shift @standbys;

	is($errors, '', 'clients of ' . $standby->name . ' see no errors');
	is_unique(
		compare($layout, $old->{primary}, $new->{ $standby->name }),
		$mutant,
		'standby that was cut off');
	$standby->stop('immediate');
}

start_with_clock($_, $cut + 2 - time) foreach @recovered;
foreach my $node (@recovered)
{
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
	  or die 'recovery did not end';
	live_again($node, $cut + 2);
}
@runs = map { start_clients(2, $_) } @recovered;
sleep 2.5;
wait_for_lines(5000, glob "$_->{dir}/out*") foreach @runs;
foreach my $mutant (@builds)
{
	my ($new, $errors) = stop_clients(shift @runs);
	my $node = shift @recovered;

	is($errors, '', 'clients of ' . $node->name . ' see no errors');
	is_unique(
		compare($layout, $old->{primary}, $new->{ $node->name }),
		$mutant,
		'point-in-time recovery');
	$node->stop('immediate');
}

#
# A synchronous standby, in a layout without a timeline.  The standby is cut off, and
# the primary must not make ids above the mark that the standby has, although its
# clients do not wait for any commit.
#
$layout = 'snowflake timeline:0 lane:1';
@builds = with_mutants() ? (undef, 'does not wait for standbys') : (undef);
my @pairs;
foreach my $mutant (@builds)
{
	my %pair = (mutant => $mutant);
	my @settings = (
		'snowflake.layout' => $layout,
		'snowflake.max_ahead' => '4s',
		mutant => $mutant);

	$pair{primary} = server_from_backup(
		$mutant ? 'sync_mutant' : 'sync',
		$origin, 'empty',
		'synchronous_standby_names' => '*',
		@settings);
	$pair{primary}->start;
	$pair{standby} = server_from_backup(
		$mutant ? 'sync_standby_mutant' : 'sync_standby',
		$origin, 'empty',
		upstream => $pair{primary},
		@settings);
	start_with_clock($pair{standby}, 0);
	$pair{primary}->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'") or die 'standby is not synchronous';
	$pair{clients} = start_clients(3, $pair{primary});
	push @pairs, \%pair;
}
wait_for_clients($_->{primary}, 3) foreach @pairs;

# Wait until all clients wait for the mark, and one of them for the standby.
sub wait_until_blocked
{
	my ($node) = @_;

	ok( $node->poll_query_until(
			'postgres', q{
SELECT count(*) FILTER (WHERE wait_event = 'SyncRep') = 1 AND count(*) FILTER (WHERE wait_event_type = 'Extension') = 2
FROM pg_stat_activity WHERE application_name = 'client'}),
		'clients wait until the mark is on the standby');
	return;
}

my ($sync, $sync_standby) = @{ $pairs[0] }{ 'primary', 'standby' };
cut_off($sync_standby);
wait_until_blocked($sync);
($code) = sqlstate_of($sync, q{SET statement_timeout = '200ms'; SELECT snowflake_nextval()});
is($code, '57014', 'a wait for the waiting session can be ended');
# the session may be checking for an end of the wait just then
$sync->poll_query_until(
	'postgres',
	"SELECT count(pg_cancel_backend(pid)) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
) or die 'no session waits';
wait_until_blocked($sync);
attach($sync_standby);
is( $sync->safe_psql(
		'postgres',
		'SELECT count(snowflake_nextval()) FROM generate_series(1, 1000)'),
	1000,
	'they continue when the standby is back');
wait_until_streaming($sync, $sync_standby);

foreach my $pair (@pairs)
{
	cut_off($pair->{standby});
	$pair->{cut} = time;
}
wait_until_blocked($sync);
sleep 3;
foreach my $pair (@pairs)
{
	$pair->{primary}->stop('immediate');
	my ($old, $errors) = stop_clients($pair->{clients});
	$pair->{old} = $old->{ $pair->{primary}->name };
	$pair->{old_errors} = $errors;
}
foreach my $pair (@pairs)
{
	$pair->{standby}->promote;
	$pair->{mark} =
	  $pair->{standby}->safe_psql('postgres', 'SELECT last_value FROM snowflake_internal.mark');
	live_again($pair->{standby}, $pair->{cut} - 1);
	my $last = max(@{ $pair->{old} });
	$pair->{behind} = $pair->{standby}->safe_psql(
		'postgres',
		"SELECT snowflake_timestamp($last) - clock_timestamp() > '0 s'");
	$pair->{clients} = start_clients(2, $pair->{standby});
}
sleep 3.9;
wait_for_lines(5000, glob "$_->{clients}{dir}/out*") foreach @pairs;
foreach my $pair (@pairs)
{
	my $label = $pair->{mutant} ? "mutant that $pair->{mutant}" : 'product';
	my ($new, $errors) = stop_clients($pair->{clients});
	my $result = compare($layout, $pair->{old}, $new->{ $pair->{standby}->name });
	my $above = grep { $_ > $pair->{mark} } @{ $pair->{old} };

	is($errors, '', "synchronous standby: $label: clients see no errors");
	is($pair->{behind}, 't', "synchronous standby: $label: its clock is behind ids of the primary");
	if (!$pair->{mutant})
	{
		like(
			$pair->{old_errors},
			qr/\A[^\n]*ERROR:  canceling statement due to user request\n\z/,
			"synchronous standby: $label: only the canceled client sees an error");
		is($above, 0, "synchronous standby: $label: no id is above the mark of the standby");
		# the clock shows the same ticks, but ids skip them
		is(delete $result->{cells}, 0, "synchronous standby: $label: ids start above the mark");
	}
	else
	{
		cmp_ok($above, '>', 0, "synchronous standby: $label: ids are above the mark");
	}
	is_unique($result, $pair->{mutant}, 'synchronous standby');
	$pair->{standby}->stop('immediate');
}

done_testing();

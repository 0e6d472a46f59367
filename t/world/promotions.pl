# Two servers that are each other's standby, promoted in turn six times.  Each time
# the standby is cut off while the primary goes on, the clock of the new primary is
# behind, so that it lives those seconds again, and pg_rewind makes the old one its
# standby.  The timeline tells the ids apart; in a layout without it, the hunt has to
# find some that were made twice.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/..";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $origin = new_server(
	'origin',
	'wal_level' => 'replica',
	'max_wal_senders' => 10,
	'wal_log_hints' => 'on',
	'wal_retrieve_retry_interval' => '100ms',
	'shared_buffers' => '32MB',
	'client_min_messages' => 'error',
	'snowflake.worker_id' => 3,
	'snowflake.sequence_start' => 'zero');
$origin->backup('empty');
$origin->stop;

# How far a standby has come.
sub wait_until_streaming
{
	my ($primary, $standby) = @_;
	my $lsn = $primary->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');

	$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'")
	  or BAIL_OUT('standby does not follow');
	return;
}

# Make a server that was primary the standby of another.
sub rewind
{
	my ($node, $primary) = @_;
	my $conf = $node->data_dir . '/postgresql.conf';
	my $settings = slurp_file($conf);

	$primary->safe_psql('postgres', 'CHECKPOINT');
	system_or_bail(
		'pg_rewind', '--no-sync',
		'--source-server=' . $primary->connstr('postgres'),
		'--target-pgdata=' . $node->data_dir);
	# it has taken the other's settings
	unlink $conf, $node->data_dir . '/postgresql.auto.conf';
	append_to_file($conf, $settings);
	$node->enable_streaming($primary);
	start_with_clock($node, 0);
	return;
}

# Returns how many ids there are, how many of them were made twice, and by how
# many timelines.
sub hunt
{
	my ($name, $layout) = @_;
	my ($primary, $standby) = map { PostgreSQL::Test::Cluster->new("${name}_$_") } qw(north south);
	my @collectors;

	foreach my $node ($primary, $standby)
	{
		$node->init_from_backup($origin, 'empty');
		$node->append_conf('postgresql.conf', "snowflake.layout = '$layout'");
	}
	$standby->enable_streaming($primary);
	start_with_clock($_, 0) foreach $primary, $standby;
	push @collectors, start_collectors($primary, 4);
	wait_for_collectors($primary, 4);

	foreach my $promotion (1 .. 6)
	{
		wait_until_streaming($primary, $standby);
		$standby->safe_psql('postgres', q{ALTER SYSTEM SET primary_conninfo = ''});
		$standby->reload;
		$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver')
		  or BAIL_OUT('standby was not cut off');
		my $cut = $primary->safe_psql('postgres', 'SELECT extract(epoch FROM clock_timestamp())');
		sleep 4;
		$primary->stop('immediate');
		stop_collectors(@collectors[ -4 .. -1 ]);

		# the mark that it knows may be 2 s ahead of when it was cut off
		set_clock($standby, $cut + 2.1 - time);
		$standby->promote;
		push @collectors, start_collectors($standby, 4);
		wait_for_collectors($standby, 4);
		sleep 2.5;
		rewind($primary, $standby) if $promotion < 6;
		($primary, $standby) = ($standby, $primary);
	}
	stop_collectors(@collectors[ -4 .. -1 ]);
	is( $primary->safe_psql('postgres', 'SELECT timeline_id FROM pg_control_checkpoint()'),
		7, "$name: promoted six times") if $primary->safe_psql('postgres', 'CHECKPOINT') eq '';
	$primary->stop('immediate');
	return count_duplicates(@collectors);
}

my ($ids, $duplicates) = hunt('product', 'snowflake lane:1');
cmp_ok($ids, '>', 20_000, 'many ids were made');
is($duplicates, 0, "none of the $ids ids was made twice");

($ids, $duplicates) = hunt('control', 'snowflake timeline:0 lane:1');
cmp_ok($duplicates, '>', 0, "a layout without the timeline: $duplicates of $ids ids were made twice");

done_testing();

# Two servers are standbys of each other, and promoted in turn, six times.  Each time
# the standby is cut off while the primary continues; the clock of the new primary is
# behind, so that it passes those seconds again; and pg_rewind makes the old primary its
# standby.  The timeline tells the ids apart.  In a layout without it, the hunt must
# find duplicates.

use SnowflakeTest;

my $origin = new_server(
	'origin', 'wal_level' => 'replica', 'max_wal_senders' => 10, 'wal_log_hints' => 'on',
	'wal_retrieve_retry_interval' => '100ms', 'shared_buffers' => '32MB', 'client_min_messages' => 'error',
	'snowflake.worker_id' => 3, 'snowflake.sequence_start' => 'zero');
$origin->backup('empty');
$origin->stop;

# Wait until a standby has replayed what its primary has flushed.
sub wait_until_streaming
{
	my ($primary, $standby) = @_;
	my $lsn = sql($primary, 'SELECT pg_current_wal_flush_lsn()');

	$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'")
	  or BAIL_OUT('standby does not follow');
	return;
}

# Make a standby of a server that was a primary.
sub rewind
{
	my ($node, $primary) = @_;
	my $conf = $node->data_dir . '/postgresql.conf';
	my $settings = slurp_file($conf);

	sql($primary, 'CHECKPOINT');
	system_or_bail(
		'pg_rewind', '--no-sync', '--source-server=' . $primary->connstr('postgres'),
		'--target-pgdata=' . $node->data_dir);
	# pg_rewind copied the settings of the other server
	unlink $conf, $node->data_dir . '/postgresql.auto.conf';
	append_to_file($conf, $settings);
	$node->enable_streaming($primary);
	start_with_clock($node, 0);
	return;
}

# Return the number of ids, and of duplicates.
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
		sql($standby, q{ALTER SYSTEM SET primary_conninfo = ''});
		$standby->reload;
		$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver')
		  or BAIL_OUT('standby was not cut off');
		my $cut = sql($primary, 'SELECT extract(epoch FROM clock_timestamp())');
		sleep 4;
		$primary->stop('immediate');
		stop_collectors(@collectors[ -4 .. -1 ]);

		# the mark that the standby knows may be 2 s ahead of the moment when it was cut
		# off
		set_clock($standby, $cut + 2.1 - time);
		$standby->promote;
		push @collectors, start_collectors($standby, 4);
		wait_for_collectors($standby, 4);
		sleep 2.5;
		rewind($primary, $standby) if $promotion < 6;
		($primary, $standby) = ($standby, $primary);
	}
	stop_collectors(@collectors[ -4 .. -1 ]);
	sql_is($primary, 'SELECT timeline_id FROM pg_control_checkpoint()', 7, "$name: servers were promoted six times")
	  if sql($primary, 'CHECKPOINT') eq '';
	$primary->stop('immediate');
	return count_duplicates(@collectors);
}

my ($ids, $duplicates) = hunt('product', 'snowflake lane:1');
cmp_ok($ids, '>', 20_000, 'many ids were made');
is($duplicates, 0, "none of $ids ids is made twice");

($ids, $duplicates) = hunt('control', 'snowflake timeline:0 lane:1');
cmp_ok($duplicates, '>', 0, "without the timeline, $duplicates of $ids ids are made twice");

done_testing();

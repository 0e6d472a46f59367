# Six recoveries of one backup, which share its archive and so know each other's
# timelines.  The clock of each starts where the server in the backup ended, so that all
# of them pass the same seconds.  In a layout without the timeline, the hunt must find
# duplicates.

use SnowflakeTest;

# Return the number of ids, and of duplicates, and the timelines of the recoveries.
sub hunt
{
	my ($name, $layout) = @_;
	my $origin = PostgreSQL::Test::Cluster->new($name);
	my (@collectors, @timelines);

	$origin->init(has_archiving => 1, allows_streaming => 1);
	$origin->append_conf('postgresql.conf', <<"EOC");
autovacuum = off
client_min_messages = error
snowflake.layout = '$layout'
snowflake.sequence_start = 'zero'
EOC
	start_with_clock($origin, 0);
	sql($origin, 'CREATE EXTENSION snowflake');
	push @collectors, start_collectors($origin, 4);
	wait_for_collectors($origin, 4);
	$origin->backup('base');
	sleep 1;
	my $wal = sql($origin, 'SELECT pg_walfile_name(pg_switch_wal())');
	my $end = time;
	$origin->poll_query_until('postgres', "SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver")
	  or BAIL_OUT('WAL was not archived');
	$origin->stop('immediate');
	stop_collectors(@collectors);

	foreach my $recovery (1 .. 6)
	{
		my $node = PostgreSQL::Test::Cluster->new("${name}_$recovery");

		# it uses the archive of the first server
		$node->init_from_backup($origin, 'base', has_restoring => 1, standby => 0);
		$node->append_conf('postgresql.conf', "recovery_target_timeline = 'current'");
		# the mark that was archived may be 2 s ahead
		start_with_clock($node, $end + 2.1 - time);
		$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
		  or BAIL_OUT('recovery did not end');
		push @timelines,
		  sql($node, "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)");
		my @own = start_collectors($node, 4);
		push @collectors, @own;
		wait_for_collectors($node, 4);
		sleep 2;
		stop_collectors(@own);
		# the next recovery looks for the history file in the archive
		my $history = $origin->archive_dir . "/$timelines[-1].history";
		foreach (1 .. 1800)
		{
			last if -e $history;
			sleep 0.1;
		}
		ok(-e $history, "$name: the archive has the timeline of recovery $recovery");
		$node->stop('immediate');
	}
	return (count_duplicates(@collectors), join ' ', map { hex } @timelines);
}

my ($ids, $duplicates, $timelines) = hunt('product', 'snowflake timeline:3 lane:1');
is($timelines, '2 3 4 5 6 7', 'each recovery has a timeline of its own');
cmp_ok($ids, '>', 10_000, 'many ids were made');
is($duplicates, 0, "none of $ids ids is made twice");

($ids, $duplicates) = hunt('control', 'snowflake timeline:0 lane:1');
cmp_ok($duplicates, '>', 0, "without the timeline, $duplicates of $ids ids are made twice");

done_testing();

# Copies of a server that are started along with it: those of pg_basebackup, and the
# subscribers that pg_createsubscriber makes of its standbys.  A worker id that was set
# by ALTER SYSTEM is copied, too, and then the same ids are made.  With one that is set
# before the first start, as the guide advises, no id is made twice.  A subscriber has
# another system identifier, so its log and its status show that the mark is not its own.

use FindBin;
use lib "$FindBin::RealBin/..";
use SnowflakeTest;

plan skip_all => 'pg_createsubscriber came with PostgreSQL 17'
  if `pg_config --version` =~ /(\d+)/ && $1 < 17;

my $primary = new_server(
	'primary', 'wal_level' => 'logical', 'max_wal_senders' => 20, 'max_replication_slots' => 20,
	'shared_buffers' => '32MB', 'snowflake.layout' => 'snowflake lane:1', 'snowflake.sequence_start' => 'zero');
sql($primary, 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
sql($primary, 'ALTER SYSTEM SET snowflake.worker_id = 5');
$primary->reload;
$primary->backup('base');
my $system = sql($primary, 'SELECT system_identifier FROM pg_control_system()');

# Create an independent server with the primary's data, as "postgres" would start it.
sub base_backup
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init_from_backup($primary, 'base');
	return $node;
}

sub subscriber
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init_from_backup($primary, 'base', has_streaming => 1);
	$node->append_conf('postgresql.conf', 'hot_standby_feedback = on');
	command_ok(
		[
			'pg_createsubscriber', '--verbose', '--pgdata', $node->data_dir, '--publisher-server',
			$primary->connstr('postgres'), '--subscriber-port', $node->port, '--socketdir', $node->host, '--database',
			'postgres', '--publication', "for_$name", '--subscription', $name, '--replication-slot', $name
		],
		"$name: pg_createsubscriber succeeds");
	return $node;
}

# Have all servers make ids at once.  Returns the number of ids, and of duplicates.
sub hunt
{
	my @nodes = @_;
	my @collectors = map { start_collectors($_, 2) } @nodes;

	wait_for_collectors($_, 2) foreach @nodes;
	sleep 3;
	stop_collectors(@collectors);
	return count_duplicates(@collectors);
}

sub mark_from
{
	my ($node) = @_;

	return sql($node, 'SELECT mark_from FROM snowflake_status()');
}

# Start a copy, and check its worker id, and where its mark comes from.
sub start_copy
{
	my ($node, $worker_id, $origin) = @_;

	$node->start;
	is(mark_from($node), $origin, $node->name . ': the status shows where the mark comes from');
	sql_is(
		$node, 'SELECT snowflake_worker_id(snowflake_nextval())', $worker_id,
		$node->name . ": its worker id is $worker_id");
	return;
}

# Count the messages that the mark of a copy comes from another server.
sub reports
{
	my ($node) = @_;

	return
	  scalar(() =
		  slurp_file($node->logfile) =~ /LOG:  snowflake mark of database "postgres" comes from another server\n/g);
}

foreach my $make (\&base_backup, \&subscriber)
{
	my $kind = $make == \&subscriber ? 'subscriber' : 'base_backup';
	my ($origin, $reports) = $kind eq 'subscriber' ? ($system, 1) : ('', 0);
	my @nodes = map { $make->("${kind}_$_") } 1, 2;
	my ($ids, $duplicates);

	start_copy($_, 5, $origin) foreach @nodes;
	# whether they meet in the same ticks is up to chance
	foreach my $try (1 .. 10)
	{
		($ids, $duplicates) = hunt($primary, @nodes);
		note("$kind: $ids ids, $duplicates duplicates");
		last if $duplicates > 0;
	}
	cmp_ok($duplicates, '>', 0, "$kind: with the same worker id, $duplicates of $ids ids are made twice");
	$_->stop foreach @nodes;

	@nodes = map { $make->("${kind}_$_") } 3, 4;
	foreach my $i (0, 1)
	{
		my $worker_id = 6 + $i;

		append_to_file($nodes[$i]->data_dir . '/postgresql.auto.conf', "snowflake.worker_id = $worker_id\n");
		start_copy($nodes[$i], $worker_id, $origin);
	}
	($ids, $duplicates) = hunt($primary, @nodes);
	cmp_ok($ids, '>', 5_000, "$kind: many ids were made");
	is($duplicates, 0, "$kind: with different worker ids, none of $ids ids is made twice");
	if ($kind eq 'subscriber')
	{
		# each server has its own rows, and those of the primary
		sql($_, 'INSERT INTO orders SELECT FROM generate_series(1, 10000)')     foreach $primary, @nodes;
		$_->wait_for_subscription_sync($primary, $_->name)                      foreach @nodes;
		$primary->wait_for_catchup($_->name, 'replay', $primary->lsn('insert')) foreach @nodes;
		sql_is(
			$_, 'SELECT count(*), count(DISTINCT snowflake_worker_id(id)) FROM orders', '20000|2',
			$_->name . ': all rows have arrived') foreach @nodes;
	}
	foreach my $node (@nodes)
	{
		is(mark_from($node), $origin, $node->name . ': the status shows the same after ids were made');
		$node->restart;
		is(mark_from($node), '', $node->name . ': after a restart, the mark is its own');
		sql($node, 'SELECT snowflake_nextval()');
		is(reports($node), $reports, $node->name . ": messages about another server in the log: $reports");
	}
	$_->stop foreach @nodes;
}

done_testing();

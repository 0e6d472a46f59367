# Built-in logical replication: three servers with leased worker ids insert into the
# same table at full rate, and have all rows in the end.  From 16 on, each sends its own
# rows to the two others.  Before, a server cannot tell received rows from its own, so
# two of them send theirs to the third.
#
# SNOWFLAKE_SECONDS sets for how long they insert (default 60).

use FindBin;
use lib "$FindBin::RealBin/..";
use SnowflakeTest;

my $seconds = $ENV{SNOWFLAKE_SECONDS} // 60;

my $registry = new_registry('registry');
my @servers = map {
	new_server(
		$_,
		lease_from(
			$registry, 'snowflake.node_name' => $_, 'snowflake.registry_lease' => '30s', 'wal_level' => 'logical',
			'max_wal_senders' => 10, 'log_min_messages' => 'warning'))
} qw(north east south);
my $mesh = $servers[0]->pg_version >= 16;

foreach my $server (@servers)
{
	$server->poll_query_until('postgres', 'SELECT snowflake_nextval() IS NOT NULL');
	sql($server, <<'EOC');
CREATE TABLE orders (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	made_at timestamptz DEFAULT clock_timestamp());
CREATE PUBLICATION orders FOR TABLE orders;
EOC
}

# the servers that receive rows
my @receivers = $mesh ? @servers : $servers[0];
foreach my $receiver (@receivers)
{
	foreach my $sender (grep { $_ != $receiver } @servers)
	{
		my $options = $mesh ? ', origin = none' : '';

		sql($receiver,
			sprintf(
				"CREATE SUBSCRIPTION %s_from_%s CONNECTION '%s' PUBLICATION orders WITH (copy_data = false%s)",
				$receiver->name, $sender->name, $sender->connstr('postgres') =~ s/'/''/gr, $options));
	}
}

# all three at the same time
my @clients =
  map { start_clients($_, "--client=4 --time=$seconds", 'INSERT INTO orders SELECT FROM generate_series(1, 10);') }
  @servers;
finish_clients($clients[$_], $servers[$_]->name . ': clients insert') foreach 0 .. 2;

foreach my $receiver (@receivers)
{
	foreach my $sender (grep { $_ != $receiver } @servers)
	{
		my $end = sql($sender, 'SELECT pg_current_wal_insert_lsn()');

		$sender->poll_query_until(
			'postgres',
			sprintf(
				"SELECT confirmed_flush_lsn >= '%s' FROM pg_replication_slots WHERE slot_name = '%s_from_%s'", $end,
				$receiver->name, $sender->name)) or die 'replication does not catch up';
	}
}

my $worker_ids = join ' ',
  map { sql($_, 'SELECT snowflake_worker_id(snowflake_nextval())') } @servers;
is(join(' ', sort split / /, $worker_ids), '0 1 2', 'the servers have leased different worker ids');

# the rows that each server made, by its worker id
my $summary = "SELECT snowflake_worker_id(id), count(*), sum(hashint8(id)) FROM orders%s GROUP BY 1 ORDER BY 1";
my $own = join "\n", sort map {
	my ($id) = sql($_, 'SELECT snowflake_worker_id(snowflake_nextval())');
	$_->safe_psql('postgres', sprintf $summary, " WHERE snowflake_worker_id(id) = $id");
} @servers;
my ($rows) = $receivers[0]->safe_psql('postgres', 'SELECT count(*) FROM orders');
note("$rows rows");
cmp_ok($rows, '>', 10_000 * $seconds / 10, 'there are many rows');

foreach my $receiver (@receivers)
{
	my $name = $receiver->name;

	is($receiver->safe_psql('postgres', sprintf $summary, ''), $own, "$name: has all rows of all three servers");
	sql_is(
		$receiver, 'SELECT sum(apply_error_count) FROM pg_stat_subscription_stats', 0,
		"$name: all rows were applied");
	sql_is($receiver, 'SELECT sum(confl_insert_exists) FROM pg_stat_subscription_stats', 0, "$name: no conflicts")
	  if $receiver->pg_version >= 18;
	unlike(slurp_file($receiver->logfile), qr/duplicate key|conflict/, "$name: no conflicts in the log");

	# whichever server made them, and as far as clocks agree
	sql_is($receiver, <<'EOC', 0, "$name: the order of ids is the order of time");
SELECT count(*)
FROM (SELECT made_at, max(made_at) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS latest FROM orders) AS o
WHERE latest > made_at + interval '2 s'
EOC
}

done_testing();

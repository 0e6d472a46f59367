# pglogical: two servers insert into the same table and send each other their rows.  A
# conflict would stop the replication.
#
# SNOWFLAKE_SECONDS sets for how long they insert (default 20).

use FindBin;
use lib "$FindBin::RealBin/..";
use SnowflakeTest;

my $seconds = $ENV{SNOWFLAKE_SECONDS} // 20;

# minor releases of 2026 have a list of permitted libraries
my $has_list = `postgres --describe-config` =~ /^output_plugin_libraries\t/m;

my $registry = new_registry('registry');
my @servers = map {
	new_server(
		$_,
		lease_from(
			$registry, 'snowflake.node_name' => $_, 'snowflake.registry_lease' => '30s',
			'shared_preload_libraries' => 'snowflake, pglogical', 'wal_level' => 'logical', 'max_wal_senders' => 10,
			'track_commit_timestamp' => 'on', 'pglogical.conflict_resolution' => 'error',
			$has_list ? ('output_plugin_libraries' => 'pgoutput, test_decoding, pglogical_output') : ()))
} qw(north south);

# a wait without end is a failure
sub run_sql
{
	my ($server, $sql) = @_;
	return sql($server, "SET statement_timeout = '120s'; $sql");
}

sub connection
{
	my ($server) = @_;
	return sprintf 'host=%s port=%s dbname=postgres', $server->host, $server->port;
}

foreach my $server (@servers)
{
	$server->poll_query_until('postgres', 'SELECT snowflake_nextval() IS NOT NULL');
	run_sql($server, 'CREATE EXTENSION pglogical');
	run_sql($server, 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)');
	run_sql($server, sprintf "SELECT pglogical.create_node('%s', '%s')", $server->name, connection($server));
	run_sql($server, "SELECT pglogical.replication_set_add_table('default', 'orders')");
}
foreach my $pair ([ 0, 1 ], [ 1, 0 ])
{
	my ($receiver, $sender) = @servers[@$pair];
	my $name = 'from_' . $sender->name;

	run_sql(
		$receiver, sprintf
		  "SELECT pglogical.create_subscription('%s', '%s', synchronize_structure := false, synchronize_data := false, forward_origins := '{}')",
		$name, connection($sender));
	run_sql($receiver, "SELECT pglogical.wait_for_subscription_sync_complete('$name')");
}

my @clients =
  map { start_clients($_, "--client=4 --time=$seconds", "INSERT INTO orders (item) VALUES ('tea');") } @servers;
finish_clients($clients[$_], $servers[$_]->name . ': clients insert') foreach 0, 1;
run_sql($_, 'SELECT pglogical.wait_slot_confirm_lsn(NULL, NULL)') foreach @servers;

my $summary = 'SELECT snowflake_worker_id(id), count(*), sum(hashint8(id)) FROM orders GROUP BY 1 ORDER BY 1';
my @summaries = map { run_sql($_, $summary) } @servers;
note($summaries[0]);
is($summaries[1], $summaries[0], 'both servers have the same rows');
like($summaries[0], qr/^0\|\d{4,}\|.*\n1\|\d{4,}\|/, 'there are many rows of each server');
foreach my $server (@servers)
{
	like(
		run_sql($server, 'SELECT status FROM pglogical.show_subscription_status()'), qr/^replicating$/,
		$server->name . ': replication continues');
	unlike(slurp_file($server->logfile), qr/CONFLICT|cannot apply/, $server->name . ': no conflict');
}

done_testing();

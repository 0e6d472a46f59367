# Rows per second into a distributed table of Citus, with one worker and with three, beside
# bigserial: medians of rounds in which both take turns, and the median of their ratios
# with the least and the most.  Clients are connected to the coordinator.
#
# usage: t/world/citus.sh bench/citus.pl, as root, on an idle machine

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../t";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $rounds = 5;
my $seconds = 3;
my $clients = 4;
my @rivals = ('bigint DEFAULT snowflake_nextval()', 'bigserial');
# and how many rows each makes
my @ways = (
	[ 'single rows', 1, 'INSERT INTO %s (customer) VALUES (:c);' ],
	[ 'INSERT ... SELECT of 100 rows', 100, 'INSERT INTO %s (customer) SELECT generate_series(:c, :c + 99);' ],
	[ 'COPY of 100 rows', 100, "COPY %s (customer) FROM PROGRAM 'seq 1 100';" ]);

sub new_node
{
	my ($name, $worker_id) = @_;
	my $node = new_server(
		$name,
		'snowflake.worker_id' => $worker_id,
		'shared_preload_libraries' => 'citus, snowflake',
		'citus.node_conninfo' => 'sslmode=disable',
		'citus.shard_count' => 12,
		'max_prepared_transactions' => 100,
		'wal_level' => 'logical',
		'fsync' => 'on',
		'synchronous_commit' => 'on');

	create_citus($node);
	return $node;
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;

	return $sorted[ $#sorted / 2 ];
}

my $coordinator = new_node('coordinator', 0);
my @workers = map { new_node("worker$_", $_) } 1 .. 3;

$coordinator->safe_psql('postgres', 'SELECT citus_set_coordinator_host(' . address_of($coordinator) . ')');
$coordinator->safe_psql('postgres', 'SELECT citus_add_node(' . address_of($workers[0]) . ')');
$coordinator->safe_psql('postgres', 'CREATE EXTENSION snowflake');

sub rows_per_second
{
	my ($script, $rows) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';

	append_to_file($file, "\\set c random(1, 1000000)\n$script");
	my ($out) = run_command(
		[
			$coordinator->installed_command('pgbench'), '--no-vacuum',
			"--client=$clients", "--time=$seconds",
			'--file' => $file,
			'--host' => $coordinator->host,
			'--port' => $coordinator->port, 'postgres'
		]);
	my ($rate) = $out =~ /^tps = ([\d.]+)/m or BAIL_OUT("pgbench said: $out");
	return $rate * $rows;
}

sub measure
{
	my ($name) = @_;

	foreach (0 .. $#rivals)
	{
		$coordinator->safe_psql('postgres', <<"EOC");
DROP TABLE IF EXISTS t$_;
CREATE TABLE t$_ (id $rivals[$_], customer int, PRIMARY KEY (customer, id));
SELECT create_distributed_table('t$_', 'customer');
EOC
	}
	foreach (@ways)
	{
		my ($way, $rows, $script) = @$_;
		my (@rates, @ratios);

		foreach my $round (0 .. $rounds)
		{
			my @round;

			$round[$_] = rows_per_second(sprintf($script, "t$_"), $rows) foreach $round % 2 ? (1, 0) : (0, 1);
			# the first one warms up
			next if $round == 0;
			push @{ $rates[$_] }, $round[$_] foreach 0, 1;
			push @ratios, $round[0] / $round[1];
		}
		@ratios = sort { $a <=> $b } @ratios;
		pass(
			sprintf '%s, %s per second: snowflake %.0f, bigserial %.0f, ratio %.2f (%.2f..%.2f)',
			$name, $way, median(@{ $rates[0] }),
			median(@{ $rates[1] }), median(@ratios), @ratios[ 0, -1 ]);
	}
	is($coordinator->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT id) FROM t0'), 0, "$name: no id twice");
	return;
}

note('idle for ' . `$FindBin::RealBin/idle 300` =~ s/\n//r . '% of the time before');
measure('1 worker');
$coordinator->safe_psql('postgres', 'SELECT citus_add_node(' . address_of($_) . ')') foreach @workers[ 1, 2 ];
measure('3 workers');
$_->stop foreach $coordinator, @workers;

done_testing();

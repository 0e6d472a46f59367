# Never twice, across resets: again and again the clock is an hour ahead for a
# while, and it is the same hour each time.  Clients make ids all the time,
# worker ids are changed under them, and the mark is advanced and reset.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $phase = 0.4;

# Advance by 100 ms, under the clients.
my $advance = <<'EOC';
SELECT snowflake_advance(snowflake_compose(snowflake_timestamp(id) + '100 ms', layout => 'snowflake lane:1'))
FROM (SELECT snowflake_nextval() AS id) AS new;
EOC

# Returns the number of ids, of duplicates, of refused resets, and the errors.
sub hunt
{
	my ($node) = @_;
	my @collectors = start_collectors($node, 8);
	my $worker_id = 0;
	my $refused = 0;
	my $ahead;

	wait_for_collectors($node, 8);
	foreach my $round (0 .. 3)
	{
		# From one worker id to the next without a new mark, which is written
		# each second; and what the second one makes is lived again by the
		# first of the next round, if it is the same.
		$ahead //= time + 3600;
		set_clock($node, $ahead + $round * $phase - time);
		sleep $phase;
		set_and_reload($node, 'snowflake.worker_id = ' . ++$worker_id);
		sleep $phase / 2;

		set_clock($node, 0);
		for (;;)
		{
			my ($code, $message) = sqlstate_of($node, 'SELECT snowflake_reset_mark()');
			last if $code eq '00000';
			$message =~ /cannot be reset for the same worker id/ or BAIL_OUT($message);
			$refused++;
			set_and_reload($node, 'snowflake.worker_id = ' . ++$worker_id);
		}
		sleep $phase;
		$node->safe_psql('postgres', $advance);
		sleep $phase;

		# now there is nothing to reset
		$node->safe_psql('postgres', 'SELECT snowflake_reset_mark()');
		sleep $phase;
	}
	my $errors = stop_collectors(@collectors);
	my ($ids, $duplicates) = count_duplicates(@collectors);
	note("$ids ids, $duplicates duplicates, $worker_id worker ids, $refused resets refused");
	return ($ids, $duplicates, $refused, $errors);
}

my $node = new_hunting_server('product');
my ($ids, $duplicates, $refused, $errors) = hunt($node);
is($duplicates, 0, 'no id was made twice');
cmp_ok($ids, '>', 50_000, 'many were made');
is($refused, 4, 'no reset for a worker id that has ids ahead of the clock');

# too far ahead of the clock, or with the worker id that was set aside
delete @$errors{ 'SF001', '55000' };
is(join(' ', %$errors), '', 'no other error than that');
$node->stop('immediate');

foreach my $mutant (with_mutants() ? ('resets for any worker id', 'forgets who has made ids') : ())
{
	$node = new_hunting_server($mutant =~ tr/ /_/r, mutant => $mutant);
	($ids, $duplicates) = hunt($node);
	cmp_ok($duplicates, '>', 0, "mutant that $mutant: duplicates are found");
	$node->stop('immediate');
}

done_testing();

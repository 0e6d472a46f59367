# The clock is stepped while eight clients make ids, for each strategy: no id is made
# twice, errors occur only where they are documented, and each step is logged once.
# After each step the same ticks pass again.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep);

# Offsets of the clock, in s.  A step back by the length of a phase makes the last phase
# pass again.
my $phase = 0.4;
# The clock that is ahead of all before it must last until ids follow it.
my @offsets = (0, -$phase, -10, -10 - $phase, -3600, -3600 - $phase, 0, -$phase, 86400, 86400 - $phase, 0);
my $to_be_believed = 8;

# The settings, and how far ids may be ahead of the clock.
my %strategies = (
	'default' => { max_ahead => '5s', max_wait => 0, longest_lead => 5 },
	'refuse' => { max_ahead => 0, max_wait => 0, longest_lead => 0 },
	'wait' => { max_ahead => 0, max_wait => '500ms', longest_lead => 0 },
	'survive' => { max_ahead => '4s', max_wait => 0, longest_lead => 4 },
	'borrow' => { max_ahead => -1, max_wait => 0 });

# Have the clients work through all steps.
sub step_through
{
	my ($node, $strategy) = @_;
	my $longest_lead = $strategy->{longest_lead};
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my @collectors = start_collectors($node, 8);
	my (@leads, @states);

	wait_for_collectors($node, 8);
	foreach my $offset (@offsets)
	{
		set_clock($node, $offset);
		sleep $phase;
		sleep 4 if $offset == $offsets[$to_be_believed];
		my $lead = $session->query(<<'EOC');
SELECT extract(epoch FROM max(snowflake_timestamp(id) - clock)) FROM (SELECT snowflake_nextval() AS id, clock_timestamp() AS clock FROM generate_series(1, 100) OFFSET 0) AS m;
EOC
		push @states, $session->{stderr} =~ /ERROR/ ? 'error' : 'ids';
		push @leads, $lead if $lead =~ /^-?[\d.]+$/;
		$session->{stderr} = '';
	}
	my $errors = stop_collectors(@collectors);
	$session->quit;
	my ($ids, $duplicates) = count_duplicates(@collectors);
	return ($ids, $duplicates, $errors, \@states, \@leads);
}

foreach my $name (sort keys %strategies)
{
	my $strategy = $strategies{$name};
	my $node = new_server(
		$name,
		clock => 1,
		'snowflake.layout' => 'snowflake lane:1',
		'snowflake.sequence_start' => 'zero',
		map { ("snowflake.$_" => $strategy->{$_}) } 'max_ahead', 'max_wait');
	my ($ids, $duplicates, $errors, $states, $leads) = step_through($node, $strategy);

	note("$name: $ids ids; @$states; leads @$leads; errors " . join ' ', %$errors);
	is($duplicates, 0, "$name: no id is made twice");
	cmp_ok($ids, '>', 20_000, "$name: many ids were made");
	if (defined $strategy->{longest_lead})
	{
		delete $errors->{SF001};
		is(join(' ', %$errors), '', "$name: the only errors are that the clock is behind");

		# the clock is behind by more than ids may be ahead: by minutes at first, and in
		# the end by a day
		is( join(' ', @{$states}[ 2 .. 5, 10 ]), 'error error error error error',
			"$name: no ids while the clock is far behind");
		is(join(' ', @{$states}[ 0, 6, 8 ]), 'ids ids ids', "$name: ids while the clock is ahead, or right again");
		is(scalar(grep { $_ > $strategy->{longest_lead} } @$leads), 0, "$name: no id is further ahead than it may be");
	}
	else
	{
		is(join(' ', %$errors), '', "$name: no errors");
		is(join(' ', @$states), join(' ', ('ids') x @offsets), "$name: ids all the time");
	}

	# A step is detected when the limit moves next, so that it may be logged together
	# with the steps after it.
	my @steps = map { $offsets[$_] - $offsets[ $_ - 1 ] } 1 .. $#offsets;
	my $log = slurp_file($node->logfile);
	my @unknown;
	while ($log =~ /LOG:  clock was stepped (back|forward) by ([\d.]+) s/g)
	{
		my $logged = $1 eq 'back' ? -$2 : $2;
		my $sum = 0;
		$sum += shift @steps while @steps && abs($sum - $logged) > 0.05;
		push @unknown, $logged if abs($sum - $logged) > 0.05;
	}
	is("@unknown, @steps", ', ', "$name: each step is logged once, with its size");
	$node->stop('immediate');
}

# The same steps find the duplicates of a generator that trusts the clock.
if (with_mutants())
{
	my $node = new_server(
		'goes_by_the_clock',
		clock => 1,
		mutant => 'goes by the clock',
		'snowflake.layout' => 'snowflake lane:1',
		'snowflake.sequence_start' => 'zero',
		'snowflake.max_wait' => 0);
	my ($ids, $duplicates) = step_through($node, $strategies{default});
	cmp_ok($duplicates, '>', 0, "mutant that goes by the clock: $duplicates duplicates among $ids ids are found");
	$node->stop('immediate');
}

done_testing();


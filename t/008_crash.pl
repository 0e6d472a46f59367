# No id is made twice across crashes, even if the seconds before pass again: servers and
# backends are killed while many clients make ids, and the clock is set back while they
# are down.  The clients keep the ids that they saw, committed or not.  The same for the
# edition in SQL.
#
# SNOWFLAKE_CRASH_ROUNDS sets the number of rounds (default 6).

use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_CRASH_ROUNDS} // 6;

# Start a server that has crashed, once its last backends have gone.
sub start_again
{
	my ($node, $offset) = @_;

	foreach (1 .. 100)
	{
		return if start_with_clock($node, $offset, fail_ok => 1);
		sleep 0.1;
	}
	BAIL_OUT('server did not start again');
	return;
}

# Ways to go down.  After each, the server's clock is off by the offset.
my %crashes = (
	'immediate stop' => sub {
		my ($node, $offset) = @_;
		$node->stop('immediate');
		start_again($node, $offset);
	},
	'kill -9 of the postmaster' => sub {
		my ($node, $offset) = @_;
		my ($postmaster) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
		$node->kill9;
		sleep 0.05 while kill 0, $postmaster;
		start_again($node, $offset);
	},
	'kill -9 of a backend' => \&crash);

# Run rounds of making ids and crashing.  The clock of each round starts within the
# seconds of the round before, so that these pass again; with the option "far", it moves
# by a random -1 h to +5 s in every fourth round instead.  Returns the number of ids, of
# duplicates, and of rounds in which time passed again, and the errors.
sub hunt
{
	my ($node, %options) = @_;
	my @ways = $options{ways} ? @{ $options{ways} } : sort keys %crashes;
	my $offset = 0;
	my $relived = 0;
	my (@all, %errors);

	# the server's clock when a round began and ended
	my ($began, $ended);

	foreach my $round (1 .. $options{rounds})
	{
		my $far = $options{far} && $round % 4 == 3;

		if ($far)
		{
			$offset = $ended - time - 3600 + rand 3605;
		}
		elsif ($began)
		{
			$offset = $began + 0.6 - time;
		}
		set_clock($node, $offset);
		$relived++ if $ended && !$far && time + $offset < $ended - 0.2;
		$began = time + $offset if !$far;

		my @collectors = start_collectors($node, 16);
		push @collectors, start_collectors($node, 4, sql => $options{blocks}) if $options{blocks};
		sleep 1 + rand 0.5;
		$ended = time + $offset if !$far;

		$crashes{ $ways[ $round % @ways ] }->($node, $began - time);
		my $seen = stop_collectors(@collectors);
		$errors{$_} += $seen->{$_} foreach keys %$seen;
		push @all, @collectors;
	}
	my ($ids, $duplicates) = count_duplicates(@all);
	note("$ids ids, $duplicates duplicates, $relived of $options{rounds} rounds passed again");
	return ($ids, $duplicates, $relived, \%errors);
}

# Hunt in all rounds, and find nothing.  The ids to expect are for each round.
sub survives
{
	my ($node, $expected, $edition, $blocks) = @_;
	my ($ids, $duplicates, $relived, $errors) = hunt($node, rounds => $rounds, far => 1, blocks => $blocks);

	is($duplicates, 0, "${edition}no id is made twice");
	cmp_ok($ids, '>', $expected * $rounds, "${edition}many ids were made");
	cmp_ok($relived, '>=', $rounds / 2, "${edition}the same seconds passed again");
	delete $errors->{SF001};
	is(join(' ', %$errors), '', "${edition}the only errors are that the clock is behind");
	$node->stop;
	return;
}

# Hunt until a mutant makes duplicates: a matter of chance, if the machine is busy.
sub is_found
{
	my ($node, $name) = @_;
	my $duplicates;

	foreach my $try (1 .. 5)
	{
		(undef, $duplicates) = hunt($node, rounds => 2, ways => ['kill -9 of the postmaster']);
		last if $duplicates > 0;
	}
	cmp_ok($duplicates, '>', 0, "$name: duplicates are found");
	$node->stop('immediate');
	return;
}

# and blocks of all sizes
my $blocks = <<'EOC';
SELECT generate_series(first_id, last_id) FROM snowflake_reserve(1 + (random() * 300)::integer);
SELECT generate_series(first_id, last_id) FROM generate_series(1, 20) AS i, snowflake_reserve(i % 4 + 1);
EOC
# Neither a commit nor the WAL writer flushes the ids that sessions saw in time.
survives(new_hunting_server('product', wal_writer_delay => '10s'), 2_000, '', $blocks);

# The edition in SQL, where nothing but its own flush writes WAL in time
sub new_sql_server
{
	my ($name, $options, $script) = @_;
	my $server = new_hunting_server($name, wal_writer_delay => '10s', wal_level => 'replica');

	sql($server, "DROP EXTENSION snowflake;\n$script");
	# the crash must not take the settings away
	sql($server, "SELECT snowflake_configure('snowflake lane:0', 1, max_wait => '0', $options); CHECKPOINT");
	return $server;
}

my $script = slurp_file('sql-only/snowflake_sql--1.0.sql');
survives(new_sql_server('sql', 'durable => true', $script), 1_000, 'in SQL: ');

my %mutants = (
	'does not flush' => [ 'durable => false', $script ],
	'has logged state' => [ 'durable => true', $script =~ s/UNLOGGED //gr ]);
foreach my $mutant (with_mutants() ? sort keys %mutants : ())
{
	is_found(new_sql_server('sql_' . ($mutant =~ tr/ /_/r), @{ $mutants{$mutant} }), "mutant in SQL that $mutant");
}

done_testing();

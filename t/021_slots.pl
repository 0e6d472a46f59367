# Databases come and go: one that has the OID of a dropped one, and more of them than
# shared memory has room for.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $passing = $ENV{SNOWFLAKE_LONG_TESTS} ? 1000 : 150;

# Ids of a few hundred ticks, with a clock that stands still between readings, so that
# they take less than half of a reservation.
my $many = 'SELECT snowflake_nextval() FROM generate_series(1, 6000)';
my $per_look = 20;

# Create a server for hunts with the database "template", which has the extension.
sub server_with_template
{
	my ($name, $mutant) = @_;
	my $node = new_hunting_server(
		$name,
		mutant => $mutant,
		preload => 1,
		'shared_buffers' => '32MB',
		'snowflake.layout' => 'snowflake lane:0',
		'snowflake.sequence_start' => 'zero');

	$node->safe_psql('postgres', 'CREATE DATABASE template');
	add_extension($node, 'template');
	return $node;
}

# Write the ids that a statement made to a file, for count_duplicates().
sub ids_of
{
	my ($ids) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/ids';

	append_to_file($file, "$ids\n");
	return { ids => $file };
}

# Make ids in a database after a crash, starting at the tick of the first of some
# earlier ids.  There is one lane, and the clock hardly moves: however long it takes,
# the ids are of the same ticks.
sub live_again
{
	my ($node, $database, $ids) = @_;
	my ($first) = split /\n/, $ids;

	# when that id was made: shift by the bits below the time, with the default epoch
	set_clock($node, ($first >> 19) / 1000 + 1767225600.0005 - time, 1);
	start_with_clock($node);
	my @again =
	  map { ids_of($node->safe_psql($database, 'SELECT snowflake_nextval() FROM generate_series(1, 25000)')) } 1 .. 2;
	$node->stop('immediate');
	return @again;
}

#
# A database is dropped, and another one gets its OID.  The pages of the second one lack
# what was written in the first.  Then the server crashes, and the same ticks pass
# again.
#
sub hunt_oid
{
	my ($mutant) = @_;
	my $node = server_with_template($mutant ? 'oid_mutant' : 'oid', $mutant);
	my $create = 'CREATE DATABASE passing OID 60001 TEMPLATE template STRATEGY file_copy';
	my @made;

	set_clock($node, 0, $per_look);
	foreach (1 .. 2)
	{
		$node->safe_psql('postgres', $create);
		push @made, $node->safe_psql('passing', $many);
		$node->safe_psql('postgres', 'DROP DATABASE passing WITH (FORCE)') if $_ == 1;
	}
	$node->stop('immediate');
	return count_duplicates((map { ids_of($_) } @made), live_again($node, 'passing', $made[1]));
}

my ($ids, $duplicates) = hunt_oid();
is($duplicates, 0, "another database with the same OID: none of $ids ids is made twice");
cmp_ok($ids, '>', 50_000, 'many ids were made');
if (with_mutants())
{
	($ids, $duplicates) = hunt_oid('keeps a strange limit');
	cmp_ok($duplicates, '>', 0, "mutant that keeps a strange limit: $duplicates duplicates are found");
}

#
# More databases come and go than there is room for, and all of them make ids.  In the
# end, two databases make ids: one that always had a session, and one that returns after
# others have used its room.  Then the server crashes, and the same ticks pass again.
#
sub hunt_room
{
	my ($passing, $mutant) = @_;
	my $node = server_with_template($mutant ? 'room_mutant' : 'room', $mutant);
	my %result = (made => 0, errors => '');
	my (%before, %made, $ret, $out, $err);

	$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template") foreach 'held', 'back';
	my $session = $node->background_psql('held');
	$before{held} = $session->query_safe($many);
	$before{back} = $node->safe_psql('back', $many);

	my $pass = sub {
		my ($number) = @_;

		($ret, $out, $err) =
		  $node->psql('postgres', "\\set VERBOSITY verbose\n" . <<'EOC' x $number, on_error_stop => 0);
CREATE DATABASE passing TEMPLATE template STRATEGY file_copy;
\c passing
SELECT snowflake_nextval() IS NOT NULL;
\c postgres
DROP DATABASE passing WITH (FORCE);
EOC
		$result{made} += () = $out =~ /^t$/mg;
		$result{errors} .= $err;
	};
	$pass->(25) foreach 1 .. $passing / 25;

	# Wait until the clock has passed all reservations, when any slot could be taken by
	# mistake.  Then some more databases come and go, and the two make ids, with a clock
	# that hardly moves, so that it stays within the reservations of those, however long
	# that takes.
	sleep 4;
	set_clock($node, 0, $per_look);
	$pass->(5);
	$made{held} = $session->query_safe($many);
	$made{back} = $node->safe_psql('back', $many);
	$node->stop('immediate');
	eval { $session->quit };

	foreach my $database ('held', 'back')
	{
		@{ $result{$database} }{ 'ids', 'duplicates' } = count_duplicates(
			ids_of($before{$database}),
			ids_of($made{$database}),
			live_again($node, $database, $made{$database}));
	}
	return \%result;
}

my $result = hunt_room($passing);
is($result->{errors}, '', "$passing databases come and go without errors");
is($result->{made}, $passing + 5, 'all of them make ids');
foreach my $case ([ 'held', 'a database that always has a session' ], [ 'back', 'a database that returns' ])
{
	my ($database, $name) = @$case;
	my ($ids, $duplicates) = @{ $result->{$database} }{ 'ids', 'duplicates' };

	is($duplicates, 0, "$name: none of $ids ids is made twice");
	cmp_ok($ids, '>', 50_000, "$name: many ids were made");
}
if (with_mutants())
{
	$result = hunt_room(0, 'takes slots in use');
	$duplicates = $result->{held}{duplicates};
	cmp_ok($duplicates, '>', 0, "mutant that takes slots in use: $duplicates duplicates are found");
}

done_testing();

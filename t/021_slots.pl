# Databases come and go: one that has the OID of another that was dropped, and more
# of them than there is room for in shared memory.

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

# Ids of a few hundred ticks, by a clock that stands still but for the looks at it, so
# that they take less than half of what the mark has in advance.
my $many = 'SELECT snowflake_nextval() FROM generate_series(1, 6000)';
my $per_look = 20;

# A server for hunts with the database "template", which has the extension.
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

# The ids that a statement makes, as count_duplicates() wants them.
sub ids_of
{
	my ($ids) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/ids';

	append_to_file($file, "$ids\n");
	return { ids => $file };
}

# Make ids in a database after a crash, beginning with the tick of the first of those
# that a statement made before.  There is one lane, and the clock hardly moves: whatever
# time that takes, they are of the same ticks.
sub live_again
{
	my ($node, $database, $ids) = @_;
	my ($first) = split /\n/, $ids;

	# when that was made, by the bits below time and the default epoch
	set_clock($node, ($first >> 19) / 1000 + 1767225600.0005 - time, 1);
	start_with_clock($node);
	my @again =
	  map { ids_of($node->safe_psql($database, 'SELECT snowflake_nextval() FROM generate_series(1, 25000)')) } 1 .. 2;
	$node->stop('immediate');
	return @again;
}

#
# A database is dropped, and another one gets its OID.  What was written in the first
# is not on the pages of the second.  Then the server crashes, and the same ticks are
# lived again.
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
is($duplicates, 0, "another database with the same OID: none of $ids ids was made twice");
cmp_ok($ids, '>', 50_000, 'many were made');
if (with_mutants())
{
	($ids, $duplicates) = hunt_oid('keeps a strange limit');
	cmp_ok($duplicates, '>', 0, "mutant that keeps a strange limit: $duplicates duplicates are found");
}

#
# More databases come and go than there is room for, and all of them make ids.  One
# with a session that is there all the time, and one that comes back when others have
# used its room, make ids in the end, the server crashes, and the same ticks are
# lived again.
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

	# When all have passed what they had written ahead, each slot can be taken that should
	# not be.  Then some more come and go, and the two make ids, by a clock that hardly
	# moves: long before it passes what those wrote ahead, whatever time that takes.
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
is($result->{errors}, '', "no error in $passing databases that come and go");
is($result->{made}, $passing + 5, 'all of them make ids');
foreach my $case ([ 'held', 'a session is there all the time' ], [ 'back', 'a database comes back' ])
{
	my ($database, $name) = @$case;
	my ($ids, $duplicates) = @{ $result->{$database} }{ 'ids', 'duplicates' };

	is($duplicates, 0, "$name: none of $ids ids was made twice");
	cmp_ok($ids, '>', 50_000, "$name: many were made");
}
if (with_mutants())
{
	$result = hunt_room(0, 'takes slots in use');
	$duplicates = $result->{held}{duplicates};
	cmp_ok($duplicates, '>', 0, "mutant that takes slots in use: $duplicates duplicates are found");
}

done_testing();

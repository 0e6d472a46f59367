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

#
# A database is dropped, and another one gets its OID.  What was written in the first
# is not on the pages of the second.  Then the server crashes, and the same seconds
# are lived again.
#
sub hunt_oid
{
	my ($mutant) = @_;
	my $node = server_with_template($mutant ? 'oid_mutant' : 'oid', $mutant);
	my $create = 'CREATE DATABASE passing OID 60001 TEMPLATE template STRATEGY file_copy';
	my @all;

	set_clock($node, 0, $per_look);
	my $began = time;
	foreach (1 .. 2)
	{
		$node->safe_psql('postgres', $create);
		push @all, ids_of($node->safe_psql('passing', $many));
		$node->safe_psql('postgres', 'DROP DATABASE passing WITH (FORCE)') if $_ == 1;
	}
	$node->stop('immediate');
	start_with_clock($node, $began - time);
	my ($again) = live_from($node, $began - 0.5, $began + 2, database => 'passing');
	my ($ids, $duplicates) = count_duplicates(@all, @$again);
	$node->stop('immediate');
	return ($ids, $duplicates);
}

my ($ids, $duplicates) = hunt_oid();
is($duplicates, 0, "another database with the same OID: none of $ids ids was made twice");
cmp_ok($ids, '>', 50_000, 'many were made');
if (with_mutants())
{
	($ids, $duplicates) = hunt_oid('keeps a strange limit');
	cmp_ok($duplicates, '>', 0, 'mutant that keeps a strange limit: duplicates are found');
}

#
# More databases come and go than there is room for, and all of them make ids.  One
# with a session that is there all the time, and one that comes back when others have
# used its room, make ids in the end, the server crashes, and the same seconds are
# lived again.
#
sub hunt_room
{
	my ($passing, $mutant) = @_;
	my $node = server_with_template($mutant ? 'room_mutant' : 'room', $mutant);
	my %result = (made => 0, errors => '');
	my (%all, $ret, $out, $err);

	$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template") foreach 'held', 'back';
	my $session = $node->background_psql('held');
	push @{ $all{held} }, ids_of($session->query_safe($many));
	push @{ $all{back} }, ids_of($node->safe_psql('back', $many));

	foreach my $i (1 .. $passing / 25)
	{
		($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n" . <<"EOC" x 25, on_error_stop => 0);
CREATE DATABASE passing TEMPLATE template STRATEGY file_copy;
\\c passing
SELECT snowflake_nextval() IS NOT NULL;
\\c postgres
DROP DATABASE passing WITH (FORCE);
EOC
		$result{made} += () = $out =~ /^t$/mg;
		$result{errors} .= $err;
	}

	# before what the last of them have written ahead is passed
	my $end = time - 1.5;
	set_clock($node, $end - time, $per_look);
	push @{ $all{held} }, ids_of($session->query_safe($many));
	push @{ $all{back} }, ids_of($node->safe_psql('back', $many));
	$node->stop('immediate');
	eval { $session->quit };

	start_with_clock($node, $end - time);
	foreach my $database ('held', 'back')
	{
		my ($again) = live_from($node, $end, $end + 3, database => $database);
		@{ $result{$database} }{ 'ids', 'duplicates' } = count_duplicates(@{ $all{$database} }, @$again);
	}
	$node->stop('immediate');
	return \%result;
}

my $result = hunt_room($passing);
is($result->{errors}, '', "no error in $passing databases that come and go");
is($result->{made}, $passing, 'all of them make ids');
foreach my $case ([ 'held', 'a session is there all the time' ], [ 'back', 'a database comes back' ])
{
	my ($database, $name) = @$case;
	my ($ids, $duplicates) = @{ $result->{$database} }{ 'ids', 'duplicates' };

	is($duplicates, 0, "$name: none of $ids ids was made twice");
	cmp_ok($ids, '>', 50_000, "$name: many were made");
}
if (with_mutants())
{
	$result = hunt_room(25, 'takes slots in use');
	cmp_ok($result->{held}{duplicates}, '>', 0, 'mutant that takes slots in use: duplicates are found');
}

done_testing();

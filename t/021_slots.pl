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

my $passing = $ENV{SNOWFLAKE_LONG_TESTS} ? 1000 : 150;
my $next = 'SELECT snowflake_nextval()';

# all ids are in one order
my $node = new_server(
	'slots',
	clock => 1,
	preload => 1,
	'snowflake.layout' => 'snowflake lane:0',
	'snowflake.max_wait' => 0);
$node->safe_psql('postgres', 'CREATE DATABASE template');
add_extension($node, 'template');

# Another database gets the OID of one that was dropped, and a new mark.
my $create = 'CREATE DATABASE passing OID 60001 TEMPLATE template STRATEGY file_copy';
my $id = 0;
foreach my $round (1 .. 2)
{
	$node->safe_psql('postgres', $create);
	my $later = $node->safe_psql('passing', $next);
	cmp_ok($later, '>', $id, "database $round with an OID: ids are above those before");
	$id = $later;
	$node->safe_psql('postgres', 'DROP DATABASE passing') if $round == 1;
}
$node->stop('immediate');
start_with_clock($node, -3);
cmp_ok($node->safe_psql('passing', $next), '>', $id, 'after a crash, too');
$node->safe_psql('postgres', 'DROP DATABASE passing');
set_clock($node, 0);

# More databases come and go than there is room for.  One always has a session, another
# returns after others have used its room.
my %session;
my %last;
foreach my $database ('held', 'back')
{
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template");
	$session{$database} = $node->background_psql($database);
	$last{$database} = $session{$database}->query_safe($next);
}
$session{back}->quit;
my ($ret, $out, $err) = $node->psql('postgres', <<'EOC' x $passing, on_error_stop => 0);
CREATE DATABASE passing TEMPLATE template STRATEGY file_copy;
\c passing
SELECT snowflake_nextval() IS NOT NULL;
\c postgres
DROP DATABASE passing WITH (FORCE);
EOC
is($err, '', "$passing databases come and go without errors");
is(scalar(() = $out =~ /^t$/mg), $passing, 'all of them make ids');
$session{back} = $node->background_psql('back');
foreach my $database ('held', 'back')
{
	$id = $session{$database}->query_safe($next);
	cmp_ok($id, '>', $last{$database}, "database $database: ids go on");
	$last{$database} = $id;
}
$node->stop('immediate');
eval { $_->quit } foreach values %session;
start_with_clock($node, -3);
cmp_ok($node->safe_psql($_, $next), '>', $last{$_}, "database $_: after a crash, too") foreach sort keys %last;
$node->stop;

done_testing();

# The reference has every SQLSTATE that our sources raise.

use SnowflakeTest;

my ($errors) = slurp_file('doc/reference.md') =~ /^## Errors\n(.*?)^## /ms;
chomp(my $include = qx("$ENV{PG_CONFIG}" --includedir-server));
my %sqlstate;
foreach (split /\n/, slurp_file("$include/utils/errcodes.h") . slurp_file('src/snowflake.h'))
{
	$sqlstate{$1} = $2 =~ tr/',//dr if /^#define (ERRCODE_\w+)\s+MAKE_SQLSTATE\(([^)]*)\)/;
}
my %raised;
foreach (map { slurp_file($_) } glob('snowflake.c src/*.c'))
{
	$raised{$1} = 1 while /\b(ERRCODE_\w+)/g;
}
foreach (map { slurp_file($_) } 'snowflake--1.0.sql', 'adopt/snowflake_adopt--1.0.sql')
{
	# macros of class 40 have a longer name than their condition
	$raised{ ($1 eq 'serialization_failure' ? 'ERRCODE_T_R_' : 'ERRCODE_') . uc $1 } = 1
	  while /\bRAISE ([a-z_]+) USING\b/g;
}
cmp_ok(scalar(keys %raised), '>', 20, 'kinds of errors');
is_deeply(
	[ grep { $errors !~ /`$_`/ } slurp_file('adopt/snowflake_adopt--1.0.sql') =~ /'(\d[0-9A-Z]{4})'/g ],
	[], 'so are those of problems of a conversion');
is_deeply(
	[ grep { !defined $sqlstate{$_} || $errors !~ /`$sqlstate{$_}`/ } sort keys %raised ],
	[], 'all of them are in the reference');

done_testing();

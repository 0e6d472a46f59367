# PostgreSQL's tools that check, copy and compare servers, used while ids are made:
# wal_consistency_checking, incremental backups and pg_combinebackup, pg_verifybackup,
# pg_amcheck and pg_checksums.

use FindBin;
use lib "$FindBin::RealBin/..";
use SnowflakeTest;

plan skip_all => 'pg_combinebackup came with PostgreSQL 17'
  if `pg_config --version` =~ /(\d+)/ && $1 < 17;

my $origin = new_server(
	'origin',
	'wal_level' => 'replica',
	'max_wal_senders' => 10,
	# for a standby that is slower than the checkpoints of backups
	'wal_keep_size' => '4GB',
	'summarize_wal' => 'on',
	'wal_consistency_checking' => 'all',
	'shared_buffers' => '32MB');
sql($origin, 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)');

# a standby that compares each of its pages with the primary's
my $standby = new_standby($origin, 'standby');

my @collectors =
  start_collectors($origin, 4, sql => 'INSERT INTO orders SELECT FROM generate_series(1, 20) RETURNING id;');
wait_for_collectors($origin, 4);
my $dir = $origin->backup_dir;
$origin->backup('full');
sql($origin, 'SELECT snowflake_advance(snowflake_nextval()) FROM generate_series(1, 100)');
$origin->backup('incremental', backup_options => ["--incremental=$dir/full/backup_manifest"]);
sql($origin, 'REFRESH MATERIALIZED VIEW snowflake_internal.guard; SELECT snowflake_nextval()');
$origin->backup('last', backup_options => ["--incremental=$dir/incremental/backup_manifest"]);
command_ok([ 'pg_verifybackup', "$dir/$_" ], "pg_verifybackup finds no fault: $_")
  foreach 'full', 'incremental', 'last';
command_ok(
	[ 'pg_combinebackup', "$dir/full", "$dir/incremental", "$dir/last", '--output', "$dir/combined" ],
	'pg_combinebackup succeeds');
command_ok([ 'pg_verifybackup', "$dir/combined" ], 'pg_verifybackup finds no fault: combined');
command_ok(
	[
		'pg_amcheck', '--install-missing', '--heapallindexed', '--parent-check', '--host', $origin->host, '--port',
		$origin->port, 'postgres'
	],
	'pg_amcheck finds no fault while ids are made');

# The origin is gone, and the combined backup replaces it.
my $errors = stop_collectors(@collectors);
is_deeply($errors, {}, 'clients see no errors');
my ($ids, $duplicates) = count_duplicates(@collectors);
is($duplicates, 0, "none of $ids ids is made twice");
my $session = $origin->background_psql('postgres');
wait_until_alone($session);
$session->quit;
$origin->wait_for_catchup($standby, 'replay', $origin->lsn('insert'));
sql_is(
	$standby, 'SELECT count(*), max(id) FROM orders', sql($origin, 'SELECT count(*), max(id) FROM orders'),
	'the standby has the same rows');
sql_is(
	$standby, 'SELECT last_value FROM snowflake_internal.mark',
	sql($origin, 'SELECT last_value FROM snowflake_internal.mark'), 'and the same mark');
is( join("\n", grep { /inconsistent page found|PANIC|FATAL/ } split /\n/, slurp_file($standby->logfile)),
	'', 'and the same pages');
$origin->stop;

my $combined = PostgreSQL::Test::Cluster->new('combined');
$combined->init_from_backup($origin, 'last', combine_with_prior => [ 'full', 'incremental' ]);
$combined->start;
my $largest = sql($combined, 'SELECT max(id) FROM orders');
cmp_ok(sql($combined, 'SELECT snowflake_nextval()'), '>', $largest, 'the combined backup makes greater ids');
$combined->stop;

# Checksums, which are on by default from 18 on
foreach my $mode ($combined->pg_version >= 18 ? ('--check', '--disable') : (), '--enable', '--check')
{
	command_ok([ 'pg_checksums', '--no-sync', $mode, $combined->data_dir ], "pg_checksums $mode succeeds");
}
my $before = $combined->start && sql($combined, 'SELECT snowflake_nextval()');
cmp_ok($before, '>', $largest, 'ids are greater after that, too');

done_testing();

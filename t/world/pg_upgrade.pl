# pg_upgrade keeps the mark and its guard, and new ids are above all old ones, although
# the clock of the new server passes the same time again.  Files are copied, linked or
# moved.  Afterwards, each of our extensions can be updated to a version to come.
#
# SNOWFLAKE_OLD_INSTALL is the directory with the programs of the old version, including
# the extension.  pg_upgrade.sh provides it.

use Cwd qw(getcwd);
use SnowflakeTest;

BAIL_OUT('SNOWFLAKE_OLD_INSTALL is not set') if !$ENV{SNOWFLAKE_OLD_INSTALL};

my $old_install = $ENV{SNOWFLAKE_OLD_INSTALL};
my ($old_major) = `$old_install/bin/pg_config --version` =~ /(\d+)/;
my @databases = ('postgres', 'owned');
# the edition in SQL has functions of the same names
my %database_of = (
	snowflake => 'postgres',
	snowflake_adopt => 'postgres',
	snowflake_registry => 'postgres',
	snowflake_sql => 'sql_only');
my $old_settings = PostgreSQL::Test::Utils::tempdir() . '/old.conf';
append_to_file($old_settings, "jit = off\n");

# One lane, and no random numbers, so that new ids would collide with old ones.  The
# mark may be ahead of the clock by far more than the time that passes again.
my $settings = <<'EOC';
snowflake.layout = 'snowflake lane:0'
snowflake.sequence_start = 'zero'
snowflake.worker_id = 3
snowflake.max_ahead = '1min'
snowflake.max_set_back = 0
snowflake.max_wait = 0
EOC

sub new_cluster
{
	my ($name, @parameters) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, @parameters);

	# the old server has the extension installed, and no checksums up to 17
	local $ENV{TEMP_CONFIG} = $old_settings if @parameters;
	$node->init(extra => $node->pg_version->major >= 18 && $old_major < 18 ? ['--no-data-checksums'] : []);
	$node->append_conf('postgresql.conf', $settings);
	return $node;
}

# Print mark and guard, and what the catalogs say about them.
sub mark_of
{
	my ($node, $database) = @_;

	return $node->safe_psql(
		$database, q{
SELECT relname, CASE relname WHEN 'mark' THEN (SELECT last_value FROM snowflake_internal.mark) ELSE (SELECT bound FROM snowflake_internal.guard) END,
	relkind, relpersistence, relispopulated, relacl, initprivs
FROM pg_extension AS e
	JOIN pg_depend AS d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
	JOIN pg_class AS s ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.deptype = 'e'
	LEFT JOIN pg_init_privs AS i ON i.classoid = d.classid AND i.objoid = s.oid
WHERE extname = 'snowflake' AND relname IN ('mark', 'guard')
ORDER BY relname DESC;
TABLE snowflake_internal.guard;
SELECT extversion, extrelocatable, extconfig::regclass[], extcondition FROM pg_extension WHERE extname = 'snowflake';
});
}

# Upgrade a server in one of the ways that pg_upgrade offers.
sub upgrade
{
	my ($way) = @_;

	# The old server
	my $old_node = new_cluster("old$way", install_path => $old_install);
	start_with_clock($old_node, 0);
	sql($old_node, "CREATE ROLE owner LOGIN;\nCREATE DATABASE owned OWNER owner");
	foreach my $database (@databases)
	{
		sql([ $old_node, $database, $database eq 'owned' ? 'owner' : undef ], q{
CREATE EXTENSION snowflake;
CREATE TABLE items (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text);
CREATE INDEX ON items (snowflake_timestamp(id, 'snowflake lane:0'));
INSERT INTO items (name) SELECT 'item ' || i FROM generate_series(1, 1000) AS i;
});
	}
	sql($old_node, 'CREATE DATABASE sql_only');
	sql([ $old_node, $database_of{$_} ], "CREATE EXTENSION IF NOT EXISTS $_") foreach sort keys %database_of;
	my (%run, %mark, %items);
	foreach my $database (@databases)
	{
		$run{$database} = make_ids($old_node, $database);
		$mark{$database} = mark_of($old_node, $database);
		$items{$database} = $old_node->safe_psql($database, 'TABLE items');
		like(
			$mark{$database}, qr/^mark\|(\d+)\|.*\nguard\|\1\|.*\n\1\|.*\n.*\{snowflake_internal\.mark\}/,
			"$way, $database: the extension has the mark, which is dumped, and its guard, which is not");
	}
	isnt($mark{postgres}, $mark{owned}, 'each database has its own mark');
	my $system = sql($old_node, 'SELECT system_identifier FROM pg_control_system()');
	$old_node->stop;

	# The new server
	my $new_node = new_cluster("new$way");
	{
		# the old programs need their own libraries
		local $ENV{LD_LIBRARY_PATH} = "$old_install/lib";
		my $here = getcwd;

		# pg_upgrade leaves a script in the current directory
		chdir $new_node->basedir or die "could not enter its directory: $!";
		command_ok(
			[
				'pg_upgrade', "--$way", '--no-sync', '--old-datadir', $old_node->data_dir, '--new-datadir',
				$new_node->data_dir, '--old-bindir', "$old_install/bin", '--new-bindir',
				$new_node->config_data('--bindir'), '--old-port', $old_node->port, '--new-port', $new_node->port,
				'--socketdir', $new_node->host
			],
			"pg_upgrade --$way succeeds");
		chdir $here or die "could not return: $!";
	}

	# pg_upgrade keeps its logs if it fails
	my @errors =
	  map { slurp_file($_) =~ /^(.*ERROR:.*\n(?:.*\n){0,12})/mg }
	  glob $new_node->data_dir . '/pg_upgrade_output.d/*/log/*';
	BAIL_OUT(join '', @errors) if @errors;

	foreach my $database (@databases)
	{
		# restart, because lanes remember earlier ids of all databases
		start_with_clock($new_node, -2);
		is( mark_of($new_node, $database), $mark{$database},
			"$way, $database: the mark, its guard and the extension are as they were");
		sql_is([ $new_node, $database ], 'TABLE items', $items{$database}, "$way, $database: the rows are the same");
		sql_is(
			[ $new_node, $database ], 'SELECT system FROM snowflake_internal.guard', $system,
			"$way, $database: the mark comes from the old server");

		my (undef, $duplicates, $lower) = live_again($new_node, $database, $run{$database});
		is("$duplicates, $lower", '0, 0', "$way, $database: no id is a duplicate, and none is below an old one");
		sql_is(
			[ $new_node, $database ],
			"INSERT INTO items (name) VALUES ('new') RETURNING id > ALL (SELECT id FROM items) AND snowflake_worker_id(id) = 3",
			't', "$way, $database: the default makes new ids");
		cmp_ok(
			$new_node->safe_psql(
				$database,
				'SELECT least(m.last_value, g.bound) FROM snowflake_internal.mark AS m, snowflake_internal.guard AS g'),
			'>',
			($mark{$database} =~ /\|(\d+)\|/)[0],
			"$way, $database: the mark continues");
		my @reports = slurp_file($new_node->logfile) =~
		  /mark of database "$database" comes from another server\n.*DETAIL: .*\n.*HINT: .*worker_id/g;
		is(scalar @reports, 1, 'the log reports it once');
		$new_node->stop;
	}
	return ($new_node, $run{postgres});
}

my ($new_node, $run);
my $new_major = PostgreSQL::Test::Cluster->new('version')->pg_version->major;
foreach my $way ('copy', 'link', $new_major >= 18 ? 'swap' : ())
{
	($new_node, $run) = upgrade($way);
}

# An update to a version that changes nothing
my ($dir) = glob stage_directory() . "/usr/share/postgresql/*/extension";
append_to_file("$dir/$_--1.0--1.1.sql", "-- nothing\n") foreach keys %database_of;
start_with_clock($new_node, 0);
foreach my $extension (sort keys %database_of)
{
	my $where = [ $new_node, $database_of{$extension} ];

	sql($where, "ALTER EXTENSION $extension UPDATE TO '1.1'");
	sql_is(
		$where, "SELECT extversion FROM pg_extension WHERE extname = '$extension'", '1.1',
		"$extension is updated");
}
(undef, my @wrong) = live_again($new_node, 'postgres', $run);
is("@wrong", '0 0', 'ids after the updates are new, and above the old ones');
$new_node->stop;

# The same checks find ids that are made again by a mutant.
use_mutant($new_node, 'forgets the mark');
start_with_clock($new_node, 0);
my (undef, $duplicates, $lower) = live_again($new_node, 'postgres', $run);
cmp_ok($duplicates, '>', 0, "mutant that forgets the mark: $duplicates ids are duplicates");
cmp_ok($lower, '>', 0, "mutant that forgets the mark: $lower ids are below old ones");

done_testing();

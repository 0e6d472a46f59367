# Settings that cannot be used, set where they must not be, or changed under a running
# server; a library of another version; and too little shared memory.

use Cwd qw(abs_path);
use SnowflakeTest;

# A setting that cannot be used makes generation fail, whether the library is preloaded
# or not.  The server starts, and everything else works.
my @unusable = (
	[ 'snowflake.worker_id', 'abc', qr/invalid value .*"abc"/ ],
	[ 'snowflake.worker_id', '-1', qr/-1 is outside the valid range/ ],
	[ 'snowflake.datacenter_id', 'x', qr/invalid value .*"x"/ ],
	[ 'snowflake.layout', 'twiter', qr/"twiter" is neither a field/ ],
	[ 'snowflake.layout', 'time:37 worker:20 sequence:16', qr/have 73 bits, and an id has 63/ ],
	[ 'snowflake.sequence_start', 'maybe', qr/invalid value .*"maybe"/ ],
	[ 'snowflake.max_ahead', 'far', qr/invalid value .*"far"/ ]);

# A setting that was taken out is still there in new sessions that know it from their start, but has
# no value.
my $loads = new_server('session_preload', 'session_preload_libraries' => 'snowflake');
sql($loads, 'ALTER SYSTEM SET snowflake.worker_id = 3');
$loads->restart;
sql($loads, 'ALTER SYSTEM RESET snowflake.worker_id');
$loads->reload;
sql_becomes_true($loads, 'SELECT snowflake_worker_id(snowflake_nextval()) = 0', 'a setting can be taken out');
$loads->stop;

foreach my $preload (0, 1)
{
	my $when = $preload ? 'preloaded' : 'loaded late';
	my $node = new_server("unusable$preload", preload => $preload);

	foreach my $case (@unusable)
	{
		my ($name, $value, $reason) = @$case;
		my $conf = slurp_file($node->data_dir . '/postgresql.conf');
		my $log_end = -s $node->logfile;

		restart_with($node, conf => "$name = '$value'");
		sql_fails(
			$node, 'SELECT snowflake_nextval()', 'F0000', "$when: $name = '$value' fails generation",
			qr/parameter "$name" cannot be used.*DETAIL:.*is invalid: a warning said why.*HINT:/s);
		like(slurp_file($node->logfile, $log_end), qr/WARNING:.*$reason/s, 'the log says why');
		sql_is(
			$node, "SELECT snowflake_worker_id(1541815603606036480, 'twitter')", 26,
			'decoding with a layout argument still works');

		# the settings are checked when the library is loaded
		my $usable = { layout => 'snowflake', sequence_start => 'zero' }->{ $name =~ s/.*\.//r } // 0;
		set_and_reload($node, "$name = '$usable'");
		$node->restart if $preload;
		sql_succeeds($node, 'SELECT snowflake_nextval()', "$when: ids are made once $name is correct");
		unlink $node->data_dir . '/postgresql.conf';
		append_to_file($node->data_dir . '/postgresql.conf', $conf);
	}
	$node->stop;
}

# A worker id that does not fit the layout is an error when an id is made.
my $node = new_server('range', 'snowflake.worker_id' => 32);
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'F0000', 'a worker id that does not fit is an error',
	qr/"snowflake\.worker_id" is out of range.*32.*takes values from 0 to 31/s);
set_and_reload($node, 'snowflake.worker_id = 31');
sql_is($node, 'SELECT snowflake_worker_id(snowflake_nextval())', 31, 'the largest fits');
set_and_reload($node, 'snowflake.datacenter_id = 1');
sql_fails(
	$node, 'SELECT snowflake_nextval()', 'F0000', 'a datacenter id is an error if the layout lacks the field',
	qr/"snowflake\.datacenter_id" is out of range.*has no field "datacenter"/s);
set_and_reload($node, 'snowflake.datacenter_id = 0');
set_and_reload($node, 'snowflake.worker_id = 5');

# No session can have a worker id of its own.  Here the library is not preloaded, so
# that PostgreSQL does not know the setting yet at the first SET.
sql($node, 'CREATE ROLE plain LOGIN');
my $worker = 'SELECT snowflake_worker_id(snowflake_nextval())';
my $plain = [ $node, 'postgres', 'plain' ];
my $hidden = qr/parameter "snowflake\.\w+" cannot be used.*A value from SET, the connection options, ALTER ROLE/s;
foreach my $set ('SET', 'BEGIN; SET LOCAL')
{
	sql_fails(
		$plain, "$set snowflake.worker_id = 9; $worker", 'F0000',
		"$set by an ordinary user before the library is loaded", $hidden);
}
# If a session's own value hides that of the configuration file, the session must not
# continue with the built-in value.
foreach my $name ('worker_id', 'layout', 'max_ahead')
{
	local $ENV{PGOPTIONS} = "-c snowflake.$name=9";
	sql_fails(
		$node, 'SELECT snowflake_nextval()', 'F0000', "$name in connection options fails generation",
		$hidden);
}
foreach my $scope ('ROLE plain', 'DATABASE postgres', 'ROLE plain IN DATABASE postgres', 'ROLE ALL')
{
	sql($node, "ALTER $scope SET snowflake.worker_id = 9");
	sql_fails(
		[ $node, 'postgres', 'plain' ], $worker, 'F0000', "ALTER $scope SET fails generation",
		$hidden);
	sql($node, "ALTER $scope RESET snowflake.worker_id");
}
sql_is($node, $worker, 5, 'ids are made after it is reset');

# A leader that goes on with the built-in value has no parallel workers that make ids, either.
my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
{
	local $ENV{PGOPTIONS} = '-c snowflake.worker_id=9';
	sql_fails(
		$plain,
		"SET client_min_messages = error; SELECT snowflake_decode(1); SET $force = on; SELECT snowflake_nextval()",
		'F0000', 'a parallel worker that loads the library before it gets the built-in value',
		qr/parameter "snowflake.worker_id" cannot be used.*DETAIL:  This parallel worker/s);
}

# A parallel worker loads the library for a leader that has not loaded it.
sql($node,
	"CREATE FUNCTION late() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN snowflake_nextval(); END'");
sql_is(
	$node,
	"SET $force = on; CREATE TEMP TABLE t AS SELECT late() AS id; RESET $force; SELECT snowflake_worker_id(id) FROM t",
	5, 'a parallel worker that loads the library uses the settings of the server');
foreach my $set ('worker_id = 9', "layout = 'js53'")
{
	sql_fails(
		$plain, "SET snowflake.$set; SET $force = on; SELECT late()", 'F0000',
		"after SET $set, a parallel worker that loads the library makes no id",
		$hidden);
	$node->restart;
}
restart_with($node, conf => "snowflake.layout = 'snowflake lane:2 sequence:13'\nsnowflake.sequence_start = 'zero'");
my ($ret, $out, $err) = $node->psql('postgres', "SET $force = on; SELECT late() > 0");
is("$ret $out $err", '0 t ', 'a parallel worker that loads the library takes all settings of the server');

$node->stop;

# With the library preloaded, a session cannot set them at all.
$node = new_server('preloaded', preload => 1, 'snowflake.worker_id' => 5);
sql_is($node, $worker, 5, 'preloaded: ids are made');
sql_is(
	$node, "SELECT count(*), max(size) <= 65536 FROM pg_shmem_allocations WHERE name = 'snowflake'", '1|t',
	'shared memory is at most 64 kB');

# A changed layout takes effect at the next start.
my $before = sql($node, 'SELECT layout FROM snowflake_capacity()');
set_and_reload($node, "snowflake.layout = 'snowflake worker:4 sequence:14'");
sql_is(
	$node, 'SELECT (snowflake_decode(snowflake_nextval())).sequence < 8192; SELECT layout FROM snowflake_capacity()',
	"t\n$before",
	'a changed layout does not take effect');
sql_becomes_true(
	$node, q{SELECT state = 'ready' AND hint ~ '"snowflake.layout" was changed' FROM snowflake_status()},
	'and the status says so');
$node->restart;
sql_is(
	$node, 'SELECT layout FROM snowflake_capacity()',
	'time:41 worker:4 timeline:2 lane:2 sequence:14 tick:1ms epoch:2026-01-01T00:00:00Z',
	'the changed layout takes effect at the next start');

$node->stop;

# A parallel worker receives the layout before the state that date parsing might need is
# there.
{
	local $ENV{MALLOC_PERTURB_} = 85;
	$node = new_server('perturbed', 'snowflake.layout' => 'snowflake epoch:2026-01-01T00:00:00Z');
}
sql_is(
	$node, "LOAD 'snowflake'; SET $force = on; SELECT snowflake_worker_id(snowflake_nextval());" x 5,
	"0\n0\n0\n0\n0", 'a parallel worker reads the epoch of the layout');
$node->stop;

# If the library is replaced under a running server, the new version must not create
# lanes of its own.
my $other = abs_path(PostgreSQL::Test::Utils::tempdir());
system_or_bail('sh', '-c', "cp -r *.c *.sql *.control Makefile src registry adopt sql-only $other");
command_ok(
	[
		'make', '--silent', '-C', $other, "PG_CONFIG=$ENV{PG_CONFIG}", 'with_llvm=no', 'COPT=-DSHMEM_VERSION=4711 -O0',
		'clean', 'snowflake.so'
	],
	'another version builds');
$node = new_server('version');
sql($node, 'SELECT snowflake_nextval()');
sql($node, "CREATE FUNCTION other_nextval() RETURNS bigint AS '$other/snowflake', 'snowflake_nextval' LANGUAGE C");
sql_fails(
	$node, 'SELECT other_nextval()', '55000', 'a library of another version is refused',
	qr/library was replaced.*DETAIL: .*version 4711.*HINT: .*Restart/s);
sql_is($node, 'SELECT snowflake_nextval() > 0', 't', 'the old library continues to work');
$node->stop;

# No shared memory left
$node =
  new_server('memory', max_connections => 20, max_locks_per_transaction => 10, dynamic_shared_memory_type => 'mmap');
$node->restart;
if ($node->pg_version < 17)
{
	# the lock table takes all spare memory, and never frees it
	$node->psql('postgres', 'SELECT pg_advisory_xact_lock(i) FROM generate_series(1, 100000) AS i');
}
else
{
	# limit the size of files, and so of segments of shared memory, to some blocks
	my ($postmaster) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
	system_or_bail('prlimit', '--pid', $postmaster, '--fsize=196608');
}
sql_fails(
	$node, 'SELECT snowflake_nextval()', '53200', 'a lack of shared memory is an error',
	qr/HINT: .*shared_preload_libraries/);
restart_with($node, conf => "shared_preload_libraries = 'snowflake'");
sql_is($node, 'SELECT snowflake_nextval() > 0', 't', 'with the library preloaded, ids are made');

done_testing();

# What the tests share.

package SnowflakeTest;

use strict;
use warnings;
use Cwd qw(abs_path);
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_server add_extension run_clients sqlstate_of wait_until_alone crash
  faketime_library set_clock start_with_clock
);

# A server with the extension in its database postgres.  The settings go to
# postgresql.conf; those of the test's own kind are:
#	preload		the library is in shared_preload_libraries
#	clock		the server's clock can be stepped with set_clock()
sub new_server
{
	my ($name, %settings) = @_;
	my $preload = delete $settings{preload};
	my $clock = delete $settings{clock};
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', <<'EOC');
fsync = off
synchronous_commit = off
max_connections = 100
shared_buffers = 256MB
max_wal_size = 4GB
autovacuum = off
restart_after_crash = on
log_statement = none
EOC
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = 'snowflake'")
	  if $preload;
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'")
	  foreach sort keys %settings;

	if ($clock)
	{
		start_with_clock($node, 0);
	}
	else
	{
		$node->start;
	}
	add_extension($node, 'postgres');
	return $node;
}

sub add_extension
{
	my ($node, $database) = @_;

	# the settings may be of no use, and creating it must not mind
	$node->safe_psql($database, 'CREATE EXTENSION snowflake');
	return;
}

# Run a pgbench script to its end.  The options are pgbench's; any error that
# a client sees fails the test.
sub run_clients
{
	my ($node, $options, $name, $script) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';

	append_to_file($file, $script);
	my ($out, $err);
	my $ok = IPC::Run::run(
		[
			$node->installed_command('pgbench'), '--no-vacuum',
			split(' ', $options),
			'--file' => $file,
			'--host' => $node->host,
			'--port' => $node->port,
			'postgres'
		],
		'>' => \$out,
		'2>' => \$err);
	my $errors = join("\n", grep { /error|aborted|warning/i } split /\n/, $err);
	ok($ok && $errors eq '', $name) or diag($errors || $err);
	return;
}

# The SQLSTATE that a statement fails with, and its message; 00000 if it does
# not fail.
sub sqlstate_of
{
	my ($node, $sql) = @_;
	my ($ret, $out, $err) =
	  $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 0);
	return $err =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5}):/ ? ($1, $err) : ('00000', $err);
}

# Wait in a session until the others are gone: a client that has left may have
# a backend that has not.
sub wait_until_alone
{
	my ($session) = @_;

	$session->query_safe(<<'EOC');
DO $$
BEGIN
	WHILE (SELECT count(*) > 1 FROM pg_stat_activity WHERE backend_type = 'client backend') LOOP
		PERFORM pg_sleep(0.01);
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END $$
EOC
	return;
}

# Kill a backend with no warning, and wait for the server to start again.
sub crash
{
	my ($node) = @_;
	my $victim = $node->background_psql('postgres', on_error_stop => 0);
	my $offset = -s $node->logfile;

	kill 'KILL', $victim->query_safe('SELECT pg_backend_pid()');
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
	$node->poll_query_until('postgres', 'SELECT true') or die 'no crash restart';
	eval { $victim->quit };
	return;
}

sub faketime_library
{
	my @found = glob '/usr/lib/*/faketime/libfaketime.so.1';
	return $found[0];
}

# Set the clock of a server off by so many seconds.  The clock goes on from
# there.  The monotonic clock is left alone, as a real step would.
sub set_clock
{
	my ($node, $offset) = @_;
	my $file = $node->basedir . '/clock';

	# replaced as a whole: the server must never read half of it
	unlink "$file.new";
	append_to_file("$file.new", sprintf('%+.3f', $offset));
	rename "$file.new", $file or die "could not rename clock file: $!";
	return;
}

# Start a server whose clock is off by so many seconds, or as it was last set.
sub start_with_clock
{
	my ($node, $offset) = @_;

	set_clock($node, $offset) if defined $offset;
	local $ENV{LD_PRELOAD} = faketime_library();
	local $ENV{FAKETIME_TIMESTAMP_FILE} = abs_path($node->basedir . '/clock');
	local $ENV{FAKETIME_NO_CACHE} = 1;
	local $ENV{FAKETIME_DONT_FAKE_MONOTONIC} = 1;
	local $ENV{DONT_FAKE_MONOTONIC} = 1;
	$node->start;
	return;
}

1;

# Worker ids that the operator assigns: in postgresql.conf, and through the entry point
# of a container.

use Cwd qw(abs_path);
use SnowflakeTest;

my $worker_id = 'SELECT snowflake_worker_id(snowflake_nextval())';
my $node = new_server('node', 'snowflake.worker_id' => 5);
sql_is($node, $worker_id, 5, 'the worker id can be set in postgresql.conf');
$node->append_conf('postgresql.conf', "include_dir = 'conf.d'");
mkdir $node->data_dir . '/conf.d';
append_to_file($node->data_dir . '/conf.d/host.conf', "snowflake.worker_id = 6\n");
$node->reload;
sql_becomes_true($node, "$worker_id = 6", 'the worker id can be set in an included file');
$node->stop;

# a pod's image, as far as the entry point needs it
my $image = PostgreSQL::Test::Utils::tempdir();
append_to_file("$image/docker-entrypoint.sh", "#!/bin/sh\nexec \"\$@\"\n");
chmod 0755, "$image/docker-entrypoint.sh";
local $ENV{PATH} = "$image:$ENV{PATH}";
my $entry_point = abs_path('doc/servers/statefulset.sh');

local $ENV{HOSTNAME} = 'orders-3';
my $pod = IPC::Run::start(
	[ 'sh', $entry_point, '-D', $node->data_dir, '-p', $node->port ],
	'>', $node->logfile, '2>&1');
$node->wait_for_log(qr/ready to accept connections/);
sql_is($node, $worker_id, 3, 'the worker id is the number of the pod');
$pod->signal('INT');
$pod->finish;

$ENV{HOSTNAME} = 'orders';
command_fails_like(
	[ 'sh', $entry_point ], qr/host name does not end with a number/,
	'a host name without a number fails');

done_testing();

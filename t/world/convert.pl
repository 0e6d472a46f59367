# The guide's script for large tables, doc/convert/large_table.sql, run while clients
# insert, update and read.  It is stopped in each of its steps, by a lock or by the end
# of its session; meanwhile clients continue, and the next run continues where the last
# one stopped.

use SnowflakeTest;

my $node = new_server('convert');
my $file = 'doc/convert/large_table.sql';
my $script = slurp_file($file);

# the tables are those in the script's comment
my $tables = join "\n", $script =~ /^--\t(.*)/mg;
like($tables, qr/CREATE TABLE accounts .*CREATE VIEW balances /s, 'the script shows its tables');
sql($node, qq{
$tables
-- without checking each row
SET session_replication_role = replica;
INSERT INTO accounts (owner) SELECT 'old' FROM generate_series(1, 40000);
INSERT INTO entries (account_id, amount) SELECT i % 40000 + 1, 1 FROM generate_series(1, 160000) AS i;
INSERT INTO notes (account_id, note) SELECT nullif(i, 7), 'old' FROM generate_series(1, 40000) AS i;
CREATE TABLE opened (account_id bigint);});
my $query_files = q{SELECT string_agg(pg_relation_filenode(relation)::text, ' ')
FROM unnest('{accounts,entries,notes}'::regclass[]) AS relation};
my $files = sql($node, $query_files);

# The work of clients.  They leave alone the rows with id 1, which this test locks.
my $client = <<'EOC';
\set account random(2, 40000)
\set entry random(2, 160000)
BEGIN;
INSERT INTO accounts (owner) VALUES ('new') RETURNING id \gset
INSERT INTO opened VALUES (:id);
INSERT INTO entries (account_id, amount) VALUES (:id, 1), (:account, 1);
INSERT INTO notes (account_id, note) VALUES (:id, 'new'), (:account, 'new'), (NULL, 'new');
UPDATE accounts SET owner = 'changed' WHERE id = :account;
UPDATE entries SET amount = amount + 1 WHERE id = :entry;
COMMIT;
SELECT balance FROM balances WHERE id = :account;
EOC

# Start clients that fail if they wait for too long.
sub start_impatient_clients
{
	my ($patience, $options) = @_;

	local $ENV{PGOPTIONS} = "-c lock_timeout=$patience";
	return start_clients($node, $options, $client);
}

# Start the script, or another text.
sub start_script
{
	my (%options) = @_;
	my ($out, $err) = ('', '');
	my $path = PostgreSQL::Test::Utils::tempdir() . '/script.sql';

	append_to_file($path, $options{text} // $script);

	# messages show which tables are scanned
	local $ENV{PGOPTIONS} = '-c client_min_messages=debug1';
	local $ENV{PGAPPNAME} = 'convert';
	my $run = IPC::Run::start(
		[
			$node->installed_command('psql'), '--no-psqlrc', '--set=VERBOSITY=verbose', "--file=$path",
			'--host', $node->host, '--port', $node->port, 'postgres'
		],
		'>' => \$out,
		'2>' => \$err);
	return { run => $run, err => \$err };
}

# Wait until the script ends.  Returns the SQLSTATE, and all messages.
sub finish_script
{
	my ($session) = @_;

	$session->{run}->finish;
	my $err = ${ $session->{err} };
	return $err =~ /(?:ERROR|FATAL): +([0-9A-Z]{5}):/
	  ? ($1, $err)
	  : ($session->{run}->result == 0 ? '00000' : '', $err);
}

# Run the script, or another text, again while it fails to get a lock, at most until a
# condition is true.
sub convert
{
	my (%options) = @_;
	my ($code, $err);

	foreach (1 .. 100)
	{
		($code, $err) = finish_script(start_script(%options));
		last if $code ne '55P03';
		last if $options{until} && sql($node, "SELECT $options{until}") eq 't';
	}
	return ($code, $err);
}

# Open a session that holds a lock until let_go().
sub hold
{
	my ($sql) = @_;
	my $session = $node->background_psql('postgres');

	$session->query_safe("BEGIN; $sql");
	return $session;
}

sub let_go
{
	my ($session) = @_;

	$session->query_safe('ROLLBACK');
	$session->quit;
	return;
}

# Check that clients make progress, whatever the script does.
sub check_clients
{
	my ($name) = @_;
	my $before = sql($node, 'SELECT count(*) FROM opened');

	sql_becomes_true($node, "SELECT count(*) > $before + 50 FROM opened", "$name: clients continue");

	# foreign keys act in the same way at all times
	my $orphan = (sqlstate_of($node, 'INSERT INTO entries (account_id, amount) VALUES (1600000000, 1)'))[0];
	my $left = sql(
		$node, q{
BEGIN;
INSERT INTO accounts (owner) VALUES ('short') RETURNING id \gset
INSERT INTO entries (account_id, amount) VALUES (:id, 1);
INSERT INTO notes (account_id, note) VALUES (:id, 'short');
DELETE FROM accounts WHERE id = :id;
SELECT (SELECT count(*) FROM entries WHERE account_id = :id), account_id IS NULL FROM notes WHERE note = 'short';
ROLLBACK;});
	is("$orphan $left", '23503 0|t', "$name: foreign keys act as before");
	return;
}

# Run the script, and end its session while a statement waits.
sub kill_in
{
	my ($statement, $name) = @_;
	my $session = start_script();

	sql_becomes_true(
		$node, qq{SELECT count(*) = 1 FROM pg_stat_activity
WHERE application_name = 'convert' AND wait_event_type = 'Lock' AND query ~ '^$statement'}, "$name: the script waits");
	check_clients($name);
	sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'convert'});
	is((finish_script($session))[0], '57P01', "$name: the script is killed");
	sql_becomes_true(
		$node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'convert'},
		"$name: its session is gone");
	return;
}

# Rows from the beginning that are not filled yet
my $unfilled = q{SELECT (SELECT count(*) FROM accounts WHERE new_id IS NULL),
	(SELECT count(*) > 100000 FROM entries WHERE new_account_id IS NULL),
	(SELECT count(*) > 25000 FROM notes WHERE new_account_id IS DISTINCT FROM account_id)};

# These clients would notice a lock that is held for long, like that of an ALTER TABLE
# that waits for a session that has read the table.
my $reader = hold('SELECT FROM accounts LIMIT 1');
my $session = start_script(text => 'ALTER TABLE accounts RENAME owner TO renamed;');
sql_becomes_true(
	$node,
	q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'convert' AND wait_event_type = 'Lock'},
	'a lock waits');
my $clients = start_impatient_clients('100ms', '--client=2 --transactions=1');
ok(!$clients->{run}->finish, 'clients fail while it waits');
like(${ $clients->{err} }, qr/lock timeout/, 'because they wait, too');
sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'convert'});
finish_script($session);
let_go($reader);

# The guide describes what happens to statements that were prepared before.
my $prepared = $node->background_psql('postgres', on_error_stop => 0);
$prepared->query_safe('PREPARE statement AS SELECT id FROM accounts WHERE id = 2; EXECUTE statement');

# The script, with clients running all the time
$clients = start_impatient_clients('60s', '--client=4 --rate=200 --time=3600');

my $lock = hold('LOCK TABLE notes IN ACCESS SHARE MODE');
is((finish_script(start_script()))[0], '55P03', 'step 1: the script fails to get its locks');
sql_is(
	$node, q{SELECT count(*) FROM pg_attribute WHERE attname LIKE 'new_%id' AND attnum > 0}, 0,
	'step 1: it leaves nothing behind');
check_clients('step 1');
let_go($lock);

# only the first step, to lock a row before the next one
my ($first_step) = $script =~ /^(.*?)^--\n-- 2\./ms;
convert(text => $first_step);
sql_is($node, q{SELECT count(*) FROM pg_constraint WHERE NOT convalidated}, 3, 'step 1: it completes');
check_clients('after step 1');
sql_succeeds(
	$node, q{
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO accounts (owner) VALUES ('applied') RETURNING id \gset
INSERT INTO entries (account_id, amount) VALUES (:id, 1);
INSERT INTO notes (account_id, note) VALUES (:id, 'applied');
ROLLBACK;}, 'after step 1: a subscription can apply rows');

$lock = hold(q{UPDATE accounts SET owner = 'held' WHERE id = 1});
kill_in('UPDATE accounts SET new_id = id WHERE id = 1$', 'step 2, the first table');
sql_is($node, $unfilled, '1|t|t', 'one row is left, and two tables');
let_go($lock);

$lock = hold('UPDATE entries SET amount = amount WHERE id = 1');
kill_in('UPDATE entries SET new_account_id = account_id WHERE id = 1$', 'step 2, the second table');
sql_is(
	$node, "$unfilled, (SELECT count(*) FROM entries WHERE new_account_id IS NULL)", '0|f|t|1',
	'one row is left, and one table');
let_go($lock);

$lock = hold('LOCK TABLE accounts IN ROW EXCLUSIVE MODE');
kill_in('CREATE UNIQUE INDEX CONCURRENTLY', 'step 3');
sql_is(
	$node, q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'accounts_new_id_key'::regclass}, 'f',
	'it leaves an invalid index');
let_go($lock);

my $foreign_keys =
  q{SELECT string_agg(conname || CASE WHEN convalidated THEN '' ELSE ' (not valid)' END, ' ' ORDER BY conname)
FROM pg_constraint WHERE confrelid = 'accounts'::regclass};
$lock = hold('LOCK TABLE notes IN ROW EXCLUSIVE MODE');
is((finish_script(start_script()))[0], '55P03', 'step 4: the script fails to get its locks');
sql_is($node, $foreign_keys, 'entries_account_id_fkey notes_account_id_fkey', 'step 4: it leaves nothing behind');
sql_is(
	$node, q{SELECT bool_and(indisvalid) FROM pg_index WHERE indexrelid IN
('accounts_new_id_key'::regclass, 'entries_new_account_id_idx'::regclass)}, 't', 'step 3: the indexes are valid');
check_clients('step 4');
let_go($lock);

# The foreign keys are added under locks, but check the rows afterwards, without them.
my ($up_to_locks) = $script =~ /^(.*?^-- 4\..*?^COMMIT;\n)/ms;
my ($code, $messages) = convert(text => "$up_to_locks\\endif\n");
is( "$code " . sql($node, $foreign_keys),
	'00000 entries_account_id_fkey entries_new_account_id_fkey (not valid) notes_account_id_fkey notes_new_account_id_fkey (not valid)',
	'step 4: it adds foreign keys');
my $checks_rows = qr/validating foreign key constraint "\w+_new_account_id_fkey"/;
unlike($messages, $checks_rows, 'step 4: no row is checked while clients are locked out');

my $four = q{(SELECT count(*) FROM pg_constraint WHERE confrelid = 'accounts'::regclass AND convalidated) = 4};
$lock = hold('LOCK TABLE notes IN ACCESS SHARE MODE');
($code, $messages) = convert(until => $four);
is($code, '55P03', 'step 5: the script fails to get its locks');
like($messages, $checks_rows, 'step 4: rows are checked after that');
sql_is(
	$node, $foreign_keys,
	'entries_account_id_fkey entries_new_account_id_fkey notes_account_id_fkey notes_new_account_id_fkey',
	'step 4: it has completed');
check_clients('step 5');
let_go($lock);

sql($node, 'CREATE VIEW overlooked AS SELECT id FROM accounts');
($code, $messages) = convert();
is($code, '2BP01', 'step 5: the script stops because of a view');
like($messages, qr/view overlooked depends on column id of table accounts/, 'the error names the view');
sql_is(
	$node, q{SELECT format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = 'accounts'::regclass AND attname = 'id'}, 'integer', 'nothing has changed');
check_clients('stopped by a view');
sql($node, 'DROP VIEW overlooked');

($code, $messages) = convert();
is($code, '00000', 'the script completes');
check_clients('completed');
sql_becomes_true($node, 'SELECT count(*) > 100 FROM accounts WHERE id > 1000000', 'clients make new ids');
unlike($messages, qr/(?:verifying|rewriting) table|building index/, 'the swap reads and writes no table');
foreach my $column ('accounts.new_id', 'entries.new_account_id')
{
	like(
		$messages, qr/existing constraints on column "\Q$column\E" are sufficient/,
		"the server knows that $column has no NULL");
}
sql_is($node, $query_files, $files, 'no table was rewritten');
$prepared->query('EXECUTE statement');
like(
	take_errors($prepared), qr/cached plan must not change result type/,
	'a prepared statement must be prepared again');
$prepared->quit;

# no client ended by itself, and none had an error
$clients->{run}->pump_nb;
ok($clients->{run}->pumpable, 'clients run to the end');
$clients->{run}->signal('TERM');
$clients->{run}->finish;
is(join("\n", grep { /error|aborted|warning/i } split /\n/, ${ $clients->{err} }), '', 'no client fails');
sql_becomes_true(
	$node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'},
	'clients are gone');

# All transactions of clients are in all tables.
my $opened = sql($node, 'SELECT count(*) FROM opened');
sql_is(
	$node,
	'SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM entries), (SELECT sum(amount) FROM entries), (SELECT count(*) FROM notes)',
	join('|', 40000 + $opened, 160000 + 2 * $opened, 160000 + 3 * $opened, 40000 + 3 * $opened),
	"no row of $opened transactions is missing");
sql_is(
	$node, q{
SELECT (SELECT count(*) FROM opened LEFT JOIN accounts ON id = account_id WHERE id IS NULL),
	(SELECT count(*) FROM entries LEFT JOIN accounts ON accounts.id = account_id WHERE accounts.id IS NULL),
	(SELECT count(*) FROM notes LEFT JOIN accounts ON accounts.id = account_id WHERE accounts.id IS NULL AND note <> 'new'),
	(SELECT sum(account_id) FROM entries WHERE id <= 160000), (SELECT sum(account_id) FROM notes WHERE id <= 40000)},
	'0|0|1|' . 4 * 40000 * 40001 / 2 . '|' . (40000 * 40001 / 2 - 7), 'rows refer to the same rows as before');
sql_is(
	$node, q{SELECT count(*) > 100, bool_and(id > 1000000000000) FROM accounts WHERE id > 1000000}, 't|t',
	'new ids are snowflake ids');
sql_is(
	$node, q{
SELECT string_agg(format('%s.%s %s%s %s', attrelid::regclass, attname, format_type(atttypid, NULL),
	CASE WHEN attnotnull THEN ' NOT NULL' END, pg_get_expr(adbin, adrelid)), ', ' ORDER BY attrelid::regclass::text, attname)
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid IN ('accounts'::regclass, 'entries'::regclass, 'notes'::regclass) AND attnum > 0 AND NOT attisdropped
	AND attname ~ 'id$' AND (attrelid = 'accounts'::regclass OR attname <> 'id')},
	'accounts.id bigint NOT NULL snowflake_id(), entries.account_id bigint NOT NULL , notes.account_id bigint ',
	'columns are as before, but wide');
sql_is(
	$node, q{
SELECT string_agg(format('%s %s', conname, pg_get_constraintdef(oid)), E'\n' ORDER BY conname)
FROM pg_constraint WHERE conrelid IN ('accounts'::regclass, 'entries'::regclass, 'notes'::regclass) AND contype <> 'n'},
	'accounts_pkey PRIMARY KEY (id)
entries_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE
entries_pkey PRIMARY KEY (id)
notes_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE SET NULL
notes_pkey PRIMARY KEY (id)', 'constraints are as before, and valid');
sql_is(
	$node, q{
SELECT string_agg(indexrelid::regclass::text, ' ' ORDER BY indexrelid::regclass::text)
FROM pg_index WHERE indisvalid AND indrelid IN ('accounts'::regclass, 'entries'::regclass, 'notes'::regclass)},
	'accounts_pkey entries_account_id_idx entries_pkey notes_pkey', 'and so are indexes');
sql_is($node, q{SELECT count(*) FROM pg_proc WHERE proname LIKE 'follow%'}, 0, 'the functions of the script are gone');
is((finish_script(start_script()))[0], '00000', 'a further run succeeds');
sql_is($node, $query_files, $files, 'and changes nothing');

done_testing();

# PostgreSQL 19 replicates sequences: a publication of all sequences includes the mark,
# and a subscriber sets its own mark to that.  A lower mark makes no id come again, and
# a higher one counts.

use SnowflakeTest;

plan skip_all => 'PostgreSQL 19 replicates sequences'
  if PostgreSQL::Test::Cluster->new('version')->pg_version->major < 19;

my @settings = (wal_level => 'logical', max_wal_senders => 5, 'snowflake.sequence_start' => 'zero');

sub mark_of
{
	my ($node) = @_;
	return sql($node, 'SELECT last_value FROM snowflake_internal.mark');
}

# Wait until the subscriber has set its sequences.
sub wait_for_sequences
{
	my ($subscriber) = @_;

	$subscriber->poll_query_until('postgres', "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")
	  or BAIL_OUT('sequences are not replicated');
	return;
}

# The publisher's mark is an hour behind.  The subscriber crashes with that mark, or
# while its clients make ids, and passes the same seconds again.  Returns the number of
# ids, and of duplicates.
sub hunt
{
	my ($publisher, $mutant) = @_;
	my $name = $mutant ? 'mutant' : 'subscriber';
	my $subscriber = new_hunting_server($name, mutant => $mutant, @settings);
	my $began = time;
	my ($ids, $end) = live_from($subscriber, $began, $began + 1);
	my @all = @$ids;

	# the subscriber would correct its mark with the next ids, but makes none yet
	my $before = mark_of($subscriber);
	sql($subscriber,
		"CREATE SUBSCRIPTION $name CONNECTION '" . $publisher->connstr('postgres') =~
		  s/'/''/gr . "' PUBLICATION sequences");
	wait_for_sequences($subscriber);
	cmp_ok(mark_of($subscriber), '<', $before, 'replication sets the mark back');
	sql($subscriber, 'CHECKPOINT');
	restart_with($subscriber, stop => 'immediate', clock => $began - time);
	($ids, $end) = live_from($subscriber, $began, $end);
	push @all, @$ids;

	my @collectors = start_collectors($subscriber, 4);
	wait_for_collectors($subscriber, 4);
	push @all, @collectors;
	foreach (1 .. 3)
	{
		sql($subscriber, "ALTER SUBSCRIPTION $name REFRESH SEQUENCES");
		wait_for_sequences($subscriber);
	}
	$end = sql($subscriber, 'SELECT extract(epoch FROM clock_timestamp())');
	$subscriber->stop('immediate');
	stop_collectors(@collectors);
	start_with_clock($subscriber, $end - 3 - time);
	($ids) = live_from($subscriber, $end - 3, $end + 1);
	my ($number, $duplicates) = count_duplicates(@all, @$ids);
	return ($subscriber, $number, $duplicates);
}

my $publisher = new_hunting_server('publisher', @settings);
restart_with($publisher, clock => -3600);
sql($publisher, 'CREATE PUBLICATION sequences FOR ALL SEQUENCES; SELECT snowflake_nextval()');
sql_is(
	$publisher, "SELECT string_agg(schemaname || '.' || sequencename, ' ' ORDER BY 1) FROM pg_publication_sequences",
	'snowflake_internal.mark', 'the mark is published, but not the guard');
my ($subscriber, $ids, $duplicates) = hunt($publisher);
is($duplicates, 0, "a lower mark arrives: none of $ids ids is made twice");
cmp_ok($ids, '>', 100_000, 'many ids were made');

if (with_mutants())
{
	my ($server, undef, $found) = hunt($publisher, 'has no guard');
	cmp_ok($found, '>', 0, 'mutant that has no guard: duplicates are found');
	$server->stop('immediate');
}

# A switchover by logical replication: rows and sequences are replicated, clients stop,
# and the sequences are refreshed once more.  New ids are above those of the publisher,
# although its clock was half a minute ahead and both have the same worker id.
my $table = 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)';
restart_with($publisher, clock => 30);
sql($publisher,
	"$table; INSERT INTO orders (item) VALUES ('old'); CREATE PUBLICATION everything FOR ALL TABLES, ALL SEQUENCES");
restart_with($subscriber, conf => "snowflake.max_ahead = '1min'\nsnowflake.max_set_back = -1", clock => 0);
sql($subscriber, 'DROP SUBSCRIPTION subscriber');
sql($subscriber, "$table; SELECT snowflake_nextval()");
my $connection = $publisher->connstr('postgres') =~ s/'/''/gr;
sql($subscriber, "CREATE SUBSCRIPTION everything CONNECTION '$connection' PUBLICATION everything");
run_clients($publisher, '--client=4 --time=2', 'clients insert', "INSERT INTO orders (item) VALUES ('new');");
my $last = sql($publisher, 'SELECT max(id) FROM orders');
$publisher->wait_for_catchup('everything', 'replay', $publisher->lsn('insert'));
sql($subscriber, 'ALTER SUBSCRIPTION everything REFRESH SEQUENCES');
wait_for_sequences($subscriber);
sql_is(
	$subscriber, 'SELECT count(*), max(id) FROM orders', sql($publisher, 'SELECT count(*), max(id) FROM orders'),
	'switchover: all rows have arrived');
cmp_ok(mark_of($subscriber), '>=', $last, 'and so has the mark');
sql($subscriber, 'DROP SUBSCRIPTION everything');
$publisher->stop;
cmp_ok(
	sql($subscriber, "INSERT INTO orders (item) VALUES ('first') RETURNING id"), '>', $last,
	'the first id is above those of the publisher');
$last = sql($subscriber, 'SELECT snowflake_nextval()');
restart_with($subscriber, stop => 'immediate', clock => -5);
cmp_ok(sql($subscriber, 'SELECT snowflake_nextval()'), '>', $last, 'even after a crash');

done_testing();

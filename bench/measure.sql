--
-- What bench/run keeps in its server: the figures, and the measurements that
-- are timed inside the server, so that client and socket do not count.
--

CREATE EXTENSION snowflake;
CREATE SEQUENCE cache_1;
CREATE SEQUENCE cache_1000 CACHE 1000;
-- reserves blocks of 1000 by hand: each value is the first of its block
CREATE SEQUENCE step_1000 INCREMENT 1000;

-- Instagram's generator, as published: ms since an epoch of its own, 13 bits for the shard,
-- 10 bits of a sequence
CREATE SEQUENCE instagram_sequence;
CREATE FUNCTION instagram()
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
	origin CONSTANT bigint := 1314220021721;
	shard CONSTANT bigint := 5;
	ms bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
BEGIN
	RETURN (ms - origin) << 23 | shard << 10 | nextval('instagram_sequence') % 1024;
END
$$;

CREATE TABLE figure (
	number integer GENERATED ALWAYS AS IDENTITY,
	measure text,
	rival text,
	round integer,
	value float8
);

CREATE TABLE ratio (
	number integer GENERATED ALWAYS AS IDENTITY,
	name text,
	measure text,
	rival text,
	base_measure text,
	base_rival text
);

-- Rotate the list, so that each round starts with another element.
CREATE FUNCTION rotated(list text[], round integer)
RETURNS text[]
IMMUTABLE
RETURN list[round % cardinality(list) + 1:] || list[:round % cardinality(list)];

-- Time the query once per rival, in nanoseconds per id.  Round -1 only warms up.
CREATE PROCEDURE measure_round(measure text, query text, calls text[],
	round integer, ids integer)
LANGUAGE plpgsql
AS $$
DECLARE
	call text;
	start timestamptz;
	elapsed interval;
BEGIN
	FOREACH call IN ARRAY rotated(calls, greatest(round, 0)) LOOP
		start := clock_timestamp();
		EXECUTE format(query, call, ids);
		elapsed := clock_timestamp() - start;
		INSERT INTO figure (measure, rival, round, value)
		SELECT measure_round.measure, call, measure_round.round, extract(epoch FROM elapsed) * 1e9 / ids
		WHERE measure_round.round >= 0;
		COMMIT;
	END LOOP;
END
$$;

CREATE PROCEDURE measure_query(measure text, query text, calls text[],
	rounds integer, ids integer)
LANGUAGE plpgsql
AS $$
BEGIN
	FOR round IN -1 .. rounds - 1 LOOP
		CALL measure_round(measure, query, calls, round, ids);
	END LOOP;
END
$$;

-- Append the element if the server has uuidv7(), as from 18 on.
CREATE FUNCTION with_uuidv7(list text[], element text)
RETURNS text[]
RETURN list || CASE WHEN to_regprocedure('uuidv7()') IS NOT NULL THEN ARRAY[element] ELSE '{}' END;

CREATE PROCEDURE measure_calls(rounds integer, ids integer, long_ids integer)
LANGUAGE plpgsql
AS $$
DECLARE
	-- the last one measures the loop itself, which takes most of the time
	calls text[] := ARRAY['snowflake_nextval()', 'clock_timestamp()', 'nextval(''cache_1'')',
		'nextval(''cache_1000'')', 'i'];
	slow text[] := with_uuidv7(ARRAY['gen_random_uuid()', 'instagram()'], 'uuidv7()');
BEGIN
	CALL measure_query('one call (ns)',
		'SELECT count(%s) FROM generate_series(1, %s) AS i', calls || slow, rounds, ids);
	-- A function scan stores its rows.  A subquery streams them, so that less of the
	-- time goes to anything but the call.
	CALL measure_query('one call, rows streamed (ns)',
		'SELECT count(%s) FROM (SELECT generate_series(1, %s) AS i) AS numbers',
		calls || slow, rounds, ids);
	CALL measure_query('long statement (ns)',
		'SELECT count(%s) FROM generate_series(1, %s) AS i', calls, rounds, long_ids);
END
$$;

-- Return the statements that fill a table by INSERT and by COPY, with a default that
-- makes the keys.  A client runs them, because COPY within a procedure would not be
-- comparable.
CREATE TABLE started (lsn pg_lsn, at timestamptz);

CREATE FUNCTION load_statements(rounds integer, rows integer, file text)
RETURNS SETOF text
LANGUAGE sql
BEGIN ATOMIC
	SELECT step
	FROM generate_series(-1, rounds - 1) AS round
		CROSS JOIN unnest(ARRAY[
			format('INSERT INTO loaded (v) SELECT i FROM generate_series(1, %s) AS i', rows),
			format('COPY loaded (v) FROM %L', file)]) WITH ORDINALITY AS load (statement, load_number)
		CROSS JOIN unnest(rotated(with_uuidv7(ARRAY['bigint DEFAULT snowflake_nextval()', 'bigserial',
			'uuid DEFAULT gen_random_uuid()'], 'uuid DEFAULT uuidv7()'), greatest(round, 0)))
			WITH ORDINALITY AS rival (key, turn)
		CROSS JOIN unnest(ARRAY[
			format('CREATE TABLE loaded (id %s PRIMARY KEY, v integer)', key),
			-- so that each load writes the same amount
			'CHECKPOINT',
			'INSERT INTO started VALUES (pg_current_wal_insert_lsn(), clock_timestamp())',
			statement,
			format('INSERT INTO figure (measure, rival, round, value)
				SELECT %L || unit, %L, %s, amount
				FROM started CROSS JOIN LATERAL (VALUES
					('' (s)'', extract(epoch FROM clock_timestamp() - at)),
					('' (WAL, MB)'', (pg_current_wal_insert_lsn() - lsn) / 1e6),
					('' (index, MB)'', pg_relation_size(''loaded_pkey'') / 1e6)) AS result (unit, amount)
				WHERE %s >= 0', split_part(statement, ' ', 1), key, round, round),
			'DROP TABLE loaded',
			'DELETE FROM started']) WITH ORDINALITY AS steps (step, step_number)
	ORDER BY round, load_number, turn, step_number;
END;

-- Fill tables of one key after the other, so that each has the cache to itself: how
-- much of the index must be cached depends on the order of the keys.  Each step counts
-- as a round.
CREATE PROCEDURE measure_growth(rows integer)
LANGUAGE plpgsql
AS $$
DECLARE
	steps CONSTANT integer := 10;
	keys text[] := with_uuidv7(ARRAY['bigint DEFAULT snowflake_nextval()', 'bigserial',
		'bigint DEFAULT (random() * 9e18)::bigint', 'uuid DEFAULT gen_random_uuid()'],
		'uuid DEFAULT uuidv7()');
	key text;
	start timestamptz;
	elapsed interval;
	start_lsn pg_lsn;
	fetched bigint;
	hits bigint;
	pages bigint;
BEGIN
	FOREACH key IN ARRAY keys LOOP
		EXECUTE format('CREATE TABLE grown (id %s PRIMARY KEY, v integer)', key);
		COMMIT;
		CHECKPOINT;
		start_lsn := pg_current_wal_insert_lsn();
		FOR step IN 0 .. steps - 1 LOOP
			-- these count up until the session is idle
			fetched := pg_stat_get_xact_blocks_fetched('grown_pkey'::regclass);
			hits := pg_stat_get_xact_blocks_hit('grown_pkey'::regclass);
			pages := pg_relation_size('grown_pkey');
			start := clock_timestamp();
			EXECUTE format('INSERT INTO grown (v) '
				'SELECT i FROM (SELECT generate_series(1, %s) AS i) AS numbers', rows / steps);
			COMMIT;
			elapsed := clock_timestamp() - start;
			fetched := pg_stat_get_xact_blocks_fetched('grown_pkey'::regclass) - fetched;
			hits := pg_stat_get_xact_blocks_hit('grown_pkey'::regclass) - hits;
			-- up to 15, a new page counts as fetched
			pages := (pg_relation_size('grown_pkey') - pages) / current_setting('block_size')::integer;
			IF current_setting('server_version_num')::integer < 160000 THEN
				fetched := fetched - pages;
			END IF;
			INSERT INTO figure (measure, rival, round, value)
			VALUES ('growing table (us per row)', key, step,
					extract(epoch FROM elapsed) * 1e6 / (rows / steps)),
				('growing table, index blocks read per 1000 rows', key, step,
					(fetched - hits) * 1000.0 / (rows / steps)),
				('growing table, hits of the cache by the index (%)', key, step,
					100.0 * hits / fetched);
		END LOOP;
		INSERT INTO figure (measure, rival, round, value)
		VALUES ('grown table, million rows', key, 0, rows / 1e6),
			('grown table, index, MB', key, 0, pg_relation_size('grown_pkey') / 1e6),
			('grown table, WAL, MB', key, 0, (pg_current_wal_insert_lsn() - start_lsn) / 1e6);
		DROP TABLE grown;
	END LOOP;
END
$$;

-- Time calls in a new session, on a server with settings that need a restart.
CREATE PROCEDURE measure_variant(variant text, round integer, ids integer)
LANGUAGE plpgsql
AS $$
BEGIN
	PERFORM count(snowflake_nextval()) FROM generate_series(1, 100000);
	CALL measure_round(format('one call, %s (ns)', variant),
		'SELECT count(%s) FROM generate_series(1, %s) AS i',
		ARRAY['snowflake_nextval()', 'clock_timestamp()'], round, ids);
END
$$;

-- Return this session's memory in kB: what PostgreSQL accounts for, and resident
-- memory.
CREATE FUNCTION session_memory(OUT contexts float8, OUT rss float8, OUT peak float8)
LANGUAGE plpgsql
AS $$
DECLARE
	status text := pg_read_file('/proc/self/status');
BEGIN
	contexts := (SELECT sum(used_bytes) / 1024.0 FROM pg_backend_memory_contexts);
	rss := substring(status FROM 'VmRSS:\s+(\d+)');
	peak := substring(status FROM 'VmHWM:\s+(\d+)');
END
$$;

CREATE PROCEDURE measure_memory(ids integer)
LANGUAGE plpgsql
AS $$
DECLARE
	before record;
	after record;
BEGIN
	-- the first round warms up, and lasts long enough to write the mark, too
	FOR round IN 0 .. 1 LOOP
		before := session_memory();
		EXECUTE format('SELECT count(snowflake_nextval()) '
			'FROM (SELECT generate_series(1, %s)) AS numbers', ids);
		after := session_memory();
	END LOOP;
	-- the peak includes what a statement allocates and frees again
	INSERT INTO figure (measure, rival, round, value)
	VALUES ('memory contexts, growth (kB)', 'snowflake_nextval()', 0, after.contexts - before.contexts),
		('RSS, growth (kB)', 'snowflake_nextval()', 0, greatest(after.rss, after.peak) - before.rss);
	-- absent where the memory is dynamic, from 17 on
	INSERT INTO figure (measure, rival, round, value)
	SELECT 'shared memory (kB)', 'snowflake_nextval()', 0, allocated_size / 1024.0
	FROM pg_shmem_allocations
	WHERE name = 'snowflake';
END
$$;

CREATE FUNCTION rounded(value float8)
RETURNS numeric
IMMUTABLE
RETURN round(value::numeric, CASE WHEN value < 10 THEN 3 WHEN value < 1000 THEN 1 ELSE 0 END);

CREATE FUNCTION median_and_range(figures float8[])
RETURNS text
IMMUTABLE
RETURN (
	SELECT format(CASE WHEN count(*) > 1 THEN '%s (%s..%s)' WHEN count(*) = 1 THEN '%s' END,
		rounded(percentile_cont(0.5) WITHIN GROUP (ORDER BY value)),
		rounded(min(value)), rounded(max(value)))
	FROM unnest(figures) AS value
);

CREATE VIEW measured AS
SELECT this.measure, this.rival, median_and_range(array_agg(this.value)) AS figure,
	-- no ratio for growing tables: their figures were taken minutes apart
	CASE WHEN this.rival !~ 'snowflake' AND this.measure !~ '^growing' THEN
		median_and_range(array_agg(ours.value / nullif(this.value, 0))) END AS "snowflake / this"
FROM figure AS this
	JOIN figure AS ours ON ours.measure = this.measure AND ours.round = this.round
		AND ours.rival ~ 'snowflake'
GROUP BY this.measure, this.rival
ORDER BY min(min(this.number)) OVER (PARTITION BY this.measure), min(this.number);

-- as doc/performance.md has them
CREATE VIEW ratios AS
SELECT format('| %s | %s |', ratio.name, coalesce(median_and_range(array_agg(this.value / base.value)), 'not measured'))
FROM ratio
	LEFT JOIN figure AS this ON this.measure = ratio.measure AND this.rival = ratio.rival
	LEFT JOIN figure AS base ON base.measure = ratio.base_measure AND base.rival = ratio.base_rival AND base.round = this.round
GROUP BY ratio.number, ratio.name
ORDER BY ratio.number;

\pset format unaligned
\pset tuples_only
-- Random ids of random layouts: decoding gives the fields that plain arithmetic gives,
-- and composing them gives the id again.  Any output is a case that failed, with all
-- that is needed to repeat it.

-- Fields in random order with random bits, at most 63 in total, at least one of them
-- for time; any tick; any epoch that leaves room for the ids in timestamptz.
CREATE FUNCTION random_layout(layout_id int, OUT layout text, OUT names text[], OUT bits int[],
	OUT tick_us bigint, OUT epoch_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	room int := 62;
	name text;
	width int;
BEGIN
	names := '{}';
	bits := '{}';
	FOR name IN
		SELECT n FROM unnest('{datacenter,worker,timeline,lane,sequence,tag}'::text[]) AS n
		WHERE random() < 0.8 ORDER BY random()
	LOOP
		width := floor(random() * (least(room, CASE WHEN random() < 0.1 THEN 31 ELSE 12 END) + 1));
		names := names || name;
		bits := bits || width;
		room := room - width;
	END LOOP;
	names := 'time'::text || names;
	bits := least(1 + floor(random() * (room + 1)), 62)::int || bits;
	tick_us := (ARRAY[1, 10, 1000, 10000, 1000000, 1 + floor(random() * 1000000)])[1 + floor(random() * 6)];
	epoch_ms := floor(random() * 4e12 - 2e12);
	layout := (SELECT string_agg(n || ':' || b, ' ' ORDER BY i)
			   FROM unnest(names, bits) WITH ORDINALITY AS f(n, b, i)) ||
		' tick:' || tick_us || 'us epoch:' || epoch_ms;
END $$;

-- 2,000 layouts with 60 ids each, the smallest and the largest among them
CREATE TABLE layouts AS
SELECT i AS layout_id, r.* FROM generate_series(1, 2000) AS i, random_layout(i) AS r;

CREATE TABLE cases AS
SELECT layout_id, layout, id
FROM layouts,
	LATERAL (SELECT snowflake_compose(last_instant, layout) AS top
			 FROM snowflake_capacity(layout)) AS c,
	LATERAL (SELECT (SELECT sum(b) FROM unnest(bits[2:]) AS b) AS low) AS s,
	LATERAL (SELECT top | ((1::bigint << coalesce(low, 0)::int) - 1) AS largest) AS m,
	LATERAL (
		SELECT 0 AS id
		UNION ALL SELECT largest
		UNION ALL
		SELECT least(largest, floor(random() * power(2, 62 * random()))::bigint)
		FROM generate_series(1, 30)
		UNION ALL
		-- all low bits random as well, which a double does not have
		SELECT least(largest, ((floor(random() * 2 ^ 32)::bigint << 31) # floor(random() * 2 ^ 32)::bigint) &
			((1::bigint << floor(random() * 63)::int) - 1))
		FROM generate_series(1, 28)
	) AS ids
WHERE id <= largest;

SELECT count(*) >= 100000 AS enough, count(DISTINCT layout) >= 1900 AS varied FROM cases;

-- composing is the inverse
SELECT c.layout, c.id, composed
FROM cases AS c, snowflake_decode(c.id, c.layout) AS d,
	snowflake_compose(d.generated_at, c.layout, d.datacenter_id, d.worker_id, d.timeline,
		d.lane, d.sequence, d.tag) AS composed
WHERE composed IS DISTINCT FROM c.id;

-- the fields, by arithmetic (in the far future, extract() is exact for an interval, but
-- not for a timestamp)
WITH fields AS (
	SELECT layout_id, name, (2::numeric ^ shift)::bigint AS low, (2::numeric ^ bits)::bigint AS size
	FROM (
		SELECT layout_id, f.name, f.bits,
			sum(f.bits) OVER (PARTITION BY layout_id ORDER BY f.i DESC) - f.bits AS shift
		FROM layouts, unnest(names, bits) WITH ORDINALITY AS f(name, bits, i)
		OFFSET 0
	) AS s
	WHERE bits > 0 AND shift < 63
	OFFSET 0
), decoded AS MATERIALIZED (
	SELECT c.*, d.* FROM cases AS c, snowflake_decode(c.id, c.layout) AS d
)
SELECT d.layout_id, d.layout, d.id, f.name, d.id / f.low % f.size AS value
FROM decoded AS d JOIN fields AS f USING (layout_id) JOIN layouts AS l USING (layout_id)
WHERE d.id / f.low % f.size IS DISTINCT FROM
	CASE f.name
		WHEN 'time' THEN (extract(epoch FROM d.generated_at - '2000-01-01 00:00Z') * 1000000
			+ 946684800000000 - l.epoch_ms * 1000) / l.tick_us
		WHEN 'datacenter' THEN d.datacenter_id
		WHEN 'worker' THEN d.worker_id
		WHEN 'timeline' THEN d.timeline
		WHEN 'lane' THEN d.lane
		WHEN 'sequence' THEN d.sequence
		WHEN 'tag' THEN d.tag
	END;

-- a field is NULL if and only if the layout lacks it
SELECT c.layout, c.id, d
FROM cases AS c JOIN layouts AS l USING (layout_id), snowflake_decode(c.id, c.layout) AS d
WHERE num_nulls(d.datacenter_id, d.worker_id, d.timeline, d.lane, d.sequence, d.tag) <>
	7 - (SELECT count(*) FROM unnest(l.bits) AS b WHERE b > 0);

-- the number after the largest id is not an id
CREATE FUNCTION is_refused(id bigint, layout text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM snowflake_decode(id, layout);
	RETURN false;
EXCEPTION WHEN numeric_value_out_of_range THEN
	RETURN true;
END $$;
SELECT layout, largest
FROM (SELECT layout, max(id) AS largest FROM cases GROUP BY layout) AS m
WHERE largest < 9223372036854775807 AND NOT is_refused(largest + 1, layout);

DROP FUNCTION random_layout, is_refused;
DROP TABLE cases, layouts;

\pset format unaligned
\pset tuples_only
-- Known answers: ids published elsewhere, with their meaning
\getenv abs_srcdir PG_ABS_SRCDIR
\set file :abs_srcdir '/data/vectors.csv'
CREATE TABLE vectors (
	layout text,
	id bigint,
	generated_at timestamptz,
	datacenter_id int,
	worker_id int,
	timeline int,
	lane int,
	sequence int,
	tag int,
	source text
);
-- the client reads the file; \copy itself expands no variables
\set copy_file '\\copy vectors FROM ' :'file' ' CSV HEADER'
:copy_file
SELECT count(*) FROM vectors;

-- each must decode to its fields
SELECT v.*, d.*
FROM vectors AS v, snowflake_decode(v.id, v.layout) AS d
WHERE (v.generated_at, v.datacenter_id, v.worker_id, v.timeline, v.lane, v.sequence, v.tag)
	IS DISTINCT FROM
	(d.generated_at, d.datacenter_id, d.worker_id, d.timeline, d.lane, d.sequence, d.tag);

-- and compose back
SELECT *
FROM vectors
WHERE id IS DISTINCT FROM
	snowflake_compose(generated_at, layout, datacenter_id, worker_id, timeline, lane, sequence, tag);

DROP TABLE vectors;

-- Replace keys that uuidv7() or a program has made by snowflake ids of the same times, in the same
-- order.  The old key stays as a second, unique column.  Copy this file, put in your own names, and
-- leave out the example: a table, and another one that refers to it.
--
-- The first 48 bits of such a key are milliseconds since 1970; row_number() tells apart the keys of
-- one millisecond.  Before you begin, choose a layout with a tick of 1 ms and an epoch before the
-- oldest key, and a worker id that no server has, here 31.  Both tables are locked for as long as
-- the updates take; for large ones, large_table.sql shows how to fill new columns in batches.
--
-- A comment after a statement is the answer that t/012_guide.pl expects.

CREATE TABLE documents (id uuid PRIMARY KEY, title text);
CREATE TABLE pages (number int, document_id uuid NOT NULL REFERENCES documents);
INSERT INTO documents VALUES ('019ca6b1-dc00-7001-8000-000000000000', 'first'),
	('019ca6b1-dc00-7002-8000-000000000000', 'second'), ('019ca6b1-dc01-7000-8000-000000000000', 'third');
INSERT INTO pages SELECT 1, id FROM documents WHERE title <> 'first';

BEGIN;
LOCK TABLE documents, pages IN ACCESS EXCLUSIVE MODE;
ALTER TABLE documents ADD new_id bigint;
UPDATE documents
SET new_id = snowflake_compose(to_timestamp(ms / 1000.0), worker_id => 31, lane => n / 4096, sequence => n % 4096)
FROM (
	SELECT id AS key, ms, (row_number() OVER (PARTITION BY ms ORDER BY id))::int - 1 AS n
	FROM documents,
		LATERAL (SELECT ('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint AS ms) AS time
) AS numbered
WHERE id = key;

ALTER TABLE pages ADD new_document_id bigint;
UPDATE pages SET new_document_id = new_id FROM documents WHERE documents.id = document_id;
-- with its foreign key and its indexes
ALTER TABLE pages DROP document_id;
ALTER TABLE pages RENAME new_document_id TO document_id;

ALTER TABLE documents DROP CONSTRAINT documents_pkey;
ALTER TABLE documents RENAME id TO uuid;
ALTER TABLE documents RENAME new_id TO id;
ALTER TABLE documents ADD PRIMARY KEY (id), ADD UNIQUE (uuid), ALTER uuid DROP NOT NULL;
ALTER TABLE pages ALTER document_id SET NOT NULL, ADD FOREIGN KEY (document_id) REFERENCES documents;
ALTER TABLE documents ALTER id SET DEFAULT snowflake_id();
COMMIT;

INSERT INTO documents (title) VALUES ('new');
SELECT string_agg(title, ' ' ORDER BY id) FROM documents;    -- first second third new
SELECT snowflake_timestamp(id) AT TIME ZONE 'UTC' FROM documents WHERE title = 'third';    -- 2026-03-01 00:00:00.001
SELECT string_agg(title, ' ' ORDER BY id) FROM documents JOIN pages ON document_id = id;    -- second third

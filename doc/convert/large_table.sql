-- psql --file=large_table.sql shop
--
-- Change accounts.id from a serial to a bigint with snowflake ids, and widen the columns that
-- refer to it, entries.account_id and notes.account_id, while clients read and write all three
-- tables.  Copy this file and put your own names into it.  Run it until it ends without an
-- error.  You may interrupt it at any point: the next run skips the steps that are done.
--
-- Before you begin:
--
-- - If clients wait too long for rows, make the batches smaller.
-- - The updates fire your triggers.  To prevent that, set session_replication_role to replica by
--   PGOPTIONS, as the owner of the tables, to whom a superuser has granted SET ON PARAMETER
--   session_replication_role.  Do not run this as a superuser: the updates run the functions in
--   CHECK constraints and index expressions with the rights of that role.
-- - The new column comes last in the table.  This matters to SELECT *, and to an INSERT without a
--   list of columns.
-- - A prepared statement that returns the column fails once the type has changed.  Many drivers
--   prepare it again by themselves; reconnect the others.
-- - Views, policies, generated columns and other objects that depend on an old column must be
--   dropped and created again, with their privileges, in step 5.  An error lists those that you
--   forgot.  Privileges on the column itself, and indexes and CHECK constraints that you did not
--   copy, are lost without an error.
-- - Partitioned tables have no CREATE INDEX CONCURRENTLY, so this cannot convert them.
--
-- The example:
--
--	CREATE TABLE accounts (id serial PRIMARY KEY, owner text);
--	CREATE TABLE entries (id bigserial PRIMARY KEY,
--		account_id integer NOT NULL REFERENCES accounts ON DELETE CASCADE, amount numeric NOT NULL);
--	CREATE INDEX ON entries (account_id);
--	CREATE TABLE notes (id bigserial PRIMARY KEY,
--		account_id integer REFERENCES accounts ON DELETE SET NULL, note text);
--	CREATE VIEW balances AS
--		SELECT accounts.id, sum(amount) AS balance
--		FROM accounts LEFT JOIN entries ON account_id = accounts.id GROUP BY accounts.id;

\set ON_ERROR_STOP on

-- Clients queue behind a statement that waits for a lock.  Keep the sum of the waits in a step
-- below deadlock_timeout, so that a deadlock ends this session instead of a client.  To avoid
-- deadlocks, steps 1, 4 and 5 lock views first, and then the tables in the order in which clients
-- use them: if clients often write to entries before accounts, put entries first.
\set brief '''200ms'''

SELECT atttypid = 'bigint'::regtype AS swapped
FROM pg_attribute WHERE attrelid = 'accounts'::regclass AND attname = 'id' \gset
\if :swapped
	\echo accounts.id is a bigint already
	\quit
\endif

SELECT count(*) = 3 AS prepared, count(*) FILTER (WHERE convalidated) = 3 AS filled
FROM pg_constraint
WHERE conname IN ('accounts_new_id', 'entries_new_account_id', 'notes_new_account_id')
	AND conrelid IN ('accounts'::regclass, 'entries'::regclass, 'notes'::regclass) \gset

--
-- 1. Add new columns, with triggers that keep them in step with the old ones.  From here on, the
-- CHECK constraints reject any row whose columns differ.
--
\if :prepared
\else
SET lock_timeout = :brief;
BEGIN;
LOCK TABLE accounts, entries, notes IN ACCESS EXCLUSIVE MODE;
-- no default, so that no row is rewritten
ALTER TABLE accounts ADD COLUMN new_id bigint;
ALTER TABLE entries ADD COLUMN new_account_id bigint;
ALTER TABLE notes ADD COLUMN new_account_id bigint;

CREATE FUNCTION follow_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.new_id := NEW.id;
	RETURN NEW;
END
$$;
CREATE FUNCTION follow_account_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.new_account_id := NEW.account_id;
	RETURN NEW;
END
$$;
-- triggers fire in the order of their names, and these have to come last
CREATE TRIGGER zz_follow BEFORE INSERT OR UPDATE ON accounts
FOR EACH ROW EXECUTE FUNCTION follow_id();
CREATE TRIGGER zz_follow BEFORE INSERT OR UPDATE ON entries
FOR EACH ROW EXECUTE FUNCTION follow_account_id();
CREATE TRIGGER zz_follow BEFORE INSERT OR UPDATE ON notes
FOR EACH ROW EXECUTE FUNCTION follow_account_id();
-- fire for the rows of a subscription, too, which would violate the constraints otherwise
ALTER TABLE accounts ENABLE ALWAYS TRIGGER zz_follow;
ALTER TABLE entries ENABLE ALWAYS TRIGGER zz_follow;
ALTER TABLE notes ENABLE ALWAYS TRIGGER zz_follow;

-- IS NOT NULL spares SET NOT NULL a scan of the table in step 5
ALTER TABLE accounts ADD CONSTRAINT accounts_new_id
	CHECK (new_id IS NOT NULL AND new_id = id) NOT VALID;
ALTER TABLE entries ADD CONSTRAINT entries_new_account_id
	CHECK (new_account_id IS NOT NULL AND new_account_id = account_id) NOT VALID;
ALTER TABLE notes ADD CONSTRAINT notes_new_account_id
	CHECK (new_account_id IS NOT DISTINCT FROM account_id) NOT VALID;
COMMIT;
\endif

-- Up to the foreign keys, no statement locks out clients, so each may wait for its locks.
SET lock_timeout = 0;

--
-- 2. Fill the old rows, in batches of 10,000, each in a transaction of its own.  A batch skips
-- rows that clients have locked, because waiting for them could end in a deadlock.  Fill those one
-- by one afterwards.
--
\if :filled
\else
SELECT format('UPDATE accounts SET new_id = id WHERE id = ANY (ARRAY('
	'SELECT id FROM accounts WHERE id BETWEEN %s AND %s FOR NO KEY UPDATE SKIP LOCKED))', min(id), max(id))
FROM (
	SELECT id, (row_number() OVER (ORDER BY id) - 1) / 10000 AS batch
	FROM accounts WHERE new_id IS NULL) AS unfilled
GROUP BY batch ORDER BY batch \gexec
SELECT format('UPDATE accounts SET new_id = id WHERE id = %s', id)
FROM accounts WHERE new_id IS NULL \gexec

SELECT format('UPDATE entries SET new_account_id = account_id WHERE id = ANY (ARRAY('
	'SELECT id FROM entries WHERE id BETWEEN %s AND %s FOR NO KEY UPDATE SKIP LOCKED))', min(id), max(id))
FROM (
	SELECT id, (row_number() OVER (ORDER BY id) - 1) / 10000 AS batch
	FROM entries WHERE new_account_id IS NULL) AS unfilled
GROUP BY batch ORDER BY batch \gexec
SELECT format('UPDATE entries SET new_account_id = account_id WHERE id = %s', id)
FROM entries WHERE new_account_id IS NULL \gexec

SELECT format('UPDATE notes SET new_account_id = account_id WHERE id = ANY (ARRAY('
	'SELECT id FROM notes WHERE id BETWEEN %s AND %s FOR NO KEY UPDATE SKIP LOCKED))', min(id), max(id))
FROM (
	SELECT id, (row_number() OVER (ORDER BY id) - 1) / 10000 AS batch
	FROM notes WHERE new_account_id IS DISTINCT FROM account_id) AS unfilled
GROUP BY batch ORDER BY batch \gexec
SELECT format('UPDATE notes SET new_account_id = account_id WHERE id = %s', id)
FROM notes WHERE new_account_id IS DISTINCT FROM account_id \gexec

-- the planner needs statistics on the new columns as soon as they are in use
VACUUM (ANALYZE) accounts, entries, notes;

-- check that no row was left out
ALTER TABLE accounts VALIDATE CONSTRAINT accounts_new_id;
ALTER TABLE entries VALIDATE CONSTRAINT entries_new_account_id;
ALTER TABLE notes VALIDATE CONSTRAINT notes_new_account_id;
\endif

--
-- 3. Create the index of the key, and a copy of each index that has one of the columns.  If a
-- build was interrupted, its index is invalid and has to be dropped first.
--
SELECT format('DROP INDEX CONCURRENTLY %s', indexrelid::regclass)
FROM pg_index
WHERE NOT indisvalid AND indexrelid IN (to_regclass('accounts_new_id_key'), to_regclass('entries_new_account_id_idx')) \gexec
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS accounts_new_id_key ON accounts (new_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS entries_new_account_id_idx ON entries (new_account_id);

--
-- 4. Add foreign keys with the same actions.  Keep the old ones until the end: their ON DELETE
-- SET NULL and ON UPDATE CASCADE change the old columns, and the triggers copy that to the new
-- columns.
--
SELECT count(*) = 2 AS linked FROM pg_constraint
WHERE conname IN ('entries_new_account_id_fkey', 'notes_new_account_id_fkey')
	AND confrelid = 'accounts'::regclass \gset
\if :linked
\else
SET lock_timeout = :brief;
BEGIN;
LOCK TABLE accounts, entries, notes IN SHARE ROW EXCLUSIVE MODE;
ALTER TABLE entries ADD CONSTRAINT entries_new_account_id_fkey
	FOREIGN KEY (new_account_id) REFERENCES accounts (new_id) ON DELETE CASCADE NOT VALID;
ALTER TABLE notes ADD CONSTRAINT notes_new_account_id_fkey
	FOREIGN KEY (new_account_id) REFERENCES accounts (new_id) ON DELETE SET NULL NOT VALID;
COMMIT;
SET lock_timeout = 0;
\endif
ALTER TABLE entries VALIDATE CONSTRAINT entries_new_account_id_fkey;
ALTER TABLE notes VALIDATE CONSTRAINT notes_new_account_id_fkey;

--
-- 5. Swap the columns, which changes only catalogs.  If anything else depends on an old column,
-- the error of its DROP COLUMN lists it, and nothing is changed.
--
SET lock_timeout = :brief;
BEGIN;
DROP VIEW balances;
LOCK TABLE accounts, entries, notes IN ACCESS EXCLUSIVE MODE;
DROP TRIGGER zz_follow ON accounts;
DROP TRIGGER zz_follow ON entries;
DROP TRIGGER zz_follow ON notes;
DROP FUNCTION follow_id, follow_account_id;

ALTER TABLE entries ALTER COLUMN new_account_id SET NOT NULL;
ALTER TABLE entries DROP COLUMN account_id;
ALTER TABLE entries RENAME COLUMN new_account_id TO account_id;
ALTER TABLE entries RENAME CONSTRAINT entries_new_account_id_fkey TO entries_account_id_fkey;
ALTER INDEX entries_new_account_id_idx RENAME TO entries_account_id_idx;

ALTER TABLE notes DROP COLUMN account_id;
ALTER TABLE notes RENAME COLUMN new_account_id TO account_id;
ALTER TABLE notes RENAME CONSTRAINT notes_new_account_id_fkey TO notes_account_id_fkey;

-- DROP COLUMN also drops the sequence of the serial
ALTER TABLE accounts ALTER COLUMN new_id SET NOT NULL;
ALTER TABLE accounts DROP COLUMN id;
ALTER TABLE accounts RENAME COLUMN new_id TO id;
ALTER TABLE accounts ADD CONSTRAINT accounts_pkey PRIMARY KEY USING INDEX accounts_new_id_key;
ALTER TABLE accounts ALTER COLUMN id SET DEFAULT snowflake_id();

CREATE VIEW balances AS
	SELECT accounts.id, sum(amount) AS balance
	FROM accounts LEFT JOIN entries ON account_id = accounts.id GROUP BY accounts.id;
-- grant its privileges again: GRANT SELECT ON balances TO ...
COMMIT;

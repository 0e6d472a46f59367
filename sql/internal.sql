-- The function that COPY calls instead of snowflake_nextval() refuses other callers.
-- Minor releases of PostgreSQL differ in the error, hence two expected files.
\set VERBOSITY sqlstate
SELECT snowflake_internal.nextval_batch(NULL);
SELECT snowflake_internal.nextval_support(NULL);

-- An extension that is newer than the library: its functions have more columns
\set VERBOSITY default
CREATE FUNCTION newer_layout(OUT a text, OUT b int, OUT c int, OUT d bigint, OUT e bigint) RETURNS SETOF record
AS '$libdir/snowflake', 'snowflake_layout' LANGUAGE C;
SELECT * FROM newer_layout();
CREATE FUNCTION newer_capacity(OUT a text, OUT b interval, OUT c timestamptz, OUT d timestamptz, OUT e bigint, OUT f int, OUT g bigint, OUT h bigint)
AS '$libdir/snowflake', 'snowflake_capacity' LANGUAGE C;
SELECT * FROM newer_capacity();
DROP FUNCTION newer_layout(), newer_capacity();

-- The function that COPY calls instead of snowflake_nextval() refuses other callers.
-- Minor releases of PostgreSQL differ in the error, hence two expected files.
\set VERBOSITY sqlstate
SELECT snowflake_internal.nextval_batch(NULL);
SELECT snowflake_internal.nextval_support(NULL);

-- What COPY calls in the place of snowflake_nextval() is not for others.  Minor
-- releases of PostgreSQL refuse it with different errors, hence two expected files.
\set VERBOSITY sqlstate
SELECT snowflake_internal.nextval_batch(NULL);
SELECT snowflake_internal.nextval_support(NULL);

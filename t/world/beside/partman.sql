-- pg_partman encodes times only in keys of text and uuid; see pg_partman.sql for what
-- works.
CREATE SCHEMA partman;
CREATE EXTENSION pg_partman SCHEMA partman;
CREATE TABLE public.events (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval()
) PARTITION BY RANGE (id);
SELECT pg_temp.check('p_time_encoder refuses a bigint',
	pg_temp.error_of($$SELECT partman.create_parent('public.events', 'id', p_interval := '1 day',
		p_time_encoder := 'public.snowflake_first_from', p_time_decoder := 'public.snowflake_timestamp')$$) LIKE 'P0001 p_time_encoder and p_time_decoder can only be used with text/uuid%');

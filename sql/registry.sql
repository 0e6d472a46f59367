\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only
\set VERBOSITY terse
SET TimeZone = 'UTC';
CREATE EXTENSION snowflake_registry;
-- A promotion is noticed even before the first lease
SELECT history = snowflake_registry.own_history() AS is_known FROM snowflake_registry.registry;
-- leases in these tests expire only where they are made to
UPDATE snowflake_registry.registry SET max_lease = '1 day';

\set layout '''time:41 worker:2 sequence:12 tick:1ms epoch:2026-01-01T00:00:00Z'''
\set a '''00000000-0000-0000-0000-00000000000a'''
\set b '''00000000-0000-0000-0000-00000000000b'''
\set c '''00000000-0000-0000-0000-00000000000c'''
\set d '''00000000-0000-0000-0000-00000000000d'''
CREATE FUNCTION lease_ends(id bigint, at timestamptz) RETURNS void LANGUAGE sql AS
$$ UPDATE snowflake_registry.lease SET starts = '-infinity', ends = at WHERE worker_id = id $$;
CREATE FUNCTION soon(at timestamptz) RETURNS boolean LANGUAGE sql AS
$$ SELECT abs(extract(epoch FROM at - clock_timestamp())) < 10 $$;

-- Each holder gets a worker id of its own
SELECT worker_id, starts, soon(ends - interval '1 hour') FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 hour');
SELECT worker_id, starts FROM snowflake_registry.acquire('b', :b, :layout, 4, clock_timestamp(), '1 hour');
-- even a clone with the same name
SELECT worker_id FROM snowflake_registry.acquire('b', :c, :layout, 4, clock_timestamp(), '1 hour');
-- a worker id is reserved by hand
SELECT snowflake_registry.reserve(3, 'the old server') \g /dev/null
SELECT worker_id, holder, state, reserved FROM snowflake_registry.leases ORDER BY worker_id;
SELECT * FROM snowflake_registry.acquire('d', :d, :layout, 4, clock_timestamp(), '1 hour');
\set VERBOSITY sqlstate
SELECT snowflake_registry.reserve(0, 'in use') \g /dev/null
\set VERBOSITY default

-- A renewal extends the lease, for a holder that knows when it ends
SELECT ends AS old_end FROM snowflake_registry.lease WHERE worker_id = 0 \gset
SELECT snowflake_registry.renew(0, :a, :'old_end', clock_timestamp(), '2 hours') AS new_end \gset
SELECT soon(:'new_end'::timestamptz - interval '2 hours');
-- but not for a holder that does not know, nor for another one, nor for another worker
-- id
SELECT snowflake_registry.renew(0, :a, :'old_end', clock_timestamp(), '2 hours');
SELECT snowflake_registry.renew(0, :b, :'new_end', clock_timestamp(), '2 hours');
SELECT snowflake_registry.renew(1, :a, :'new_end', clock_timestamp(), '2 hours');
-- it never shortens the lease
SELECT snowflake_registry.renew(0, :a, :'new_end', clock_timestamp(), '1 minute') = :'new_end' AS same;
-- a holder whose clock is behind gets less; one whose clock is ahead, no more than by 10 s
SELECT snowflake_registry.renew(0, :a, :'new_end', clock_timestamp() - interval '5 hours', '2 hours') = :'new_end' AS same;
SELECT snowflake_registry.renew(0, :a, :'new_end', '2090-01-01', '2 hours') AS new_end \gset
SELECT soon(:'new_end'::timestamptz - interval '2 hours 10 seconds');
SELECT snowflake_registry.acquire('d', :d, :layout, 4, '2090-01-01', '2 hours');

-- A released worker id can be leased from where its holder stopped
SELECT snowflake_registry.release(0, :b, clock_timestamp()) \g /dev/null
SELECT clock_timestamp() AS stopped \gset
SELECT snowflake_registry.release(0, :a, :'stopped') \g /dev/null
SELECT snowflake_registry.renew(0, :a, :'new_end', clock_timestamp(), '2 hours');
SELECT worker_id, starts = :'stopped' AS starts FROM snowflake_registry.acquire('d', :d, :layout, 4, clock_timestamp(), '1 hour');
-- or from the end of the lease, if the holder did not say
SELECT ends AS old_end FROM snowflake_registry.lease WHERE worker_id = 0 \gset
SELECT snowflake_registry.release(0, :d, NULL) \g /dev/null
SELECT worker_id, starts = :'old_end' AS starts, ends > :'old_end'::timestamptz + interval '59 minutes' AS ends
FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 hour');

-- An expired lease goes to another holder; the previous one has lost it
SELECT lease_ends(1, clock_timestamp() - interval '1 second');
SELECT ends AS old_end FROM snowflake_registry.lease WHERE worker_id = 1 \gset
SELECT worker_id, starts = :'old_end' AS starts FROM snowflake_registry.acquire('e', :d, :layout, 4, clock_timestamp(), '1 hour');
SELECT snowflake_registry.renew(1, :b, :'old_end', clock_timestamp(), '1 hour');
-- if no other took it, the holder may continue
SELECT lease_ends(1, clock_timestamp() - interval '1 second');
SELECT ends AS old_end FROM snowflake_registry.lease WHERE worker_id = 1 \gset
SELECT soon(snowflake_registry.renew(1, :d, :'old_end', clock_timestamp(), '1 hour') - interval '1 hour');

-- Worker ids that are free by the holder's clock come first; among them, those it had
-- before
SELECT snowflake_registry.release(0, :a, clock_timestamp() - interval '3 hours'), snowflake_registry.release(1, :d, clock_timestamp() - interval '1 hour'), snowflake_registry.release(2, :c, clock_timestamp()) \g /dev/null
SELECT lease_ends(0, clock_timestamp() - interval '3 hours'), lease_ends(1, clock_timestamp() - interval '1 hour');
SELECT worker_id FROM snowflake_registry.acquire('e', :a, :layout, 4, clock_timestamp(), '1 hour');
SELECT snowflake_registry.release(1, :a, clock_timestamp()) \g /dev/null
SELECT worker_id FROM snowflake_registry.acquire('e', :a, :layout, 4, clock_timestamp() - interval '2 hours', '1 hour');
SELECT worker_id FROM snowflake_registry.acquire('b', :b, :layout, 4, clock_timestamp(), '1 hour');
SELECT snowflake_registry.release(0, :a, clock_timestamp()), snowflake_registry.release(2, :b, clock_timestamp()) \g /dev/null

-- A worker id that was reserved can be leased again, above the ids that were made with
-- it
SELECT snowflake_registry.unreserve(3, clock_timestamp() + interval '1 hour') \g /dev/null
SELECT snowflake_registry.unreserve(3, clock_timestamp()) \g /dev/null
SELECT worker_id, state FROM snowflake_registry.leases ORDER BY worker_id;
SELECT count(DISTINCT worker_id) FROM generate_series(1, 4) AS i, snowflake_registry.acquire('n' || i, gen_random_uuid(), :layout, 4, clock_timestamp(), '1 hour');

-- After a promotion, or from a restored backup, grants may be lost: no holder
-- continues, and all leases begin above what could have been granted
UPDATE snowflake_registry.registry SET max_lease = '2 seconds', max_clock_lead = '2 seconds', history = 'another/00000001';
UPDATE snowflake_registry.registry SET former_reach = '0';
SELECT lease_ends(id, clock_timestamp()) FROM generate_series(0, 3) AS id;
SELECT worker_id AS id, instance, ends FROM snowflake_registry.lease WHERE worker_id = 2 \gset
SELECT snowflake_registry.renew(:id, :'instance', :'ends', clock_timestamp(), '1 second');
SELECT count(*) FROM snowflake_registry.leases WHERE state = 'held';
SELECT clock_timestamp() AS promoted \gset
-- these would end too late for another promotion now
SELECT * FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 second');
DO $$
BEGIN
	WHILE clock_timestamp() < (SELECT lost_until - max_lease - max_clock_lead + '100 ms' FROM snowflake_registry.registry) LOOP
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT worker_id, starts > :'promoted'::timestamptz + interval '2 seconds' AS starts, ends > starts AS ends
FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 second');
-- with synchronous standbys no grants are lost
UPDATE snowflake_registry.registry SET asynchronous_standbys = false, lost_until = '-infinity', history = 'another/00000001';
SELECT worker_id FROM snowflake_registry.acquire('b', :b, :layout, 4, clock_timestamp(), '1 second');
SELECT lost_until FROM snowflake_registry.registry;
UPDATE snowflake_registry.registry SET max_lease = '1 day';
\set VERBOSITY sqlstate

-- Another layout and invalid arguments are refused
\set VERBOSITY default
SELECT snowflake_registry.acquire('d', :d, :layout, 8, clock_timestamp(), '1 hour');
-- but not one that divides the lowest bits in another way
SELECT layout, snowflake_registry.fields_of_servers(layout) FROM unnest(ARRAY[:layout,
	'time:41 worker:2 lane:2 sequence:10 tick:1ms epoch:2026-01-01T00:00:00Z', 'time:41 worker:2 sequence:8 tag:4 tick:1ms', 'time:41 worker:2 sequence:12 tick:1ms epoch:0',
	'time:41 lane:2 worker:2 sequence:12 tick:1ms', 'time:39 sequence:8 worker:16 tick:10ms', 'time:41 worker:2 tick:1ms']) AS layout;
\set VERBOSITY sqlstate
SELECT snowflake_registry.acquire('d', :d, 'time:41 worker:2 lane:2 sequence:11 tick:1ms epoch:2026-01-01T00:00:00Z', 4, clock_timestamp(), '1 hour');
SELECT count(*) FROM snowflake_registry.acquire('d', :d, 'time:41 worker:2 lane:2 sequence:10 tick:1ms epoch:2026-01-01T00:00:00Z', 4, clock_timestamp(), '1 second');
SELECT snowflake_registry.acquire('d', :d, 'twitter', 1024, clock_timestamp(), '1 hour');
SELECT snowflake_registry.acquire(NULL, :d, :layout, 4, clock_timestamp(), '1 hour');
SELECT snowflake_registry.acquire('d', :d, :layout, 4, clock_timestamp(), '0');
SELECT snowflake_registry.acquire('d', :d, :layout, 4, clock_timestamp(), '2 days');
SELECT snowflake_registry.acquire('d', :d, :layout, 4, NULL, '1 hour');
SELECT snowflake_registry.unreserve(3, NULL) \g /dev/null

-- Callers need only the privilege to call, and others may not call
CREATE ROLE regress_registry_server;
SET ROLE regress_registry_server;
SELECT snowflake_registry.acquire('d', :d, :layout, 4, clock_timestamp(), '1 hour');
RESET ROLE;
GRANT USAGE ON SCHEMA snowflake_registry TO regress_registry_server;
SET ROLE regress_registry_server;
SELECT snowflake_registry.acquire('d', :d, :layout, 4, clock_timestamp(), '1 hour');
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_registry.acquire TO regress_registry_server;
SET ROLE regress_registry_server;
SELECT worker_id IS NOT NULL AS leased FROM snowflake_registry.acquire('d', :d, :layout, 4, clock_timestamp(), '1 hour');
UPDATE snowflake_registry.lease SET ends = '-infinity';
SELECT snowflake_registry.reserve(0, 'x') \g /dev/null
RESET ROLE;
\set VERBOSITY default
DROP EXTENSION snowflake_registry;
DROP OWNED BY regress_registry_server;
DROP ROLE regress_registry_server;
DROP FUNCTION lease_ends, soon;

-- Restored settings replace settings that were not used, and their history shows that
-- grants may be missing; used settings stay
CREATE EXTENSION snowflake_registry;
INSERT INTO snowflake_registry.registry (layout, worker_ids, history) VALUES (:layout, 4, 'another/00000001');
SELECT layout, worker_ids, history FROM snowflake_registry.registry;
SELECT * FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 second');
SELECT lost_until > clock_timestamp() + interval '2 minutes' AS begins_above FROM snowflake_registry.registry;
\set VERBOSITY sqlstate
INSERT INTO snowflake_registry.registry DEFAULT VALUES;
\set VERBOSITY default

-- Grants are committed synchronously, whatever the session's setting
UPDATE snowflake_registry.registry SET lost_until = '-infinity';
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT worker_id IS NOT NULL AS leased FROM snowflake_registry.acquire('x', :b, :layout, 4, clock_timestamp(), '1 s');
SHOW synchronous_commit;
COMMIT;
-- and a warning that the wait for standbys was canceled reaches the server
BEGIN;
SET LOCAL client_min_messages = error;
SELECT worker_id IS NOT NULL AS leased FROM snowflake_registry.acquire('x', :d, :layout, 4, clock_timestamp(), '1 s');
SHOW client_min_messages;
COMMIT;
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT snowflake_registry.revoke_leases();
SHOW synchronous_commit;
ROLLBACK;
BEGIN;
SET LOCAL synchronous_commit = remote_apply;
SELECT worker_id IS NOT NULL AS leased FROM snowflake_registry.acquire('x', :c, :layout, 4, clock_timestamp(), '1 s');
SHOW synchronous_commit;
COMMIT;

-- Grants that are known to be lost, for example after a snapshot of the storage was
-- restored
UPDATE snowflake_registry.registry SET lost_until = '-infinity';
SELECT worker_id AS held, ends AS held_end FROM snowflake_registry.acquire('x', :a, :layout, 4, clock_timestamp(), '1 s') \gset
SELECT snowflake_registry.revoke_leases();
SELECT snowflake_registry.renew(:held, :a, :'held_end', clock_timestamp(), '1 s');
SELECT * FROM snowflake_registry.acquire('x', :a, :layout, 4, clock_timestamp(), '1 s');
SELECT lost_until > clock_timestamp() + interval '2 minutes' AS begins_above FROM snowflake_registry.registry;
-- They may have been granted under settings that were lowered since, unless they have
-- been revoked since
UPDATE snowflake_registry.registry SET max_lease = '1 day';
UPDATE snowflake_registry.registry SET max_lease = '2 minutes', lost_until = '-infinity';
SELECT snowflake_registry.revoke_leases();
SELECT lost_until > clock_timestamp() + interval '1 day' AS begins_above FROM snowflake_registry.registry;
UPDATE snowflake_registry.registry SET lost_until = '-infinity';
SELECT snowflake_registry.revoke_leases();
SELECT lost_until < clock_timestamp() + interval '3 minutes' AS no_further FROM snowflake_registry.registry;

-- A worker id cannot be reserved while ids may still be made with it: by a holder whose
-- lease was revoked or is lost
\set VERBOSITY sqlstate
SELECT snowflake_registry.reserve(:held, 'by hand') \g /dev/null
SELECT snowflake_registry.reserve(1000, 'by hand') \g /dev/null
UPDATE snowflake_registry.registry SET lost_until = '-infinity';
UPDATE snowflake_registry.lease SET starts = '-infinity', ends = clock_timestamp() + interval '1 hour' WHERE worker_id = :held;
SELECT snowflake_registry.reserve(:held, 'by hand') \g /dev/null
-- by one that released it, but whose ids are ahead of the clock
UPDATE snowflake_registry.lease SET instance = :a WHERE worker_id = :held;
SELECT snowflake_registry.release(:held, :a, clock_timestamp() + interval '30 minutes') \g /dev/null
SELECT snowflake_registry.reserve(:held, 'by hand') \g /dev/null
-- by one of which nothing is known after a promotion, until the leases are revoked and
-- have ended
UPDATE snowflake_registry.lease SET ends = clock_timestamp();
UPDATE snowflake_registry.registry SET history = 'another/00000001';
SELECT snowflake_registry.reserve(:held, 'by hand') \g /dev/null
SELECT snowflake_registry.revoke_leases();
SELECT snowflake_registry.reserve(:held, 'by hand') \g /dev/null
UPDATE snowflake_registry.registry SET lost_until = clock_timestamp();
SELECT snowflake_registry.reserve(:held, 'by hand'), snowflake_registry.reserve(1000, 'by hand') \g /dev/null
-- with synchronous standbys no leases are lost
UPDATE snowflake_registry.registry SET asynchronous_standbys = false, history = 'another/00000001';
SELECT snowflake_registry.reserve(1001, 'by hand') \g /dev/null
\set VERBOSITY default
-- A reservation is committed synchronously, too
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT snowflake_registry.reserve(1002, 'by hand') \g /dev/null
SHOW synchronous_commit;
COMMIT;
SELECT count(*) FROM snowflake_registry.leases WHERE worker_id IN (:held, 1000, 1001, 1002) AND state = 'reserved' AND reserved = 'by hand';

-- A day of max_lease has 24 hours, even if clocks are changed in it: to summer time, so
-- that a lost lease of 24 hours would not be covered, or back, so that a lease would be
-- longer than that
UPDATE snowflake_registry.registry SET max_lease = '4 days';
UPDATE snowflake_registry.registry SET former_reach = '0', lost_until = '-infinity';
DELETE FROM snowflake_registry.lease;
SELECT format('AAA0BBB,J%s/0,J%s/0', soon, half_a_year_later) AS to_summer,
	format('AAA0BBB,J%s/0,J%s/0', half_a_year_later, soon) AS back
FROM CAST(extract(doy FROM now() AT TIME ZONE 'UTC') AS integer) AS day,
	LATERAL (SELECT mod(day + 1, 365) + 1 AS soon, mod(day + 181, 365) + 1 AS half_a_year_later) AS days \gset
SET TimeZone = :'back';
SELECT now() + interval '4 days' = now() + interval '97 hours' AS is_25_hours;
SELECT ends <= clock_timestamp() + interval '96 hours' AS is_24_hours,
	snowflake_registry.renew(worker_id, :a, ends, clock_timestamp(), '4 days') <= clock_timestamp() + interval '96 hours' AS renewed
FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '4 days');
SET TimeZone = :'to_summer';
SELECT now() + interval '4 days' = now() + interval '95 hours' AS is_23_hours;
SELECT snowflake_registry.revoke_leases();
SELECT lost_until >= clock_timestamp() + interval '96 hours' AS is_24_hours FROM snowflake_registry.registry;
RESET TimeZone;

-- A registry whose clock is years ahead of what it has granted refuses everything, before
-- it notices a promotion, until its owner accepts the clock
DELETE FROM snowflake_registry.lease;
INSERT INTO snowflake_registry.lease (worker_id, ends, granted) VALUES (0, '-infinity', clock_timestamp() - interval '366 days');
UPDATE snowflake_registry.registry SET lost_until = '-infinity', history = 'other', asynchronous_standbys = true,
	clock_accepted = clock_timestamp() - interval '366 days';
\set VERBOSITY terse
SELECT count(*) FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 hour');
\set VERBOSITY sqlstate
SELECT snowflake_registry.renew(0, :a, '-infinity', clock_timestamp(), '1 hour');
SELECT snowflake_registry.reserve(1, 'by a wrong clock') \g /dev/null
SELECT snowflake_registry.revoke_leases();
SELECT lost_until FROM snowflake_registry.registry;
SELECT snowflake_registry.accept_clock() \g /dev/null
SELECT count(*) FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 hour');
SELECT lost_until > clock_timestamp() AS revoked FROM snowflake_registry.registry;
-- or until a lease has shown that time
UPDATE snowflake_registry.registry SET lost_until = '-infinity', clock_accepted = '-infinity';
UPDATE snowflake_registry.lease SET ends = '-infinity', granted = clock_timestamp() - interval '364 days';
SELECT count(*) FROM snowflake_registry.acquire('a', :a, :layout, 4, clock_timestamp(), '1 hour');
DROP EXTENSION snowflake_registry;

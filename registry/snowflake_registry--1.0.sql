/* snowflake/registry/snowflake_registry--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_registry" to load this file. \quit

-- This fails if the schema exists, because somebody else may own it.  The extension
-- itself is in pg_catalog, so that this script finds nothing that others planted.
CREATE SCHEMA snowflake_registry;

--
-- A lease of a worker id is a range of time in the ids: its holder may make ids
-- whose time is at or after the lease's start and before its end.  The next
-- lease of the same worker id starts where this one ends.  So no id is made
-- twice, whatever the clocks say and however late a holder notices anything:
--
--		Invariant.  The ranges granted for a worker id do not overlap.
--
-- Renewals move the end forward, until another holder leases the worker id.  When
-- a holder releases its lease, the end moves back to what it says that it has
-- used.  Clocks decide only when a worker id can be leased again.  By the clock
-- of this server, no lease ends later than max_clock_lead plus max_lease after it
-- was granted or renewed.  acquire(), renew() and revoke_leases() run in UTC: in
-- other time zones, a day of max_lease can have 23 or 25 hours.
--

-- A promotion, a restored backup or a restored dump changes it.
CREATE FUNCTION snowflake_registry.own_history()
RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%s/%s', system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))
	FROM pg_control_system()
$$;

CREATE TABLE snowflake_registry.registry (
	only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	layout text,
	worker_ids bigint CHECK (worker_ids > 0),
	max_lease interval NOT NULL DEFAULT '2 minutes' CHECK (max_lease > '0'),
	max_clock_lead interval NOT NULL DEFAULT '10 seconds' CHECK (max_clock_lead >= '0'),
	max_jump interval NOT NULL DEFAULT '365 days' CHECK (max_jump > '0'),
	asynchronous_standbys boolean NOT NULL DEFAULT true,
	former_reach interval NOT NULL DEFAULT '0',
	history text NOT NULL DEFAULT snowflake_registry.own_history(),
	lost_until timestamptz NOT NULL DEFAULT '-infinity',
	clock_accepted timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE snowflake_registry.registry IS
'the registry''s settings, in one row; layout and worker_ids are those of the first server';
COMMENT ON COLUMN snowflake_registry.registry.layout IS
'the layout of the first server; the registry refuses others, unless only lane, sequence and tag differ, in the bits below all other fields';
COMMENT ON COLUMN snowflake_registry.registry.worker_ids IS
'how many worker ids the layout has';
COMMENT ON COLUMN snowflake_registry.registry.max_lease IS
'the longest lease that is granted';
COMMENT ON COLUMN snowflake_registry.registry.max_clock_lead IS
'how far a server''s clock can be ahead of the registry''s; leases are granted as if it were ahead by no more';
COMMENT ON COLUMN snowflake_registry.registry.max_jump IS
'how far the registry''s clock can be ahead of the last grant or renewal; beyond that, the registry refuses all servers until accept_clock() is called';
COMMENT ON COLUMN snowflake_registry.registry.asynchronous_standbys IS
'whether grants might be missing after a promotion; false if all standbys are synchronous';
COMMENT ON COLUMN snowflake_registry.registry.former_reach IS
'how far ahead leases that were granted under former settings can end; 0 after leases were revoked';
COMMENT ON COLUMN snowflake_registry.registry.history IS
'system identifier and WAL timeline that the leases are known for; a promotion, a restored backup or a restored dump changes them';
COMMENT ON COLUMN snowflake_registry.registry.lost_until IS
'no lease starts before this, because grants up to here might have been lost';
COMMENT ON COLUMN snowflake_registry.registry.clock_accepted IS
'when the registry was created, or accept_clock() called last';

INSERT INTO snowflake_registry.registry DEFAULT VALUES;

CREATE FUNCTION snowflake_registry.keep_settings() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		-- a dump restores its own row, with its history, which replaces the one above
		DELETE FROM snowflake_registry.registry WHERE worker_ids IS NULL;
	ELSE
		-- leases that were granted before the settings were lowered may end later than these allow
		NEW.former_reach := greatest(OLD.former_reach, 2 * OLD.max_clock_lead + OLD.max_lease);
	END IF;
	RETURN NEW;
END
$$;

CREATE TRIGGER keep_settings BEFORE INSERT OR UPDATE OF max_lease, max_clock_lead ON snowflake_registry.registry
FOR EACH ROW EXECUTE FUNCTION snowflake_registry.keep_settings();

CREATE TABLE snowflake_registry.lease (
	worker_id bigint PRIMARY KEY CHECK (worker_id >= 0),
	holder text,
	address inet,
	instance uuid,
	since timestamptz,
	starts timestamptz NOT NULL DEFAULT '-infinity',
	ends timestamptz NOT NULL DEFAULT '-infinity',
	granted timestamptz,
	reserved text,
	CHECK (ends >= starts)
);

COMMENT ON TABLE snowflake_registry.lease IS
'a row for each worker id that was ever leased or reserved; do not delete rows, and do not lower ends';
COMMENT ON COLUMN snowflake_registry.lease.holder IS
'the name of the server that leased the worker id last';
COMMENT ON COLUMN snowflake_registry.lease.address IS
'the address of that server, as this server sees it';
COMMENT ON COLUMN snowflake_registry.lease.instance IS
'a token that the holder made up when it was started; NULL if nobody holds the lease';
COMMENT ON COLUMN snowflake_registry.lease.since IS
'when the worker id was leased last';
COMMENT ON COLUMN snowflake_registry.lease.starts IS
'the time of the holder''s ids is at or after this';
COMMENT ON COLUMN snowflake_registry.lease.ends IS
'the time of the holder''s ids is before this';
COMMENT ON COLUMN snowflake_registry.lease.granted IS
'when the lease was granted or renewed last, by the registry''s clock';
COMMENT ON COLUMN snowflake_registry.lease.reserved IS
'why the worker id was set aside by hand, in which case it is never leased; else NULL';

SELECT pg_catalog.pg_extension_config_dump('snowflake_registry.registry', '');
SELECT pg_catalog.pg_extension_config_dump('snowflake_registry.lease', '');

CREATE VIEW snowflake_registry.leases AS
SELECT worker_id, holder, address, since, starts, ends,
	CASE
		WHEN reserved IS NOT NULL THEN 'reserved'
		WHEN instance IS NULL THEN 'released'
		WHEN ends <= clock_timestamp() THEN 'expired'
		ELSE 'held'
	END AS state,
	reserved
FROM snowflake_registry.lease;

COMMENT ON VIEW snowflake_registry.leases IS
'all worker ids that were ever leased or reserved; nobody else can lease those that are held';

-- Begin a call that grants or takes away, for a lease of some duration or for an administrator;
-- one such call at a time if it locks.  Returns the settings.
CREATE FUNCTION snowflake_registry.begin_call(duration interval, locks boolean)
RETURNS snowflake_registry.registry
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC'
AS $$
DECLARE
	here timestamptz;
	known timestamptz;
	settings snowflake_registry.registry;
BEGIN
	-- a crash must not take it back
	IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	-- the caller must see whether the wait for standbys was canceled
	IF current_setting('client_min_messages') = 'error' THEN
		PERFORM set_config('client_min_messages', 'warning', true);
	END IF;
	-- Servers wait for a third of the lease, and 5 s at most.  Give up before they do, and
	-- ask again: a grant after that would be wasted, and would keep a connection.
	IF duration IS NOT NULL THEN
		PERFORM set_config('lock_timeout', greatest(1, least(4000, extract(epoch FROM duration) * 250))::integer::text, true);
	END IF;

	IF locks THEN
		PERFORM FROM snowflake_registry.registry FOR UPDATE;
	END IF;

	-- A clock that is years ahead would make leases that last for years, and keep others
	-- from starting before that.  The registry has no clock to compare its own with, but
	-- knows what it has granted.
	here := clock_timestamp();
	SELECT * INTO STRICT settings FROM snowflake_registry.registry;
	SELECT greatest(max(granted), settings.clock_accepted) INTO known FROM snowflake_registry.lease;
	IF here > known + settings.max_jump THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = 'clock of the registry jumped too far ahead',
			DETAIL = format('It says %s, and the last lease was granted at %s. max_jump is %s.',
				here, known, settings.max_jump),
			HINT = 'Correct the clock. If it is right, call snowflake_registry.accept_clock().';
	END IF;
	RETURN settings;
END
$$;

CREATE FUNCTION snowflake_registry.accept_clock()
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'UPDATE snowflake_registry.registry SET clock_accepted = clock_timestamp()';

COMMENT ON FUNCTION snowflake_registry.accept_clock() IS
'accept the present time of the registry''s clock, if it is right although it is more than max_jump ahead of the last grant';

CREATE FUNCTION snowflake_registry.revoke_leases()
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC'
AS $$
BEGIN
	PERFORM snowflake_registry.begin_call(NULL, true);
	-- Lock in the same order as all others: the settings first.  Twice the lead: we
	-- assume that the clock by which the lost leases were granted was ahead of ours
	-- by no more than max_clock_lead, too.  This covers a promotion that no call has
	-- noticed yet, so that the next call need not revoke again.
	UPDATE snowflake_registry.registry
	SET lost_until = greatest(lost_until,
			clock_timestamp() + greatest(former_reach, 2 * max_clock_lead + max_lease)),
		former_reach = '0',
		history = snowflake_registry.own_history();
	UPDATE snowflake_registry.lease SET instance = NULL;
END
$$;

COMMENT ON FUNCTION snowflake_registry.revoke_leases() IS
'revoke all leases, and start new ones above everything that can have been granted; for use after grants were lost, as when a snapshot was restored';

-- Begin a call for a lease, which comes first because a wrong clock must not revoke leases, and
-- check everything that does not depend on the worker id.  Returns the settings.
CREATE FUNCTION snowflake_registry.check_call(clock timestamptz, duration interval, locks boolean)
RETURNS snowflake_registry.registry
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	settings snowflake_registry.registry := snowflake_registry.begin_call(coalesce(duration, '0'), locks);
	own CONSTANT text := snowflake_registry.own_history();
BEGIN
	IF settings.history <> own THEN
		-- The first call after a promotion.  Grants may be missing here, even all of
		-- them, and nobody knows which.
		SELECT * INTO settings FROM snowflake_registry.registry FOR UPDATE;
		IF settings.history <> own AND settings.asynchronous_standbys THEN
			PERFORM snowflake_registry.revoke_leases();
		END IF;
		UPDATE snowflake_registry.registry SET history = own RETURNING * INTO settings;
	END IF;

	IF clock IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'clock of the holder must be specified for a lease';
	END IF;
	IF duration IS NULL OR duration <= '0' OR duration > settings.max_lease THEN
		RAISE invalid_parameter_value USING
			MESSAGE = format('invalid lease duration: "%s"', duration),
			DETAIL = format('The duration must be greater than 0, and at most %s.', settings.max_lease);
	END IF;
	RETURN settings;
END
$$;

--
-- Functions for servers.  They run as the owner of the extension, so that a role
-- that may call them needs no right to change the tables.
--

-- What the fields below the worker id hold does not matter to other servers.
CREATE FUNCTION snowflake_registry.fields_of_servers(layout text)
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT regexp_replace(layout, '( (lane|sequence|tag):[0-9]+)+(?= tick:)', format(' below:%s', sum(bits[1]::integer)))
	FROM regexp_matches(substring(layout FROM '((?: (?:lane|sequence|tag):[0-9]+)+) tick:'), ':([0-9]+)', 'g') AS bits
$$;

CREATE FUNCTION snowflake_registry.acquire(holder text, instance uuid, layout text, worker_ids bigint,
	clock timestamptz, duration interval,
	OUT worker_id bigint,
	OUT starts timestamptz,
	OUT ends timestamptz)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC'
AS $$
DECLARE
	here timestamptz;
	settings snowflake_registry.registry;
	last_end timestamptz;
	-- the clock of the holder, which may be wrong
	capped timestamptz;
BEGIN
	IF holder IS NULL OR instance IS NULL OR layout IS NULL OR worker_ids IS NULL OR worker_ids < 1 THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'holder, instance, layout and number of worker ids must be specified for a lease';
	END IF;
	-- the first one becomes that of the registry, which refuses all others
	IF layout !~ '^time:[0-9]+( [a-z]+:[0-9]+)* tick:[0-9]+(us|ms|s) epoch:[0-9T:.-]+Z$' THEN
		RAISE invalid_parameter_value USING
			MESSAGE = format('invalid layout for a lease: "%s"', layout),
			DETAIL = 'A lease needs all fields of the layout, its tick and its epoch.',
			HINT = 'Take the text from the column "layout" of snowflake_capacity().';
	END IF;

	-- grant one lease at a time
	settings := snowflake_registry.check_call(clock, duration, true);
	here := clock_timestamp();
	last_end := here + settings.max_clock_lead + settings.max_lease;
	capped := least(clock, here + settings.max_clock_lead);
	IF settings.layout IS NULL THEN
		UPDATE snowflake_registry.registry
		SET layout = acquire.layout, worker_ids = acquire.worker_ids;
	ELSIF settings.worker_ids <> worker_ids OR
		snowflake_registry.fields_of_servers(settings.layout) <> snowflake_registry.fields_of_servers(layout) THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = format('registry is for snowflake ids of the layout "%s"', settings.layout),
			DETAIL = format('The layout of "%s" is "%s" with %s worker ids, and that of the registry has %s.',
				holder, layout, worker_ids, settings.worker_ids),
			HINT = 'Give all servers of a registry the same layout.';
	END IF;

	-- Choose again if the row has changed meanwhile, because its holder has renewed
	-- the lease or it was set aside by hand.
	LOOP
		-- Prefer worker ids whose last lease is over by the new holder's clock:
		-- its own, the latest first, then those of others.  Next come worker ids
		-- that were never leased.  Those whose next lease starts ahead of its clock
		-- come last, because the holder has to wait until then.
		SELECT candidate.worker_id, candidate.starts INTO acquire.worker_id, acquire.starts
		FROM (
			SELECT lease.worker_id, greatest(lease.ends, settings.lost_until) AS starts,
				CASE WHEN lease.holder = acquire.holder THEN 0 ELSE 1 END AS rank,
				CASE WHEN lease.holder = acquire.holder THEN lease.since END AS since
			FROM snowflake_registry.lease
			WHERE lease.reserved IS NULL AND (lease.instance IS NULL OR lease.ends <= here)
				AND lease.worker_id < acquire.worker_ids
			UNION ALL
			SELECT min(used.worker_id) + 1, settings.lost_until, 2, NULL
			FROM (SELECT -1::bigint AS worker_id UNION ALL SELECT lease.worker_id FROM snowflake_registry.lease) AS used
			WHERE NOT EXISTS (SELECT FROM snowflake_registry.lease WHERE lease.worker_id = used.worker_id + 1)
			HAVING min(used.worker_id) + 1 < acquire.worker_ids
		) AS candidate
		WHERE candidate.starts < last_end
		ORDER BY candidate.starts > capped, candidate.rank, candidate.since DESC, candidate.starts, candidate.worker_id
		LIMIT 1;
		-- Not an error, which would undo what check_call() did after a promotion.
		IF NOT FOUND THEN
			RETURN;
		END IF;

		-- The invariant holds because no old range reaches beyond the start.  Ends
		-- are whole milliseconds, which all languages can hand back exactly.
		ends := greatest(starts,
			date_trunc('milliseconds', least(greatest(starts, capped) + duration, last_end)));
		INSERT INTO snowflake_registry.lease AS old (worker_id, holder, address, instance, since, starts, ends, granted)
		VALUES (acquire.worker_id, acquire.holder, inet_client_addr(), acquire.instance, here, acquire.starts, acquire.ends, here)
		ON CONFLICT ON CONSTRAINT lease_pkey DO UPDATE
		SET holder = excluded.holder, address = excluded.address, instance = excluded.instance,
			since = excluded.since, starts = excluded.starts, ends = excluded.ends, granted = excluded.granted
		WHERE old.reserved IS NULL AND (old.instance IS NULL OR old.ends <= here)
			AND old.ends <= excluded.starts;
		IF FOUND THEN
			RETURN NEXT;
			RETURN;
		END IF;
	END LOOP;
END
$$;

COMMENT ON FUNCTION snowflake_registry.acquire(text, uuid, text, bigint, timestamptz, interval) IS
'lease a worker id: its holder can make ids whose time is at or after "starts" and before "ends"; no row if none is free';

CREATE FUNCTION snowflake_registry.renew(worker_id bigint, instance uuid, ends timestamptz,
	clock timestamptz, duration interval)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC'
AS $$
DECLARE
	settings snowflake_registry.registry;
	new_end timestamptz;
BEGIN
	settings := snowflake_registry.check_call(clock, duration, false);

	-- The holder knows where its lease ends.  A caller that does not know is a copy
	-- of the holder, or has missed an answer, and must not go on with the lease.
	UPDATE snowflake_registry.lease
	SET granted = clock_timestamp(),
		ends = greatest(lease.ends, date_trunc('milliseconds', least(
		greatest(lease.starts, least(clock, clock_timestamp() + settings.max_clock_lead)) + duration,
		clock_timestamp() + settings.max_clock_lead + settings.max_lease)))
	WHERE lease.worker_id = renew.worker_id AND lease.instance = renew.instance
		AND lease.ends = renew.ends AND lease.reserved IS NULL
	RETURNING lease.ends INTO new_end;
	RETURN new_end;
END
$$;

COMMENT ON FUNCTION snowflake_registry.renew(bigint, uuid, timestamptz, timestamptz, interval) IS
'extend the lease of a worker id; returns the new end, or NULL if the lease is lost and another one must be acquired';

CREATE FUNCTION snowflake_registry.release(worker_id bigint, instance uuid, used timestamptz)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE snowflake_registry.lease
	SET instance = NULL, ends = least(lease.ends, greatest(lease.starts, coalesce(used, 'infinity')))
	WHERE lease.worker_id = release.worker_id AND lease.instance = release.instance;
	RETURN FOUND;
END
$$;

COMMENT ON FUNCTION snowflake_registry.release(bigint, uuid, timestamptz) IS
'give a lease back; its holder makes no more ids, and has made none at "used" or later; returns false if it had no lease';

--
-- Functions for administrators
--

CREATE FUNCTION snowflake_registry.reserve(worker_id bigint, reason text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	settings snowflake_registry.registry;
BEGIN
	IF worker_id IS NULL OR worker_id < 0 OR reason IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'worker id and reason must be specified for a reservation',
			DETAIL = 'The worker id must not be negative.';
	END IF;
	settings := snowflake_registry.begin_call(NULL, true);

	-- Grants may be missing here after a promotion, see check_call().  The error below
	-- would undo a revocation, and the next call would revoke again, and put off the
	-- end of the leases each time.
	IF settings.history <> snowflake_registry.own_history() AND settings.asynchronous_standbys THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = 'leases might be missing from the registry',
			DETAIL = 'It was promoted or restored, and no server has asked it for a lease since.',
			HINT = 'Call snowflake_registry.revoke_leases(), and try again when the revoked leases have ended.';
	END IF;

	-- Its last holder may make ids until the end of its lease, even if the lease was
	-- revoked or is not known here, and may have made them ahead of the clock.
	IF settings.lost_until <= clock_timestamp() THEN
		INSERT INTO snowflake_registry.lease AS old (worker_id, reserved)
		VALUES (reserve.worker_id, reserve.reason)
		ON CONFLICT ON CONSTRAINT lease_pkey DO UPDATE SET reserved = excluded.reserved, instance = NULL
		WHERE old.ends <= clock_timestamp();
		IF FOUND THEN
			RETURN;
		END IF;
	END IF;
	RAISE object_in_use USING
		MESSAGE = format('worker id %s might be in use', worker_id),
		DETAIL = format('Its last lease might last until %s.', greatest(settings.lost_until,
			(SELECT lease.ends FROM snowflake_registry.lease WHERE lease.worker_id = reserve.worker_id))),
		HINT = 'Stop its holder, and try again after that.';
END
$$;

COMMENT ON FUNCTION snowflake_registry.reserve(bigint, text) IS
'set a worker id aside, for a server that is configured by hand for example';

CREATE FUNCTION snowflake_registry.unreserve(worker_id bigint, used timestamptz)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF used IS NULL THEN
		RAISE invalid_parameter_value USING
			MESSAGE = 'end of use must be specified for a worker id',
			HINT = 'Specify an instant that is later than the time of all ids that were made with the worker id.';
	END IF;
	UPDATE snowflake_registry.lease
	SET reserved = NULL, ends = greatest(lease.ends, used)
	WHERE lease.worker_id = unreserve.worker_id AND lease.reserved IS NOT NULL;
	RETURN FOUND;
END
$$;

COMMENT ON FUNCTION snowflake_registry.unreserve(bigint, timestamptz) IS
'allow a worker id to be leased again, for ids from "used" on; returns false if it was not reserved';

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA snowflake_registry FROM PUBLIC;

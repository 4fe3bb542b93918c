-- compatible: 5
--
-- Nodes of versions 1 to 4 do not read records of today: this version excludes them. The functions for users'
-- transactions do not depend on the settings of the caller's session. Revisions continue above those that may
-- have been lost, if the schema was restored or copied. More than 64 concurrent writers do not
-- wait for each other.

-- A plpgsql function is compiled under the settings of the session, once for all of its calls: with
-- standard_conforming_strings off, its literals would lose their backslashes. A setting of a function is in force
-- while it is compiled, and in the functions that it calls.
ALTER FUNCTION {schema}.create_timer(text, text, jsonb, text, boolean) SET standard_conforming_strings = on;
ALTER FUNCTION {schema}.delete_timer(text, text) SET standard_conforming_strings = on;
ALTER FUNCTION {schema}.settle_pending() SET standard_conforming_strings = on;

-- slot returns the lowest number that no other transaction uses, and reserves it until this transaction ends.
-- Each writer counts in rows of its own, so none waits for another's commit, and there are as many rows as
-- there ever were concurrent writers. A slot without a lock would be shared: transactions lock the rows of
-- namespaces and hours in different orders, and would wait for each other.
CREATE OR REPLACE FUNCTION {schema}.slot() RETURNS smallint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR i IN 0..4095 LOOP
        IF pg_try_advisory_xact_lock(hashtext({channel} || ' slots'), i) THEN
            RETURN i;
        END IF;
    END LOOP;
    PERFORM pg_advisory_xact_lock(hashtext({channel} || ' slots'), 4096); -- one after the other
    RETURN 4096;
END $$;

-- The place at which revisions were given last, see place, and since when.
CREATE TABLE {schema}.origin (place text NOT NULL, since timestamptz NOT NULL DEFAULT clock_timestamp());

-- place names where the schema is: in which server, on which of its timelines, in which database, and in which
-- of several copies there. A failover and a restore to an earlier time begin a timeline; a dump is restored into
-- another database, or into tables with other numbers. It runs with its owner's rights, so that it is the same
-- for all roles; what a service does not provide is left out.
CREATE FUNCTION {schema}.place() RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_place text := (SELECT d.oid::text FROM pg_database d WHERE d.datname = current_database()) || '/' || {revisions}::regclass::oid::text;
BEGIN
    BEGIN
        v_place := (SELECT c.system_identifier::text FROM pg_control_system() c) || '/' || v_place;
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
    BEGIN
        v_place := v_place || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8);
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
    RETURN v_place;
END $$;

-- continue_revisions raises revisions if the schema is at another place than when they were given: what is here may
-- be older than what clients have seen. It raises them by v_lost, and by one for each microsecond since the former
-- place was entered: if the same dump is restored again later, more than after the first time, and more than were
-- given in between. All raises for time are together no more than the age of the store.
CREATE FUNCTION {schema}.continue_revisions(v_lost bigint) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_place text := {schema}.place();
BEGIN
    IF EXISTS (SELECT FROM {schema}.origin o WHERE o.place = v_place) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext({channel} || ' raise'), 0);
    IF NOT EXISTS (SELECT FROM {schema}.origin o WHERE o.place = v_place) THEN
        PERFORM {schema}.raise(last_value + v_lost + greatest(0, extract(epoch FROM clock_timestamp()
            - COALESCE((SELECT min(o.since) FROM {schema}.origin o), timestamptz '2026-01-01 00:00:00Z')) * 1000000)::bigint)
            FROM {schema}.revisions;
        DELETE FROM {schema}.origin;
        INSERT INTO {schema}.origin (place) VALUES (v_place);
    END IF;
END $$;
REVOKE ALL ON FUNCTION {schema}.place() FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.continue_revisions(bigint) FROM PUBLIC;

-- In a new schema nothing was given.
INSERT INTO {schema}.origin (place) SELECT {schema}.place() WHERE NOT EXISTS (SELECT FROM {schema}.timers);

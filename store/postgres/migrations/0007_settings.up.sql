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

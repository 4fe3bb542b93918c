DROP FUNCTION {schema}.continue_revisions(bigint);
DROP FUNCTION {schema}.place();
DROP TABLE {schema}.origin;
ALTER FUNCTION {schema}.create_timer(text, text, jsonb, text, boolean) RESET standard_conforming_strings;
ALTER FUNCTION {schema}.delete_timer(text, text) RESET standard_conforming_strings;
ALTER FUNCTION {schema}.settle_pending() RESET standard_conforming_strings;

-- slot is that of 0001.
CREATE OR REPLACE FUNCTION {schema}.slot() RETURNS smallint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR i IN 0..63 LOOP
        IF pg_try_advisory_xact_lock(hashtext({channel} || ' slots'), i) THEN
            RETURN i;
        END IF;
    END LOOP;
    RETURN 64 + pg_backend_pid() % 64; -- very many writers: some may wait
END $$;

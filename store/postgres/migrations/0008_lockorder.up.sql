-- compatible: 5
--
-- A commit of a caller takes locks as a batch of a node does, so that they do not wait for each other in a circle.

-- settle_requests executes the requests of a transaction, in the order of keys. Before it creates a row it locks all
-- rows that it is going to remove or replace, as apply_plain does, see 0001: a batch that waits for a row that this
-- transaction has created has locked its own, for which this one does not wait any more. A row that is created by
-- others after that, and is locked, would have to be waited for too late: this is the error RS001. Of one request,
-- nothing is created before it waits.
CREATE FUNCTION {schema}.settle_requests(v_xid bigint, v_many boolean) RETURNS void LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_hashjoin = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_want record;
    v_cut record;
    v_revision bigint;
    v_done boolean;
    t_namespaces text[] := '{}';
    t_states smallint[] := '{}';
    t_counts bigint[] := '{}';
BEGIN
    IF v_many THEN
        PERFORM 1 FROM (SELECT p.namespace, p.name FROM {schema}.pending p WHERE p.xid = v_xid AND p.mode IN ('replace', 'delete')
                ORDER BY p.xid, p.namespace, p.name, p.generation OFFSET 0) u
            CROSS JOIN LATERAL (SELECT 1 FROM {schema}.timers t WHERE t.namespace = u.namespace AND t.name = u.name AND (t.fire = '' OR t.state = 6)
                ORDER BY t.namespace, t.name, t.fire FOR UPDATE) l;
    END IF;
    FOR v_want IN SELECT * FROM {schema}.pending p WHERE p.xid = v_xid ORDER BY p.xid, p.namespace, p.name, p.generation LOOP
        v_done := false;
        FOR try IN 1..16 LOOP
            IF v_want.mode <> 'delete' THEN
                v_revision := nextval({revisions});
                INSERT INTO {schema}.timers (bucket, visible, revision, generation, due, xid, state, criticality, namespace, name, fire, body)
                    VALUES (v_want.bucket, v_want.due, v_revision, v_want.generation, v_want.due, v_want.xid, 1, v_want.criticality, v_want.namespace,
                        v_want.name, '', v_want.body)
                    ON CONFLICT ON CONSTRAINT timers_by_key DO NOTHING;
                v_done := FOUND;
                IF v_done THEN
                    IF {schema}.outlived(v_revision) THEN
                        UPDATE {schema}.timers t SET revision = nextval({revisions})
                            WHERE t.namespace = v_want.namespace AND t.name = v_want.name AND t.fire = '';
                    END IF;
                    t_namespaces := t_namespaces || v_want.namespace;
                    t_states := t_states || 1::smallint;
                    t_counts := t_counts || 1::bigint;
                    EXIT;
                ELSIF v_want.mode = 'create' THEN
                    PERFORM {schema}.taken(v_want.namespace, v_want.name);
                ELSIF v_want.mode = 'ensure' THEN
                    v_done := true;
                    EXIT;
                END IF;
            END IF;
            IF v_many AND (SELECT count(*) FROM {schema}.timers t WHERE t.namespace = v_want.namespace AND t.name = v_want.name AND (t.fire = '' OR t.state = 6))
                > (SELECT count(*) FROM (SELECT 1 FROM {schema}.timers t WHERE t.namespace = v_want.namespace AND t.name = v_want.name
                    AND (t.fire = '' OR t.state = 6) FOR UPDATE SKIP LOCKED) l) THEN
                RAISE EXCEPTION 'others have locked a row that was created during this commit' USING ERRCODE = 'RS001';
            END IF;
            SELECT * INTO v_cut FROM {schema}.cut_off(v_want.namespace, v_want.name,
                CASE v_want.mode WHEN 'delete' THEN 'deleted while it was being tried' ELSE 'replaced while it was being tried' END);
            IF v_cut.detached > 0 THEN
                t_namespaces := t_namespaces || v_want.namespace;
                t_states := t_states || 6::smallint;
                t_counts := t_counts || -v_cut.detached::bigint;
            END IF;
            IF v_cut.was IS NOT NULL THEN
                t_namespaces := t_namespaces || v_want.namespace;
                t_states := t_states || v_cut.was;
                t_counts := t_counts || -1::bigint;
                IF v_want.mode = 'delete' THEN
                    DELETE FROM {schema}.timers t WHERE t.namespace = v_want.namespace AND t.name = v_want.name AND t.fire = ''
                        RETURNING t.revision INTO v_revision;
                    PERFORM {schema}.bury(v_revision);
                ELSE
                    v_revision := nextval({revisions}); -- taken after the row is locked, so that revisions increase
                    UPDATE {schema}.timers t SET bucket = v_want.bucket, visible = v_want.due, revision = v_revision, generation = v_want.generation,
                            due = v_want.due, xid = v_want.xid, writer = 0, last_sync_id = 0, state = 1, criticality = v_want.criticality, labels = NULL,
                            body = v_want.body, sync_owner = NULL
                        WHERE t.namespace = v_want.namespace AND t.name = v_want.name AND t.fire = '';
                    t_namespaces := t_namespaces || v_want.namespace;
                    t_states := t_states || 1::smallint;
                    t_counts := t_counts || 1::bigint;
                END IF;
            END IF;
            v_done := v_want.mode = 'delete' OR v_cut.was IS NOT NULL;
            EXIT WHEN v_done;
        END LOOP;
        IF NOT v_done THEN
            RAISE EXCEPTION 'a timer is created and removed all the time' USING ERRCODE = 'serialization_failure';
        END IF;
        DELETE FROM {schema}.pending p WHERE p.xid = v_want.xid AND p.namespace = v_want.namespace AND p.name = v_want.name AND p.generation = v_want.generation;
    END LOOP;
    PERFORM {schema}.tally(t_namespaces, t_states, t_counts);
END $$;

-- settle_pending executes all requests of its transaction the first time that it is called. What it has created when
-- it meets the error RS001 is taken back, and with it the locks.
CREATE OR REPLACE FUNCTION {schema}.settle_pending() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_hashjoin = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM 1 FROM {schema}.pending p WHERE p.xid = NEW.xid AND p.namespace = NEW.namespace AND p.name = NEW.name AND p.generation = NEW.generation;
    IF NOT FOUND THEN
        RETURN NULL; -- already done
    END IF;
    IF (SELECT count(*) FROM (SELECT 1 FROM {schema}.pending p WHERE p.xid = NEW.xid LIMIT 2) l) = 1 THEN
        PERFORM {schema}.settle_requests(NEW.xid, false);
        RETURN NULL;
    END IF;
    FOR try IN 1..16 LOOP
        BEGIN
            PERFORM {schema}.settle_requests(NEW.xid, true);
            RETURN NULL;
        EXCEPTION WHEN SQLSTATE 'RS001' THEN
            NULL;
        END;
    END LOOP;
    RAISE EXCEPTION 'timers are created and changed all the time' USING ERRCODE = 'serialization_failure';
END $$;

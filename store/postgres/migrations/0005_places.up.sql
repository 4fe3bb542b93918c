-- compatible: 1
--
-- A node remembers where it last saw a row: its tid. With that, a check and a write need not search the row by
-- its key, which costs several times as much as all that they then do with it. A tid is only a hint: a row is
-- used if it has the revision that is expected of it, and no two rows ever have the same revision. This
-- migration only adds functions and a small index, and nodes of previous versions continue to work. 0001
-- explains the plans.
--
-- Arrays are unnested in a target list, not in FROM, which would store each of them as a table first.

-- revisions_at returns the revisions of the rows at the tids, in any order.
CREATE FUNCTION {schema}.revisions_at(v_tids tid[]) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT array_agg(t.revision) FROM {schema}.timers t WHERE t.ctid = ANY(v_tids));
END $$;

-- find_rows returns the tids of rows with their revisions, where v_tids has none yet.
CREATE FUNCTION {schema}.find_rows(v_acts smallint[], v_namespaces text[], v_names text[], v_fires text[], v_revisions bigint[], v_tids tid[])
    RETURNS tid[] LANGUAGE plpgsql VOLATILE
    SET enable_indexscan = on SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT array_agg(COALESCE(u.tid, t.tid)) FROM (SELECT unnest(v_acts) AS act, unnest(v_namespaces) AS namespace, unnest(v_names) AS name,
            unnest(v_fires) AS fire, unnest(v_revisions) AS revision, unnest(v_tids) AS tid) u
        LEFT JOIN LATERAL (SELECT r.ctid AS tid FROM {schema}.timers r WHERE u.act <> 1 AND u.tid IS NULL
            AND r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire AND r.revision = u.revision OFFSET 0) t ON true);
END $$;

-- create_rows adds the rows whose act is 1, none of which may exist, and returns their tids, and the block of
-- revisions to use from then on.
CREATE FUNCTION {schema}.create_rows(INOUT v_base bigint, v_xid bigint, v_writer integer, v_acts smallint[], v_offs integer[], v_namespaces text[],
    v_names text[], v_fires text[], v_buckets bigint[], v_visibles bigint[], v_generations bigint[], v_states smallint[], v_dues bigint[],
    v_criticalities smallint[], v_labels text[], v_bodies bytea[], OUT v_tids tid[]) LANGUAGE plpgsql VOLATILE SET enable_indexscan = on AS $$
DECLARE
    v_fresh bigint;
BEGIN
    WITH done AS (
        INSERT INTO {schema}.timers (bucket, visible, revision, generation, due, xid, writer, state, criticality, namespace, name, fire, labels, body)
            SELECT u.bucket, u.visible, v_base + u.off, CASE u.generation WHEN 0 THEN v_base + u.off ELSE u.generation END, u.due, v_xid, v_writer,
                u.state, u.criticality, u.namespace, u.name, u.fire, u.labels::jsonb, u.body
            FROM (SELECT unnest(v_acts) AS act, unnest(v_offs) AS off, unnest(v_namespaces) AS namespace, unnest(v_names) AS name,
                unnest(v_fires) AS fire, unnest(v_buckets) AS bucket, unnest(v_visibles) AS visible, unnest(v_generations) AS generation,
                unnest(v_states) AS state, unnest(v_dues) AS due, unnest(v_criticalities) AS criticality, unnest(v_labels) AS labels,
                unnest(v_bodies) AS body) u
            WHERE u.act = 1 RETURNING ctid
    )
    SELECT array_agg(d.ctid) INTO v_tids FROM done d;
    IF {schema}.outlived(v_base) THEN
        v_fresh := nextval({revisions});
        PERFORM {schema}.renew_rows(v_base, v_fresh, v_offs, v_offs, v_namespaces, v_names, v_fires);
        v_base := v_fresh;
        v_tids := NULL;
    END IF;
END $$;

-- apply_at makes the same changes as apply_plain if none is refused, with the tids of the rows to update and
-- delete; NULL for those that are searched by their keys. Otherwise it ends the transaction, and apply_plain
-- finds out why. t_ is the change of the tallies by the creates. It returns the tids of the rows that it has
-- created and updated.
--
-- It locks as apply_plain does, and for the same reason: a call of several kinds locks all existing rows first,
-- in the order of keys.
CREATE FUNCTION {schema}.apply_at(v_acts smallint[], v_offs integer[], v_namespaces text[], v_names text[], v_fires text[], v_conditions bigint[],
    v_buckets bigint[], v_visibles bigint[], v_generations bigint[], v_states smallint[], v_dues bigint[], v_criticalities smallint[],
    v_labels text[], v_bodies bytea[], v_log_offs integer[], v_log_namespaces text[], v_log_names text[], v_log_ended bigint[],
    v_log_bodies bytea[], v_hours bigint[], v_hour_counts bigint[], v_tids tid[], t_namespaces text[], t_states smallint[], t_counts bigint[],
    v_writer integer, OUT base bigint, OUT created tid[], OUT updated tid[]) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_xid bigint := pg_current_xact_id()::text::bigint;
    v_creates boolean := 1 = ANY(v_acts);
    v_updates boolean := 2 = ANY(v_acts);
    v_deletes boolean := 3 = ANY(v_acts);
    v_left integer := 0;
    d_namespaces text[];
    d_states smallint[];
    d_counts bigint[];
    d_rows bigint;
BEGIN
    IF v_deletes OR v_updates THEN
        v_left := (SELECT count(*) FROM (SELECT unnest(v_acts) AS act) u WHERE u.act <> 1);
        IF array_position(v_tids, NULL) IS NOT NULL THEN
            v_tids := {schema}.find_rows(v_acts, v_namespaces, v_names, v_fires, v_conditions, v_tids);
        END IF;
        IF v_creates::integer + v_updates::integer + v_deletes::integer > 1 THEN
            PERFORM 1 FROM (SELECT unnest(v_acts) AS act, unnest(v_tids) AS tid, unnest(v_conditions) AS revision) u
                CROSS JOIN LATERAL (SELECT 1 FROM {schema}.timers r WHERE r.ctid = u.tid AND r.revision = u.revision FOR UPDATE) t WHERE u.act <> 1;
        END IF;
    END IF;
    base := nextval({revisions});
    IF v_creates THEN
        SELECT c.v_base, c.v_tids INTO base, created FROM {schema}.create_rows(base, v_xid, v_writer, v_acts, v_offs, v_namespaces, v_names, v_fires,
            v_buckets, v_visibles, v_generations, v_states, v_dues, v_criticalities, v_labels, v_bodies) c;
    END IF;
    IF v_deletes THEN
        PERFORM {schema}.bury((SELECT max(u.revision) FROM (SELECT unnest(v_acts) AS act, unnest(v_conditions) AS revision) u WHERE u.act = 3));
        WITH done AS (
            DELETE FROM {schema}.timers t USING (SELECT unnest(v_acts) AS act, unnest(v_tids) AS tid, unnest(v_conditions) AS revision) u
                WHERE u.act = 3 AND t.ctid = u.tid AND t.revision = u.revision RETURNING t.namespace, t.state
        )
        SELECT array_agg(c.namespace), array_agg(c.state), array_agg(-c.n), sum(c.n) INTO d_namespaces, d_states, d_counts, d_rows
            FROM (SELECT d.namespace, d.state, count(*) AS n FROM done d GROUP BY 1, 2) c;
        v_left := v_left - COALESCE(d_rows, 0);
        t_namespaces := t_namespaces || d_namespaces;
        t_states := t_states || d_states;
        t_counts := t_counts || d_counts;
    END IF;
    IF v_updates THEN
        WITH done AS (
            UPDATE {schema}.timers t SET bucket = u.bucket, visible = u.visible, revision = base + u.off,
                    generation = CASE u.generation WHEN 0 THEN base + u.off ELSE u.generation END, due = u.due, xid = v_xid, writer = v_writer,
                    state = u.state, criticality = u.criticality, labels = u.labels::jsonb, body = u.body
                FROM (SELECT unnest(v_acts) AS act, unnest(v_offs) AS off, unnest(v_tids) AS tid, unnest(v_conditions) AS revision, unnest(v_buckets) AS bucket,
                    unnest(v_visibles) AS visible, unnest(v_generations) AS generation, unnest(v_states) AS state, unnest(v_dues) AS due,
                    unnest(v_criticalities) AS criticality, unnest(v_labels) AS labels, unnest(v_bodies) AS body) u,
                    {schema}.timers o
                WHERE u.act = 2 AND t.ctid = u.tid AND t.revision = u.revision AND o.ctid = u.tid AND o.revision = u.revision
                RETURNING t.ctid AS tid, t.namespace, t.state, o.state AS was
        ), counted AS (
            SELECT d.namespace, s.state, sum(s.n)::bigint AS n FROM done d CROSS JOIN LATERAL (VALUES (d.state, 1), (d.was, -1)) s(state, n)
                WHERE d.state <> d.was GROUP BY 1, 2
        )
        SELECT (SELECT array_agg(d.tid) FROM done d), array_agg(c.namespace), array_agg(c.state), array_agg(c.n)
            INTO updated, d_namespaces, d_states, d_counts FROM counted c;
        v_left := v_left - COALESCE(cardinality(updated), 0);
        t_namespaces := t_namespaces || d_namespaces;
        t_states := t_states || d_states;
        t_counts := t_counts || d_counts;
    END IF;
    IF v_left <> 0 THEN
        RAISE EXCEPTION 'a row is not where it was, or has changed' USING ERRCODE = 'serialization_failure';
    END IF;
    PERFORM {schema}.tally(t_namespaces, t_states, t_counts);
    IF cardinality(v_log_offs) > 0 THEN
        INSERT INTO {schema}.records (ended, seq, namespace, name, body)
            SELECT u.ended, base + u.off, u.namespace, u.name, u.body
            FROM (SELECT unnest(v_log_offs) AS off, unnest(v_log_namespaces) AS namespace, unnest(v_log_names) AS name, unnest(v_log_ended) AS ended,
                unnest(v_log_bodies) AS body) u;
        PERFORM {schema}.count_hours(v_hours, v_hour_counts);
    END IF;
END $$;

-- claim_at is claim, and also returns the tids.
CREATE FUNCTION {schema}.claim_at(v_low bigint, v_high bigint, v_bits bytea, v_some bigint[], v_after bigint, v_namespace text, v_name text, v_fire text,
    v_ahead bigint, v_since bigint, v_writer integer, v_limit integer, v_bytes bigint, v_namespaces text[])
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea, tid tid) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := {schema}.now_ms();
    v_until bigint := LEAST(v_ahead, 9223372036854775806 - v_now) + v_now;
    v_era bigint := {schema}.era() << 48;
    v_from bigint := CASE WHEN (v_since >> 48) << 48 = v_era THEN v_since - v_era ELSE 0 END;
    v_mine integer := CASE WHEN v_from = 0 OR v_writer = 0 THEN -1 ELSE v_writer END;
BEGIN
    RETURN QUERY SELECT NULL::bigint, v_now, NULL::text, NULL::text, NULL::text, v_era + pg_snapshot_xmin(pg_current_snapshot())::text::bigint, NULL::bigint,
        NULL::smallint, NULL::bigint, NULL::smallint, NULL::jsonb, NULL::bytea, NULL::tid;
    RETURN QUERY SELECT d.bucket, d.visible, d.namespace, d.name, d.fire, d.revision, d.generation, d.state, d.due, d.criticality, d.labels, d.body, d.tid FROM (
        SELECT c.*, sum(octet_length(c.body)) OVER (ROWS UNBOUNDED PRECEDING) - octet_length(c.body) AS before FROM (
            SELECT t.*, t.ctid AS tid FROM {schema}.timers t
            WHERE (t.visible, t.namespace, t.name, t.fire) > (v_after, v_namespace, v_name, v_fire) AND t.visible <= v_until
                AND t.visible < 9223372036854775807 AND t.xid >= v_from AND t.writer <> v_mine
                AND CASE WHEN t.bucket BETWEEN v_low AND v_high THEN CASE WHEN v_bits IS NOT NULL THEN get_bit(v_bits, (t.bucket - v_low)::integer) = 1
                    WHEN v_some IS NOT NULL THEN t.bucket = ANY(v_some) ELSE true END ELSE false END
                AND (v_namespaces IS NULL OR t.namespace = ANY(v_namespaces))
            ORDER BY t.visible, t.namespace, t.name, t.fire LIMIT v_limit) c) d
        WHERE v_bytes = 0 OR d.before < v_bytes;
END $$;

-- hold_rows_at and hold_at are hold_rows and claim_hold, and also return the new tids.
CREATE FUNCTION {schema}.hold_rows_at(v_base bigint, v_until bigint, v_tids tid[], v_were bigint[])
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea, tid tid) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_xid bigint := pg_current_xact_id()::text::bigint;
BEGIN
    RETURN QUERY UPDATE {schema}.timers t SET visible = v_until, revision = v_base + u.pos, xid = v_xid, writer = 0
        FROM unnest(v_tids, v_were) WITH ORDINALITY u(tid, was, pos) WHERE t.ctid = u.tid
        RETURNING t.bucket, u.was, t.namespace, t.name, t.fire, t.revision, t.generation, t.state, t.due, t.criticality, t.labels, t.body, t.ctid;
END $$;

CREATE FUNCTION {schema}.hold_at(v_low bigint, v_high bigint, v_bits bytea, v_some bigint[], v_after bigint, v_namespace text, v_name text, v_fire text,
    v_ahead bigint, v_since bigint, v_writer integer, v_limit integer, v_bytes bigint, v_namespaces text[], v_hold bigint)
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea, tid tid) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := {schema}.now_ms();
    v_until bigint := LEAST(v_ahead, 9223372036854775806 - v_now) + v_now;
    v_era bigint := {schema}.era() << 48;
    v_from bigint := CASE WHEN (v_since >> 48) << 48 = v_era THEN v_since - v_era ELSE 0 END;
    v_mine integer := CASE WHEN v_from = 0 OR v_writer = 0 THEN -1 ELSE v_writer END;
    v_tids tid[];
    v_were bigint[];
BEGIN
    RETURN QUERY SELECT NULL::bigint, v_now, NULL::text, NULL::text, NULL::text, v_era + pg_snapshot_xmin(pg_current_snapshot())::text::bigint, NULL::bigint,
        NULL::smallint, NULL::bigint, NULL::smallint, NULL::jsonb, NULL::bytea, NULL::tid;
    SELECT array_agg(d.tid), array_agg(d.visible) INTO v_tids, v_were FROM (
        SELECT c.tid, c.visible, sum(c.size) OVER (ROWS UNBOUNDED PRECEDING) - c.size AS before FROM (
            SELECT t.ctid AS tid, t.visible, octet_length(t.body) AS size FROM {schema}.timers t
            WHERE (t.visible, t.namespace, t.name, t.fire) > (v_after, v_namespace, v_name, v_fire) AND t.visible <= v_until
                AND t.visible < 9223372036854775807 AND t.xid >= v_from AND t.writer <> v_mine
                AND CASE WHEN t.bucket BETWEEN v_low AND v_high THEN CASE WHEN v_bits IS NOT NULL THEN get_bit(v_bits, (t.bucket - v_low)::integer) = 1
                    WHEN v_some IS NOT NULL THEN t.bucket = ANY(v_some) ELSE true END ELSE false END
                AND (v_namespaces IS NULL OR t.namespace = ANY(v_namespaces))
            ORDER BY t.visible, t.namespace, t.name, t.fire LIMIT v_limit FOR UPDATE SKIP LOCKED) c) d
        WHERE v_bytes = 0 OR d.before < v_bytes;
    IF v_tids IS NOT NULL THEN
        RETURN QUERY SELECT * FROM {schema}.hold_rows_at(nextval({revisions}), LEAST(v_hold, 9223372036854775807 - v_now) + v_now, v_tids, v_were);
    END IF;
END $$;

-- Rows that do not need attention when they are due: retries, holds, and what waits for nothing. With
-- timers_by_visible, which has all others, it gives the rows that are due in a range of time.
CREATE INDEX timers_by_due ON {schema}.timers (due) WHERE due <> visible OR visible = 9223372036854775807;

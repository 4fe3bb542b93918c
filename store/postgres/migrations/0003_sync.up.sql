-- compatible: 1
--
-- For a store with an index of due times in front of this one: rows by keys that the index returns, rows by
-- criticality while there is no index, and the marks of a row that identify the index which contains it. This
-- migration only adds to the schema, so nodes of previous versions continue to work. 0001 explains the plans
-- of the functions.

-- Rows that are served while others wait. Ordinary rows, of criticality 0, are not in it and cost nothing.
CREATE INDEX timers_by_criticality ON {schema}.timers (criticality, visible, namespace, name, fire)
    WHERE criticality > 0 AND visible < 9223372036854775807;

-- The last known state of an index: its id, and its last sign of life by its own clock. An index that reports
-- an earlier time has lost something.
CREATE TABLE {schema}.indexes (
    name    text COLLATE "C" PRIMARY KEY,
    sync_id bigint NOT NULL,
    beat    bigint NOT NULL
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- index_fetch returns the rows of keys, with their positions in the parameters, until the size of their
-- bodies reaches v_bytes (0: no limit). Its first row is the same as claim's: the clock and the token.
CREATE FUNCTION {schema}.index_fetch(v_namespaces text[], v_names text[], v_fires text[], v_bytes bigint)
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea, pos bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT NULL::bigint, {schema}.now_ms(), NULL::text, NULL::text, NULL::text,
        ({schema}.era() << 48) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint, NULL::bigint, NULL::smallint, NULL::bigint, NULL::smallint,
        NULL::jsonb, NULL::bytea, 0::bigint;
    RETURN QUERY SELECT d.bucket, d.visible, d.namespace, d.name, d.fire, d.revision, d.generation, d.state, d.due, d.criticality, d.labels, d.body, d.pos
        FROM (SELECT t.*, u.pos, sum(t.size) OVER (ROWS UNBOUNDED PRECEDING) - t.size AS before
            FROM unnest(v_namespaces, v_names, v_fires) WITH ORDINALITY u(namespace, name, fire, pos)
            CROSS JOIN LATERAL (SELECT r.*, COALESCE(octet_length(r.body), 0) AS size FROM {schema}.timers r
                WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire OFFSET 0) t) d
        WHERE v_bytes = 0 OR d.before < v_bytes;
END $$;

-- index_hold holds the rows of keys that still have the revisions and are visible in time, as claim_hold
-- does, skipping those that others have locked. Its first row is the same as claim's. Then follow the held
-- rows, with their positions, and then, without a generation, the current positions of rows with another
-- revision (0: there is no row).
CREATE FUNCTION {schema}.index_hold(v_namespaces text[], v_names text[], v_fires text[], v_revisions bigint[], v_ahead bigint, v_bytes bigint,
    v_hold bigint)
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea, pos bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_xid bigint := pg_current_xact_id()::text::bigint;
    v_now bigint := {schema}.now_ms();
    v_until bigint := LEAST(v_ahead, 9223372036854775806 - v_now) + v_now;
    v_tids tid[];
    v_were bigint[];
BEGIN
    RETURN QUERY SELECT NULL::bigint, v_now, NULL::text, NULL::text, NULL::text,
        ({schema}.era() << 48) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint, NULL::bigint, NULL::smallint, NULL::bigint, NULL::smallint,
        NULL::jsonb, NULL::bytea, 0::bigint;
    SELECT array_agg(d.tid), array_agg(d.visible) INTO v_tids, v_were FROM (
        SELECT t.tid, t.visible, sum(t.size) OVER (ROWS UNBOUNDED PRECEDING) - t.size AS before
        FROM unnest(v_namespaces, v_names, v_fires, v_revisions) u(namespace, name, fire, revision)
        CROSS JOIN LATERAL (SELECT r.ctid AS tid, r.visible, COALESCE(octet_length(r.body), 0) AS size FROM {schema}.timers r
            WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire AND r.revision = u.revision AND r.visible <= v_until
            FOR UPDATE SKIP LOCKED) t) d
        WHERE v_bytes = 0 OR d.before < v_bytes;
    IF v_tids IS NOT NULL THEN
        RETURN QUERY SELECT h.*, 1::bigint FROM
            {schema}.hold_rows(nextval({revisions}), LEAST(v_hold, 9223372036854775807 - v_now) + v_now, v_tids, v_were) h;
    END IF;
    IF COALESCE(cardinality(v_tids), 0) < cardinality(v_names) THEN
        RETURN QUERY SELECT COALESCE(t.bucket, 0), COALESCE(t.visible, 0), u.namespace, u.name, u.fire, COALESCE(t.revision, 0), NULL::bigint,
                NULL::smallint, NULL::bigint, NULL::smallint, NULL::jsonb, NULL::bytea, 0::bigint
            FROM unnest(v_namespaces, v_names, v_fires, v_revisions) u(namespace, name, fire, revision)
            LEFT JOIN LATERAL (SELECT r.bucket, r.visible, r.revision, r.xid FROM {schema}.timers r
                WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire OFFSET 0) t ON true
            WHERE COALESCE(t.revision, 0) <> u.revision AND COALESCE(t.xid, 0) <> v_xid; -- not the rows that are held now
    END IF;
END $$;

-- index_critical returns the positions of the rows in a window with at least a criticality, from 1. The
-- parameters are those of claim. Its first row has the clock.
CREATE FUNCTION {schema}.index_critical(v_least smallint, v_low bigint, v_high bigint, v_bits bytea, v_some bigint[], v_after bigint, v_namespace text,
    v_name text, v_fire text, v_ahead bigint, v_limit integer, v_namespaces text[])
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := {schema}.now_ms();
    v_until bigint := LEAST(v_ahead, 9223372036854775806 - v_now) + v_now;
BEGIN
    RETURN QUERY SELECT NULL::bigint, v_now, NULL::text, NULL::text, NULL::text, NULL::bigint;
    RETURN QUERY SELECT t.* FROM generate_series(v_least, 9) l(level) CROSS JOIN LATERAL (
            SELECT r.bucket, r.visible, r.namespace, r.name, r.fire, r.revision FROM {schema}.timers r
            WHERE r.criticality = l.level AND r.criticality > 0 AND r.visible < 9223372036854775807
                AND (r.visible, r.namespace, r.name, r.fire) > (v_after, v_namespace, v_name, v_fire) AND r.visible <= v_until
                AND CASE WHEN r.bucket BETWEEN v_low AND v_high THEN CASE WHEN v_bits IS NOT NULL THEN get_bit(v_bits, (r.bucket - v_low)::integer) = 1
                    WHEN v_some IS NOT NULL THEN r.bucket = ANY(v_some) ELSE true END ELSE false END
                AND (v_namespaces IS NULL OR r.namespace = ANY(v_namespaces))
            ORDER BY r.visible, r.namespace, r.name, r.fire LIMIT v_limit) t
        ORDER BY t.visible, t.namespace, t.name, t.fire LIMIT v_limit;
END $$;

-- index_overdue returns the positions of rows behind a given one that have been visible for more than v_ago
-- milliseconds.
CREATE FUNCTION {schema}.index_overdue(v_ago bigint, v_after bigint, v_namespace text, v_name text, v_fire text, v_limit integer)
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_until bigint := {schema}.now_ms() - v_ago;
BEGIN
    RETURN QUERY SELECT r.bucket, r.visible, r.namespace, r.name, r.fire, r.revision FROM {schema}.timers r
        WHERE r.visible < 9223372036854775807 AND r.visible <= v_until
            AND (r.visible, r.namespace, r.name, r.fire) > (v_after, v_namespace, v_name, v_fire)
        ORDER BY r.visible, r.namespace, r.name, r.fire LIMIT v_limit;
END $$;

-- sync_rows marks the rows at the tids, which are locked, as those that an owner adds to an index now. They
-- count as written by the owner: a reader that passed them, when they were missing from the index, finds them
-- by a claim with Since.
CREATE FUNCTION {schema}.sync_rows(v_current bigint, v_owner text, v_tids tid[])
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_xid bigint := pg_current_xact_id()::text::bigint;
BEGIN
    RETURN QUERY UPDATE {schema}.timers t SET last_sync_id = v_current, sync_owner = v_owner, xid = v_xid, writer = 0
        FROM unnest(v_tids) u(tid) WHERE t.ctid = u.tid
        RETURNING t.bucket, t.visible, t.namespace, t.name, t.fire, t.revision;
END $$;

-- sync_lock locks those rows at the tids that are missing from an index, skipping those that others have
-- locked, and returns their tids. last_sync_id is the optimistic lock: the owner that sets it first has the
-- row.
CREATE FUNCTION {schema}.sync_lock(v_current bigint, v_tids tid[]) RETURNS tid[] LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_won tid[];
BEGIN
    SELECT array_agg(t.tid) INTO v_won FROM unnest(v_tids) u(tid)
        CROSS JOIN LATERAL (SELECT r.ctid AS tid FROM {schema}.timers r WHERE r.ctid = u.tid AND r.last_sync_id <> v_current
            FOR UPDATE SKIP LOCKED) t;
    RETURN v_won;
END $$;

-- sync_next marks up to v_limit rows of a criticality that are missing from the index, among the v_scan rows
-- after a position, and returns them. Its first row contains the position that it reached (visible and key),
-- the number of rows that it could not mark (bucket), and whether it reached the end (revision 1).
CREATE FUNCTION {schema}.sync_next(v_current bigint, v_owner text, v_level smallint, v_after bigint, v_namespace text, v_name text, v_fire text,
    v_scan integer, v_limit integer)
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_rows refcursor;
    v_row record;
    v_seen integer := 0;
    v_tids tid[] := '{}';
    v_won tid[];
BEGIN
    IF v_level > 0 THEN
        OPEN v_rows FOR SELECT r.ctid AS tid, r.visible, r.namespace, r.name, r.fire, r.last_sync_id <> v_current AS stale FROM {schema}.timers r
            WHERE r.criticality = v_level AND r.criticality > 0 AND r.visible < 9223372036854775807
                AND (r.visible, r.namespace, r.name, r.fire) > (v_after, v_namespace, v_name, v_fire)
            ORDER BY r.visible, r.namespace, r.name, r.fire LIMIT v_scan;
    ELSE
        OPEN v_rows FOR SELECT r.ctid AS tid, r.visible, r.namespace, r.name, r.fire, r.last_sync_id <> v_current AND r.criticality <= 0 AS stale
            FROM {schema}.timers r
            WHERE r.visible < 9223372036854775807 AND (r.visible, r.namespace, r.name, r.fire) > (v_after, v_namespace, v_name, v_fire)
            ORDER BY r.visible, r.namespace, r.name, r.fire LIMIT v_scan;
    END IF;
    LOOP
        FETCH v_rows INTO v_row;
        EXIT WHEN NOT FOUND;
        v_seen := v_seen + 1;
        v_after := v_row.visible;
        v_namespace := v_row.namespace;
        v_name := v_row.name;
        v_fire := v_row.fire;
        IF v_row.stale THEN
            v_tids := v_tids || v_row.tid;
            EXIT WHEN cardinality(v_tids) = v_limit;
        END IF;
    END LOOP;
    CLOSE v_rows;
    IF cardinality(v_tids) > 0 THEN
        v_won := {schema}.sync_lock(v_current, v_tids);
    END IF;
    RETURN QUERY SELECT cardinality(v_tids)::bigint - COALESCE(cardinality(v_won), 0), v_after, v_namespace, v_name, v_fire,
        CASE WHEN v_seen < v_scan AND cardinality(v_tids) < v_limit THEN 1 ELSE 0 END::bigint;
    IF v_won IS NOT NULL THEN
        RETURN QUERY SELECT * FROM {schema}.sync_rows(v_current, v_owner, v_won);
    END IF;
END $$;

-- sync_keys marks the rows of keys, whether the index has them or not, skipping those that others have
-- locked, and returns the positions of all of them, with their indexes in the parameters.
CREATE FUNCTION {schema}.sync_keys(v_current bigint, v_owner text, v_namespaces text[], v_names text[], v_fires text[])
    RETURNS TABLE (bucket bigint, visible bigint, revision bigint, pos bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_tids tid[];
BEGIN
    SELECT array_agg(t.tid) INTO v_tids FROM unnest(v_namespaces, v_names, v_fires) u(namespace, name, fire)
        CROSS JOIN LATERAL (SELECT r.ctid AS tid FROM {schema}.timers r
            WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire FOR UPDATE SKIP LOCKED) t;
    IF v_tids IS NOT NULL THEN
        PERFORM {schema}.sync_rows(v_current, v_owner, v_tids);
    END IF;
    RETURN QUERY SELECT t.*, u.pos FROM unnest(v_namespaces, v_names, v_fires) WITH ORDINALITY u(namespace, name, fire, pos)
        CROSS JOIN LATERAL (SELECT r.bucket, r.visible, r.revision FROM {schema}.timers r
            WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire OFFSET 0) t;
END $$;

-- sync_of returns the positions of the rows that owners have marked, among the v_scan rows after a key. Its
-- first row has the last key that it read; revision 1 if that was the end.
CREATE FUNCTION {schema}.sync_of(v_current bigint, v_owners text[], v_namespace text, v_name text, v_fire text, v_scan integer)
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    e_namespace text;
    e_name text;
    e_fire text;
BEGIN
    SELECT r.namespace, r.name, r.fire INTO e_namespace, e_name, e_fire FROM {schema}.timers r
        WHERE (r.namespace, r.name, r.fire) > (v_namespace, v_name, v_fire) ORDER BY r.namespace, r.name, r.fire OFFSET v_scan - 1 LIMIT 1;
    RETURN QUERY SELECT 0::bigint, 0::bigint, e_namespace, e_name, e_fire, CASE WHEN e_name IS NULL THEN 1 ELSE 0 END::bigint;
    RETURN QUERY SELECT r.bucket, r.visible, r.namespace, r.name, r.fire, r.revision FROM {schema}.timers r
        WHERE (r.namespace, r.name, r.fire) > (v_namespace, v_name, v_fire)
            AND (e_name IS NULL OR (r.namespace, r.name, r.fire) <= (e_namespace, e_name, e_fire))
            AND r.last_sync_id = v_current AND r.sync_owner = ANY(v_owners);
END $$;

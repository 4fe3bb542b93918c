-- compatible: 1
--
-- The first schema. {schema} is the quoted name of the schema, {channel} the name as a literal.
--
-- Times are milliseconds since 1970; 9223372036854775807 is never. States: 1 scheduled, 2 retrying, 3
-- accepted, 4 paused, 5 dead, 6 firing, 7 ended, 8 note. Conditions: a revision, 0 for no row, -1 for any.
--
-- Why the functions do not depend on statistics: the table grows from nothing to millions of rows and back
-- within minutes, and the planner's statistics are minutes old. A plan that is right for an empty table (read
-- all of it) is a catastrophe for a full one, and it stays, as plans are cached. So no plan here depends on
-- estimates. Each function switches off the plan types that it does not want; a lookup by keys is LATERAL, so
-- that the keys come first; a write uses ctids in a function where only ctid scans are possible. jit is off
-- because a plan with something switched off counts as expensive, and would be compiled each time.

-- One sequence gives all revisions, in blocks: a statement takes a block and counts within it, so that its
-- writes have consecutive numbers and no statement waits for another. 2^47 blocks last for four centuries at
-- ten thousand statements a second.
CREATE SEQUENCE {schema}.revisions AS bigint INCREMENT BY 65536 START WITH 65536 CACHE 1;

-- Each writer has a number, and takes a new one after each write with an unknown outcome. A claim for recent
-- writes uses the number to leave out the caller's own. 0 is no particular writer. Numbers repeat after two
-- thousand million.
CREATE SEQUENCE {schema}.writers AS integer CYCLE;

-- xid is the transaction that wrote the row, and writer is the writer's number: see claim. last_sync_id and
-- sync_owner are for a store that puts an index in front of this one. Columns are sorted by size to avoid
-- padding.
CREATE TABLE {schema}.timers (
    bucket       bigint   NOT NULL,
    visible      bigint   NOT NULL,
    revision     bigint   NOT NULL,
    generation   bigint   NOT NULL,
    due          bigint   NOT NULL,
    xid          bigint   NOT NULL,
    last_sync_id bigint   NOT NULL DEFAULT 0,
    writer       integer  NOT NULL DEFAULT 0,
    state        smallint NOT NULL,
    criticality  smallint NOT NULL DEFAULT 0,
    namespace    text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    fire         text COLLATE "C" NOT NULL,
    labels       jsonb,
    body         bytea,
    sync_owner   text,
    CONSTRAINT timers_by_key PRIMARY KEY (namespace, name, fire)
) WITH (
    -- Every write moves an entry of timers_by_visible, so space reserved for updates in place would be
    -- unused: pages are filled. Dead rows are vacuumed early and without pauses. A table that was large is
    -- not truncated, as that would lock out all others for a moment.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, vacuum_truncate = off
);

-- The order of attention. The bucket does not come first: one ordered read serves any set of buckets, and
-- skips a row of another bucket in a fraction of a microsecond. An index by bucket would need one scan per
-- bucket and page, and a sort of the results. xid is included so that a claim with Since skips older rows
-- without reading the table.
CREATE INDEX timers_by_visible ON {schema}.timers (visible, namespace, name, fire, xid) WHERE visible < 9223372036854775807;

-- Lists of rows that are not scheduled, which are few.
CREATE INDEX timers_by_state ON {schema}.timers (state, namespace, name, fire) WHERE state <> 1;

CREATE TABLE {schema}.records (
    ended     bigint NOT NULL,
    seq       bigint NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    body      bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
CREATE INDEX records_by_time ON {schema}.records (namespace, ended, seq);
CREATE INDEX records_by_timer ON {schema}.records (namespace, name, ended, seq);

-- The number of rows of each namespace and state, and of records of each hour, as sums over the slots. See
-- slot.
CREATE TABLE {schema}.tallies (
    namespace text COLLATE "C" NOT NULL, state smallint NOT NULL, slot smallint NOT NULL, rows bigint NOT NULL,
    PRIMARY KEY (namespace, state, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
CREATE TABLE {schema}.hours (
    hour bigint NOT NULL, slot smallint NOT NULL, records bigint NOT NULL,
    PRIMARY KEY (hour, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

CREATE TABLE {schema}.leases (
    name  text COLLATE "C" PRIMARY KEY,
    owner text   NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,
    until bigint NOT NULL DEFAULT 0,
    data  bytea
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- The greatest revisions of removed rows, as the maximum over the slots. See bury.
CREATE TABLE {schema}.graves (
    slot smallint PRIMARY KEY, revision bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- now_ms is the store's clock: the wall clock of the server, truncated to a millisecond.
CREATE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- slot returns the lowest number that no other transaction uses, and reserves it until this transaction ends.
-- Each writer counts in rows of its own, so none waits for another's commit, and there are as many rows as
-- there ever were concurrent writers.
CREATE FUNCTION {schema}.slot() RETURNS smallint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR i IN 0..63 LOOP
        IF pg_try_advisory_xact_lock(hashtext({channel} || ' slots'), i) THEN
            RETURN i;
        END IF;
    END LOOP;
    RETURN 64 + pg_backend_pid() % 64; -- very many writers: some may wait
END $$;

CREATE FUNCTION {schema}.tally(v_namespaces text[], v_states smallint[], v_counts bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_slot smallint;
BEGIN
    IF cardinality(v_namespaces) = 0 THEN
        RETURN;
    END IF;
    v_slot := {schema}.slot();
    INSERT INTO {schema}.tallies AS t (namespace, state, slot, rows)
        SELECT u.namespace, u.state, v_slot, sum(u.n) FROM unnest(v_namespaces, v_states, v_counts) u(namespace, state, n)
        GROUP BY 1, 2 HAVING sum(u.n) <> 0
        ON CONFLICT (namespace, state, slot) DO UPDATE SET rows = t.rows + excluded.rows;
END $$;

CREATE FUNCTION {schema}.count_hours(v_hours bigint[], v_counts bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_slot smallint := {schema}.slot();
BEGIN
    INSERT INTO {schema}.hours AS t (hour, slot, records)
        SELECT u.hour, v_slot, sum(u.n) FROM unnest(v_hours, v_counts) u(hour, n) GROUP BY 1
        ON CONFLICT (hour, slot) DO UPDATE SET records = t.records + excluded.records;
END $$;

-- keep writes the records of those changes that were not refused.
CREATE FUNCTION {schema}.keep(v_base bigint, v_refused integer[], v_of integer[], v_offs integer[], v_namespaces text[], v_names text[],
    v_ended bigint[], v_bodies bytea[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_hours bigint[];
    v_counts bigint[];
BEGIN
    INSERT INTO {schema}.records (ended, seq, namespace, name, body)
        SELECT u.ended, v_base + u.off, u.namespace, u.name, u.body
        FROM unnest(v_of, v_offs, v_namespaces, v_names, v_ended, v_bodies) u(of, off, namespace, name, ended, body)
        WHERE v_refused IS NULL OR u.of NOT IN (SELECT r FROM unnest(v_refused) r);
    SELECT array_agg(c.hour), array_agg(c.n) INTO v_hours, v_counts FROM (
        SELECT u.ended / 3600000 AS hour, count(*) AS n FROM unnest(v_of, v_ended) u(of, ended)
        WHERE v_refused IS NULL OR u.of NOT IN (SELECT r FROM unnest(v_refused) r) GROUP BY 1) c;
    IF v_hours IS NOT NULL THEN
        PERFORM {schema}.count_hours(v_hours, v_counts);
    END IF;
END $$;

-- Revisions of a name increase, also over deletes: a receiver remembers the greatest token that it has seen.
-- A change of a row takes its revision when the row is locked, or has the previous revision as its condition.
-- A create takes its revision before the row exists, and then may wait: for a transaction that creates the
-- same key with a later revision, and for another that removes it again. So a remove first records the
-- revision of its row (bury), and a create checks whether a later revision than its own was removed in
-- between (outlived). In this rare case it takes a new revision, which is the greatest, as no other
-- transaction can get past its row now.
CREATE FUNCTION {schema}.bury(v_revision bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF v_revision IS NULL THEN
        RETURN; -- nothing was removed
    END IF;
    INSERT INTO {schema}.graves AS g (slot, revision) VALUES ({schema}.slot(), v_revision)
        ON CONFLICT (slot) DO UPDATE SET revision = excluded.revision WHERE g.revision < excluded.revision;
END $$;

CREATE FUNCTION {schema}.outlived(v_base bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN COALESCE((SELECT max(g.revision) FROM {schema}.graves g), 0) > v_base;
END $$;

-- renew_rows gives rows that this transaction has just added, those whose offsets are in done, revisions of
-- another block.
CREATE FUNCTION {schema}.renew_rows(v_old bigint, v_new bigint, v_done integer[], v_offs integer[], v_namespaces text[], v_names text[], v_fires text[])
    RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    UPDATE {schema}.timers t SET revision = v_new + u.off, generation = CASE t.generation WHEN t.revision THEN v_new + u.off ELSE t.generation END
        FROM unnest(v_offs, v_namespaces, v_names, v_fires) u(off, namespace, name, fire)
        WHERE u.off IN (SELECT d FROM unnest(v_done) d) AND t.namespace = u.namespace AND t.name = u.name AND t.fire = u.fire
            AND t.revision = v_old + u.off;
END $$;

-- insert_rows adds the rows whose act is 1 if they do not exist, and returns the offsets of those that it
-- added, and the block of revisions to use from then on. With v_bold it does not check first, which saves a
-- third of the time, and an existing row is a unique_violation that ends the transaction.
CREATE FUNCTION {schema}.insert_rows(v_bold boolean, INOUT v_base bigint, v_xid bigint, v_writer integer, v_acts smallint[], v_offs integer[], v_namespaces text[], v_names text[], v_fires text[],
    v_buckets bigint[], v_visibles bigint[], v_generations bigint[], v_states smallint[], v_dues bigint[], v_criticalities smallint[],
    v_labels text[], v_bodies bytea[], OUT v_done integer[]) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_fresh bigint;
BEGIN
    IF v_bold THEN
        INSERT INTO {schema}.timers (bucket, visible, revision, generation, due, xid, writer, state, criticality, namespace, name, fire, labels, body)
            SELECT u.bucket, u.visible, v_base + u.off, CASE u.generation WHEN 0 THEN v_base + u.off ELSE u.generation END, u.due, v_xid, v_writer,
                u.state, u.criticality, u.namespace, u.name, u.fire, u.labels::jsonb, u.body
            FROM unnest(v_acts, v_offs, v_namespaces, v_names, v_fires, v_buckets, v_visibles, v_generations, v_states, v_dues, v_criticalities,
                v_labels, v_bodies) u(act, off, namespace, name, fire, bucket, visible, generation, state, due, criticality, labels, body)
            WHERE u.act = 1;
        SELECT array_agg(u.off) INTO v_done FROM unnest(v_acts, v_offs) u(act, off) WHERE u.act = 1;
    ELSE
        WITH done AS (
            INSERT INTO {schema}.timers (bucket, visible, revision, generation, due, xid, writer, state, criticality, namespace, name, fire, labels, body)
                SELECT u.bucket, u.visible, v_base + u.off, CASE u.generation WHEN 0 THEN v_base + u.off ELSE u.generation END, u.due, v_xid, v_writer,
                    u.state, u.criticality, u.namespace, u.name, u.fire, u.labels::jsonb, u.body
                FROM unnest(v_acts, v_offs, v_namespaces, v_names, v_fires, v_buckets, v_visibles, v_generations, v_states, v_dues, v_criticalities,
                    v_labels, v_bodies) u(act, off, namespace, name, fire, bucket, visible, generation, state, due, criticality, labels, body)
                WHERE u.act = 1
                ON CONFLICT (namespace, name, fire) DO NOTHING
                RETURNING (revision - v_base)::integer AS off
        )
        SELECT COALESCE(array_agg(off), '{}') INTO v_done FROM done;
    END IF;
    IF cardinality(v_done) > 0 AND {schema}.outlived(v_base) THEN
        v_fresh := nextval({revisions});
        PERFORM {schema}.renew_rows(v_base, v_fresh, v_done, v_offs, v_namespaces, v_names, v_fires);
        v_base := v_fresh;
    END IF;
END $$;

-- update_rows overwrites the rows at the tids that still have the revisions with the rows whose act is 2, and
-- returns the offsets of those that it wrote.
CREATE FUNCTION {schema}.update_rows(v_base bigint, v_xid bigint, v_writer integer, v_acts smallint[], v_offs integer[], v_tids tid[], v_revisions bigint[],
    v_buckets bigint[], v_visibles bigint[], v_generations bigint[], v_states smallint[], v_dues bigint[], v_criticalities smallint[],
    v_labels text[], v_bodies bytea[]) RETURNS integer[] LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_done integer[];
BEGIN
    WITH done AS (
        UPDATE {schema}.timers t SET bucket = u.bucket, visible = u.visible, revision = v_base + u.off,
                generation = CASE u.generation WHEN 0 THEN v_base + u.off ELSE u.generation END, due = u.due, xid = v_xid, writer = v_writer, state = u.state,
                criticality = u.criticality, labels = u.labels::jsonb, body = u.body
            FROM unnest(v_acts, v_offs, v_tids, v_revisions, v_buckets, v_visibles, v_generations, v_states, v_dues, v_criticalities,
                v_labels, v_bodies) u(act, off, tid, revision, bucket, visible, generation, state, due, criticality, labels, body)
            WHERE u.act = 2 AND t.ctid = u.tid AND t.revision = u.revision
            RETURNING u.off
    )
    SELECT COALESCE(array_agg(off), '{}') INTO v_done FROM done;
    RETURN v_done;
END $$;

-- delete_rows removes the rows at the tids that still have the revisions and whose act is 3, and returns the
-- offsets of those that it removed.
CREATE FUNCTION {schema}.delete_rows(v_acts smallint[], v_offs integer[], v_tids tid[], v_revisions bigint[]) RETURNS integer[] LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_done integer[];
BEGIN
    PERFORM {schema}.bury((SELECT max(u.revision) FROM unnest(v_acts, v_revisions) u(act, revision) WHERE u.act = 3));
    WITH done AS (
        DELETE FROM {schema}.timers t USING unnest(v_acts, v_offs, v_tids, v_revisions) u(act, off, tid, revision)
            WHERE u.act = 3 AND t.ctid = u.tid AND t.revision = u.revision
            RETURNING u.off
    )
    SELECT COALESCE(array_agg(off), '{}') INTO v_done FROM done;
    RETURN v_done;
END $$;

-- apply_plain makes creates (act 1), updates (2) and deletes (3) with the condition of a revision, each of
-- another key, in the order of keys. Nearly all calls need only this. off is a change's index in the block of
-- revisions, and identifies it in the answer: the refused changes, with the existing revisions.
--
-- Deadlocks. A transaction that waits for a row holds no later one. A call of one kind processes its rows in
-- the order of keys. A call of several kinds first locks the existing rows, in that order. Then it creates
-- rows, and may wait only for a transaction that has created the same key or is about to end. Then it updates
-- and deletes the rows that it has locked, without waiting.
CREATE FUNCTION {schema}.apply_plain(v_acts smallint[], v_offs integer[], v_namespaces text[], v_names text[], v_fires text[], v_conditions bigint[],
    v_buckets bigint[], v_visibles bigint[], v_generations bigint[], v_states smallint[], v_dues bigint[], v_criticalities smallint[],
    v_labels text[], v_bodies bytea[], v_log_of integer[], v_log_offs integer[], v_log_namespaces text[], v_log_names text[],
    v_log_ended bigint[], v_log_bodies bytea[], v_writer integer, v_bold boolean, OUT base bigint, OUT refused integer[],
    OUT refused_revisions bigint[]) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_xid bigint := pg_current_xact_id()::text::bigint;
    v_creates boolean := 1 = ANY(v_acts);
    v_updates boolean := 2 = ANY(v_acts);
    v_deletes boolean := 3 = ANY(v_acts);
    v_tids tid[];
    v_were smallint[];
    v_done integer[] := '{}';
    v_all boolean;
    t_namespaces text[];
    t_states smallint[];
    t_counts bigint[];
BEGIN
    IF v_creates::integer + v_updates::integer + v_deletes::integer > 1 THEN
        SELECT array_agg(t.tid), array_agg(t.state) INTO v_tids, v_were
            FROM unnest(v_namespaces, v_names, v_fires, v_conditions) u(namespace, name, fire, revision)
            LEFT JOIN LATERAL (SELECT r.ctid AS tid, r.state FROM {schema}.timers r
                WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire AND r.revision = u.revision FOR UPDATE) t ON true;
    ELSIF v_updates OR v_deletes THEN
        SELECT array_agg(t.tid), array_agg(t.state) INTO v_tids, v_were
            FROM unnest(v_namespaces, v_names, v_fires, v_conditions) u(namespace, name, fire, revision)
            LEFT JOIN LATERAL (SELECT r.ctid AS tid, r.state FROM {schema}.timers r
                WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire AND r.revision = u.revision OFFSET 0) t ON true;
    END IF;
    base := nextval({revisions});
    IF v_creates THEN
        SELECT i.v_base, i.v_done INTO base, v_done FROM {schema}.insert_rows(v_bold, base, v_xid, v_writer, v_acts, v_offs, v_namespaces, v_names, v_fires, v_buckets,
            v_visibles, v_generations, v_states, v_dues, v_criticalities, v_labels, v_bodies) i;
    END IF;
    IF v_deletes THEN
        v_done := v_done || {schema}.delete_rows(v_acts, v_offs, v_tids, v_conditions);
    END IF;
    IF v_updates THEN
        v_done := v_done || {schema}.update_rows(base, v_xid, v_writer, v_acts, v_offs, v_tids, v_conditions, v_buckets, v_visibles, v_generations, v_states,
            v_dues, v_criticalities, v_labels, v_bodies);
    END IF;
    v_all := cardinality(v_done) = cardinality(v_offs);
    IF NOT v_all THEN
        SELECT array_agg(u.off), array_agg(COALESCE(t.revision, 0)) INTO refused, refused_revisions
            FROM unnest(v_offs, v_namespaces, v_names, v_fires) u(off, namespace, name, fire)
            LEFT JOIN LATERAL (SELECT r.revision FROM {schema}.timers r
                WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire OFFSET 0) t ON true
            WHERE u.off NOT IN (SELECT d FROM unnest(v_done) d);
        -- A create that was refused because of a row that has disappeared since would confuse its caller. And
        -- a row that was found by its key, but is not at its tid, has moved with the same revision: an index
        -- has marked it (see last_sync_id).
        PERFORM 1 FROM unnest(refused, refused_revisions) x(off, revision), unnest(v_offs, v_acts, v_conditions) u(off, act, condition)
            WHERE u.off = x.off AND (u.act = 1 AND x.revision = 0 OR u.act <> 1 AND x.revision = u.condition);
        IF FOUND THEN
            RAISE EXCEPTION 'a row was created and removed, or moved, during this call' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF v_all AND NOT v_updates AND NOT (v_creates AND v_deletes) THEN
        SELECT array_agg(x.namespace), array_agg(x.state), array_agg(x.n) INTO t_namespaces, t_states, t_counts FROM (
            SELECT u.namespace, u.state, CASE WHEN v_creates THEN count(*) ELSE -count(*) END AS n
            FROM unnest(v_namespaces, CASE WHEN v_creates THEN v_states ELSE v_were END) u(namespace, state) GROUP BY 1, 2) x;
    ELSE
        SELECT array_agg(namespace), array_agg(state), array_agg(n) INTO t_namespaces, t_states, t_counts FROM (
            SELECT u.namespace, s.state, sum(s.n)::bigint AS n
            FROM unnest(v_acts, v_offs, v_namespaces, v_states, v_were) u(act, off, namespace, state, was)
            CROSS JOIN LATERAL (VALUES (u.state, 1), (u.was, -1)) s(state, n)
            WHERE s.state IS NOT NULL AND (u.act <> 2 OR u.was <> u.state) AND (v_all OR u.off NOT IN (SELECT r FROM unnest(refused) r))
            GROUP BY 1, 2) x;
    END IF;
    IF t_namespaces IS NOT NULL THEN
        PERFORM {schema}.tally(t_namespaces, t_states, t_counts);
    END IF;
    IF cardinality(v_log_of) > 0 THEN
        PERFORM {schema}.keep(base, refused, v_log_of, v_log_offs, v_log_namespaces, v_log_names, v_log_ended, v_log_bodies);
    END IF;
END $$;

-- apply_full makes all other changes, too: any revision (condition -1), keep (act 4), and additional rows,
-- which are entries of their own with the position of their change as owner (0 for a change). It locks all
-- rows first, in the order of keys. A row that did not exist then, but exists when it is to be written, is a
-- conflict that ends the transaction, unless the change is a create, which is refused. had contains the
-- changes of condition -1 that found a row, with its revision.
CREATE FUNCTION {schema}.apply_full(v_acts smallint[], v_offs integer[], v_namespaces text[], v_names text[], v_fires text[], v_conditions bigint[],
    v_buckets bigint[], v_visibles bigint[], v_generations bigint[], v_states smallint[], v_dues bigint[], v_criticalities smallint[],
    v_labels text[], v_bodies bytea[], v_log_of integer[], v_log_offs integer[], v_log_namespaces text[], v_log_names text[],
    v_log_ended bigint[], v_log_bodies bytea[], v_writer integer, v_owners integer[], OUT base bigint, OUT refused integer[], OUT refused_revisions bigint[],
    OUT had integer[], OUT had_revisions bigint[]) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    n integer := cardinality(v_acts);
    v_xid bigint := pg_current_xact_id()::text::bigint;
    v_tids tid[];
    v_have bigint[];
    v_were smallint[];
    v_yes boolean[] := array_fill(false, ARRAY[n]);
    v_do smallint[] := array_fill(0::smallint, ARRAY[n]);
    v_detached smallint[] := array_fill(0::smallint, ARRAY[n]);
    v_done integer[];
    v_missed integer[];
    v_block bigint;
    v_writes integer := 0;
    t_namespaces text[] := '{}';
    t_states smallint[] := '{}';
    t_counts bigint[] := '{}';
BEGIN
    SELECT array_agg(t.tid), array_agg(COALESCE(t.revision, 0)), array_agg(t.state) INTO v_tids, v_have, v_were
        FROM unnest(v_namespaces, v_names, v_fires) u(namespace, name, fire)
        LEFT JOIN LATERAL (SELECT r.ctid AS tid, r.revision, r.state FROM {schema}.timers r
            WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire FOR UPDATE) t ON true;
    base := nextval({revisions});
    FOR i IN 1..n LOOP
        IF v_owners[i] = 0 AND v_conditions[i] IN (-1, v_have[i]) THEN
            v_yes[i] := true;
            IF v_acts[i] = 1 THEN
                v_do[i] := CASE v_have[i] WHEN 0 THEN 1 ELSE 2 END;
            ELSIF v_acts[i] = 3 AND v_have[i] <> 0 THEN
                v_do[i] := 3;
            END IF;
        END IF;
    END LOOP;
    IF 1 = ANY(v_do) THEN
        SELECT i.v_base, i.v_done INTO base, v_done FROM {schema}.insert_rows(false, base, v_xid, v_writer, v_do, v_offs, v_namespaces, v_names, v_fires, v_buckets,
            v_visibles, v_generations, v_states, v_dues, v_criticalities, v_labels, v_bodies) i;
        SELECT array_agg(u.pos) INTO v_missed FROM unnest(v_do, v_offs) WITH ORDINALITY u(act, off, pos)
            WHERE u.act = 1 AND u.off NOT IN (SELECT d FROM unnest(v_done) d);
        IF v_missed IS NOT NULL THEN
            FOR i IN 1..cardinality(v_missed) LOOP
                IF v_conditions[v_missed[i]] = -1 THEN
                    RAISE EXCEPTION 'a row was created during this call' USING ERRCODE = 'serialization_failure';
                END IF;
                v_yes[v_missed[i]] := false;
                v_do[v_missed[i]] := 0;
                v_have[v_missed[i]] := (SELECT r.revision FROM {schema}.timers r
                    WHERE r.namespace = v_namespaces[v_missed[i]] AND r.name = v_names[v_missed[i]] AND r.fire = v_fires[v_missed[i]]);
                IF v_have[v_missed[i]] IS NULL THEN
                    RAISE EXCEPTION 'a row was created and removed during this call' USING ERRCODE = 'serialization_failure';
                END IF;
            END LOOP;
        END IF;
    END IF;
    FOR i IN 1..n LOOP
        IF v_owners[i] = 0 THEN
            IF NOT v_yes[i] THEN
                refused := refused || v_offs[i];
                refused_revisions := refused_revisions || v_have[i];
            ELSIF v_conditions[i] = -1 AND v_have[i] <> 0 THEN
                had := had || v_offs[i];
                had_revisions := had_revisions || v_have[i];
            END IF;
        ELSIF v_yes[v_owners[i]] THEN
            IF v_have[i] = 0 THEN
                v_detached[i] := 1;
            ELSE
                v_do[i] := 2;
            END IF;
        END IF;
        IF v_do[i] IN (2, 3) THEN
            v_writes := v_writes + 1;
            t_namespaces := t_namespaces || v_namespaces[i];
            t_states := t_states || v_were[i];
            t_counts := t_counts || -1::bigint;
        END IF;
        IF v_do[i] IN (1, 2) OR v_detached[i] = 1 THEN
            t_namespaces := t_namespaces || v_namespaces[i];
            t_states := t_states || v_states[i];
            t_counts := t_counts || 1::bigint;
        END IF;
    END LOOP;
    IF 1 = ANY(v_detached) THEN
        SELECT i.v_base, i.v_done INTO v_block, v_done FROM {schema}.insert_rows(false, base, v_xid, v_writer, v_detached, v_offs, v_namespaces, v_names, v_fires, v_buckets,
            v_visibles, v_generations, v_states, v_dues, v_criticalities, v_labels, v_bodies) i;
        IF v_block <> base THEN -- the creates above have returned their revisions
            RAISE EXCEPTION 'a row was created and removed during this call' USING ERRCODE = 'serialization_failure';
        END IF;
        IF cardinality(v_done) <> (SELECT count(*) FROM unnest(v_detached) b WHERE b = 1) THEN
            RAISE EXCEPTION 'a row was created during this call' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF v_writes > 0 THEN
        v_done := {schema}.delete_rows(v_do, v_offs, v_tids, v_have)
            || {schema}.update_rows(base, v_xid, v_writer, v_do, v_offs, v_tids, v_have, v_buckets, v_visibles, v_generations, v_states, v_dues,
                v_criticalities, v_labels, v_bodies);
        IF cardinality(v_done) <> v_writes THEN
            RAISE EXCEPTION 'a locked row has changed' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    PERFORM {schema}.tally(t_namespaces, t_states, t_counts);
    IF cardinality(v_log_of) > 0 THEN
        PERFORM {schema}.keep(base, refused, v_log_of, v_log_offs, v_log_namespaces, v_log_names, v_log_ended, v_log_bodies);
    END IF;
END $$;

-- alone keeps all other transactions from writing rows until this one ends. It is for a call that had
-- repeated conflicts.
CREATE FUNCTION {schema}.alone() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    LOCK TABLE {schema}.timers IN EXCLUSIVE MODE; -- not SHARE ROW EXCLUSIVE: transactions that have locked rows must finish first
END $$;

-- The buckets of a claim are those from v_low to v_high: all of them, or those whose bit is set in v_bits
-- (v_low is the first), or those in v_some, if they are too far apart for bits. If v_namespaces is null, all
-- namespaces are included.
CREATE FUNCTION {schema}.era() RETURNS bigint LANGUAGE sql STABLE
    AS $$ SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint % 32749 $$;

-- claim reads a window. Its first row contains the clock (visible) and the token (revision), with an empty
-- bucket.
--
-- The clock is read before the rows, by a separate statement: every statement of a volatile function has its
-- own snapshot. So the answer contains every row that is visible by that clock and was committed before.
--
-- The token. Revisions are given before commits, so a transaction may commit revisions that are smaller than
-- some that a claim has seen; "all revisions since" would miss them. What a snapshot does not contain was
-- written by transactions that were running (not below its xmin) or had not begun. So the token is the xmin
-- of a snapshot taken no later than that of the rows, and every row contains the number of the transaction
-- that wrote it. A claim with a token also leaves out the writes of v_writer. The upper bits of the token
-- identify the start of the server: a server that took over after a failover has its own transaction numbers,
-- so tokens of another server are invalid.
CREATE FUNCTION {schema}.claim(v_low bigint, v_high bigint, v_bits bytea, v_some bigint[], v_after bigint, v_namespace text, v_name text, v_fire text,
    v_ahead bigint, v_since bigint, v_writer integer, v_limit integer, v_bytes bigint, v_namespaces text[])
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea) LANGUAGE plpgsql VOLATILE
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
        NULL::smallint, NULL::bigint, NULL::smallint, NULL::jsonb, NULL::bytea;
    IF v_bytes = 0 THEN
        RETURN QUERY SELECT t.bucket, t.visible, t.namespace, t.name, t.fire, t.revision, t.generation, t.state, t.due, t.criticality, t.labels, t.body
            FROM {schema}.timers t
            WHERE (t.visible, t.namespace, t.name, t.fire) > (v_after, v_namespace, v_name, v_fire) AND t.visible <= v_until
                AND t.visible < 9223372036854775807 AND t.xid >= v_from AND t.writer <> v_mine
                AND CASE WHEN t.bucket BETWEEN v_low AND v_high THEN CASE WHEN v_bits IS NOT NULL THEN get_bit(v_bits, (t.bucket - v_low)::integer) = 1
                    WHEN v_some IS NOT NULL THEN t.bucket = ANY(v_some) ELSE true END ELSE false END
                AND (v_namespaces IS NULL OR t.namespace = ANY(v_namespaces))
            ORDER BY t.visible, t.namespace, t.name, t.fire LIMIT v_limit;
    ELSE
        RETURN QUERY SELECT d.bucket, d.visible, d.namespace, d.name, d.fire, d.revision, d.generation, d.state, d.due, d.criticality, d.labels, d.body FROM (
            SELECT c.*, sum(octet_length(c.body)) OVER (ROWS UNBOUNDED PRECEDING) - octet_length(c.body) AS before FROM (
                SELECT t.* FROM {schema}.timers t
                WHERE (t.visible, t.namespace, t.name, t.fire) > (v_after, v_namespace, v_name, v_fire) AND t.visible <= v_until
                    AND t.visible < 9223372036854775807 AND t.xid >= v_from AND t.writer <> v_mine
                    AND CASE WHEN t.bucket BETWEEN v_low AND v_high THEN CASE WHEN v_bits IS NOT NULL THEN get_bit(v_bits, (t.bucket - v_low)::integer) = 1
                        WHEN v_some IS NOT NULL THEN t.bucket = ANY(v_some) ELSE true END ELSE false END
                AND (v_namespaces IS NULL OR t.namespace = ANY(v_namespaces))
                ORDER BY t.visible, t.namespace, t.name, t.fire LIMIT v_limit) c) d
            WHERE d.before < v_bytes;
    END IF;
END $$;

-- hold_rows moves the rows at the tids, which are locked, to the end of their hold.
CREATE FUNCTION {schema}.hold_rows(v_base bigint, v_until bigint, v_tids tid[], v_were bigint[])
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_xid bigint := pg_current_xact_id()::text::bigint;
BEGIN
    RETURN QUERY UPDATE {schema}.timers t SET visible = v_until, revision = v_base + u.pos, xid = v_xid, writer = 0
        FROM unnest(v_tids, v_were) WITH ORDINALITY u(tid, was, pos) WHERE t.ctid = u.tid
        RETURNING t.bucket, u.was, t.namespace, t.name, t.fire, t.revision, t.generation, t.state, t.due, t.criticality, t.labels, t.body;
END $$;

-- claim_hold takes the rows of a window: it locks them, skipping those that others have locked, and then
-- moves them to the end of the hold under new revisions. It returns the same as claim, in any order; visible
-- is the previous one.
CREATE FUNCTION {schema}.claim_hold(v_low bigint, v_high bigint, v_bits bytea, v_some bigint[], v_after bigint, v_namespace text, v_name text, v_fire text,
    v_ahead bigint, v_since bigint, v_writer integer, v_limit integer, v_bytes bigint, v_namespaces text[], v_hold bigint)
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea) LANGUAGE plpgsql VOLATILE
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
        NULL::smallint, NULL::bigint, NULL::smallint, NULL::jsonb, NULL::bytea;
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
        RETURN QUERY SELECT * FROM {schema}.hold_rows(nextval({revisions}), LEAST(v_hold, 9223372036854775807 - v_now) + v_now, v_tids, v_were);
    END IF;
END $$;

-- fetch returns the rows of keys, with their positions in the parameters.
CREATE FUNCTION {schema}.fetch(v_namespaces text[], v_names text[], v_fires text[])
    RETURNS TABLE (bucket bigint, visible bigint, namespace text, name text, fire text, revision bigint, generation bigint, state smallint, due bigint,
        criticality smallint, labels jsonb, body bytea, pos bigint) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT t.*, u.pos FROM unnest(v_namespaces, v_names, v_fires) WITH ORDINALITY u(namespace, name, fire, pos)
        CROSS JOIN LATERAL (SELECT r.bucket, r.visible, r.namespace, r.name, r.fire, r.revision, r.generation, r.state, r.due, r.criticality, r.labels, r.body
            FROM {schema}.timers r WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire OFFSET 0) t;
END $$;

-- revisions_of returns the revisions of keys, in their order; 0 if there is no row.
CREATE FUNCTION {schema}.revisions_of(v_namespaces text[], v_names text[], v_fires text[]) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN (SELECT array_agg(COALESCE(t.revision, 0)) FROM unnest(v_namespaces, v_names, v_fires) u(namespace, name, fire)
        LEFT JOIN LATERAL (SELECT r.revision FROM {schema}.timers r
            WHERE r.namespace = u.namespace AND r.name = u.name AND r.fire = u.fire OFFSET 0) t ON true);
END $$;

-- raise makes revisions continue above a given one. Sequences have no locks: the advisory lock serializes
-- raises, and the distance leaves room for revisions that others take during the call.
CREATE FUNCTION {schema}.raise(v_revision bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext({channel} || ' raise'), 0);
    IF (SELECT last_value FROM {schema}.revisions) <= v_revision THEN
        PERFORM setval({revisions}, v_revision + 4294967296);
    END IF;
END $$;

-- lock takes or renews leases. The names are sorted and unique. The clock is read when all rows are locked,
-- so that waiting for them shortens no lease.
CREATE FUNCTION {schema}.lock(v_owner text, v_ttl bigint, v_names text[], v_ifs bigint[], v_datas bytea[])
    RETURNS TABLE (name text, owner text, epoch bigint, until bigint, data bytea) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_now bigint;
    v_there integer;
BEGIN
    LOOP
        SELECT count(t.epoch) INTO v_there FROM unnest(v_names) u(name)
            CROSS JOIN LATERAL (SELECT l.epoch FROM {schema}.leases l WHERE l.name = u.name FOR UPDATE) t;
        EXIT WHEN v_there = cardinality(v_names);
        INSERT INTO {schema}.leases (name) SELECT u.name FROM unnest(v_names) u(name) ON CONFLICT DO NOTHING;
    END LOOP;
    v_now := {schema}.now_ms();
    RETURN QUERY SELECT * FROM {schema}.take(v_owner, v_now, LEAST(v_ttl, 9223372036854775807 - v_now) + v_now, v_names, v_ifs, v_datas);
END $$;

CREATE FUNCTION {schema}.take(v_owner text, v_now bigint, v_until bigint, v_names text[], v_ifs bigint[], v_datas bytea[])
    RETURNS TABLE (name text, owner text, epoch bigint, until bigint, data bytea) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    FOR i IN 1..cardinality(v_names) LOOP
        UPDATE {schema}.leases l SET owner = v_owner, until = v_until, data = v_datas[i],
                epoch = CASE WHEN v_ifs[i] = 0 AND l.until > v_now AND l.owner = v_owner THEN l.epoch ELSE l.epoch + 1 END
            WHERE l.name = v_names[i] AND CASE v_ifs[i] WHEN 0 THEN l.until <= v_now OR l.owner = v_owner ELSE l.epoch = v_ifs[i] END;
        RETURN QUERY SELECT l.name, l.owner, l.epoch, l.until, l.data FROM {schema}.leases l WHERE l.name = v_names[i];
    END LOOP;
END $$;

CREATE FUNCTION {schema}.unlock(v_owner text, v_names text[]) RETURNS void LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_name text;
BEGIN
    FOREACH v_name IN ARRAY v_names LOOP
        UPDATE {schema}.leases l SET until = LEAST(l.until, {schema}.now_ms()) WHERE l.name = v_name AND l.owner = v_owner;
    END LOOP;
END $$;

-- hint notifies nodes of a row that needs attention immediately. An application that writes timers in its own
-- transaction calls it there. Transactions that notify commit one at a time, under a lock of the whole
-- server: rouse itself does not use it, and a bulk load should not.
CREATE FUNCTION {schema}.hint() RETURNS void LANGUAGE sql VOLATILE AS $$ SELECT pg_notify({channel}, '') $$;

-- trim_hour deletes up to v_limit records of an hour. Trims run one at a time, so that a record that one
-- finds still exists when it is deleted.
CREATE FUNCTION {schema}.trim_hour(v_hour bigint, v_limit integer) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tids tid[];
    v_gone bigint := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext({channel} || ' trim'), 0);
    v_tids := ARRAY(
        WITH RECURSIVE spaces AS (
            (SELECT r.namespace FROM {schema}.records r ORDER BY r.namespace LIMIT 1)
            UNION ALL
            SELECT (SELECT r.namespace FROM {schema}.records r WHERE r.namespace > s.namespace ORDER BY r.namespace LIMIT 1)
                FROM spaces s WHERE s.namespace IS NOT NULL
        )
        SELECT t.tid FROM spaces s CROSS JOIN LATERAL (SELECT r.ctid AS tid FROM {schema}.records r
            WHERE r.namespace = s.namespace AND r.ended >= v_hour * 3600000 AND r.ended < (v_hour + 1) * 3600000
            ORDER BY r.ended, r.seq LIMIT v_limit) t LIMIT v_limit);
    IF cardinality(v_tids) > 0 THEN
        v_gone := {schema}.delete_records(v_tids);
    END IF;
    IF v_gone < v_limit THEN
        PERFORM {schema}.end_hour(v_hour);
    END IF;
    RETURN v_gone;
END $$;

-- trim_timer deletes up to v_limit records of a timer except its newest v_keep.
CREATE FUNCTION {schema}.trim_timer(v_namespace text, v_name text, v_keep integer, v_limit integer) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tids tid[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext({channel} || ' trim'), 0);
    v_tids := ARRAY(SELECT r.ctid FROM {schema}.records r WHERE r.namespace = v_namespace AND r.name = v_name
        ORDER BY r.namespace DESC, r.name DESC, r.ended DESC, r.seq DESC OFFSET v_keep LIMIT v_limit);
    IF cardinality(v_tids) = 0 THEN
        RETURN 0;
    END IF;
    RETURN {schema}.delete_records(v_tids);
END $$;

CREATE FUNCTION {schema}.delete_records(v_tids tid[]) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_hours bigint[];
    v_counts bigint[];
    v_gone bigint;
    v_hour bigint;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.records r USING unnest(v_tids) u(tid) WHERE r.ctid = u.tid RETURNING r.ended / 3600000 AS hour
    ), counted AS (
        SELECT hour, count(*) AS n FROM gone GROUP BY 1
    )
    SELECT array_agg(hour), array_agg(-n), COALESCE(sum(n), 0) INTO v_hours, v_counts, v_gone FROM counted;
    IF v_hours IS NOT NULL THEN
        PERFORM {schema}.count_hours(v_hours, v_counts);
        FOREACH v_hour IN ARRAY v_hours LOOP
            PERFORM {schema}.end_hour(v_hour);
        END LOOP;
    END IF;
    RETURN v_gone;
END $$;

-- end_hour removes the counters of an hour if their sum is zero. It skips a counter that another transaction
-- is writing.
CREATE FUNCTION {schema}.end_hour(v_hour bigint) RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_slots smallint[];
    v_sum bigint;
BEGIN
    SELECT array_agg(l.slot), sum(l.records) INTO v_slots, v_sum FROM (
        SELECT h.slot, h.records FROM {schema}.hours h WHERE h.hour = v_hour FOR UPDATE SKIP LOCKED) l;
    IF v_sum = 0 THEN
        DELETE FROM {schema}.hours h WHERE h.hour = v_hour AND h.slot = ANY(v_slots);
    END IF;
END $$;

-- compatible: 1
--
-- Timers in the caller's own transaction: create_timer and delete_timer are for every role that writes SQL,
-- and require only the right to execute them. Their effect happens when the caller commits, and never if it
-- does not. This migration only adds to the schema, so nodes of the previous version continue to work.
--
-- The work is done at commit, and not before, because a row that a transaction has written is locked until
-- the transaction ends. A node settles many timers in one transaction: a caller that replaces a timer, and
-- then waits for something else, would keep the node from writing anything at all. So a call records the
-- request in a table on which no node waits, and a deferred trigger executes it immediately before the
-- commit.

-- pending contains the requests of open transactions. Only its own transaction sees, writes and removes a
-- row, so the table need not survive a crash or be readable on a standby. mode is the mode of create_timer,
-- or delete.
CREATE UNLOGGED TABLE {schema}.pending (
    xid         bigint   NOT NULL,
    generation  bigint   NOT NULL,
    due         bigint   NOT NULL,
    bucket      bigint   NOT NULL,
    criticality smallint NOT NULL,
    namespace   text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    mode        text     NOT NULL,
    body        bytea,
    PRIMARY KEY (xid, namespace, name, generation)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- bucket_of returns the bucket of a timer, of v_buckets: the FNV-1a hash of namespace, a zero byte and name,
-- as nodes compute it.
CREATE FUNCTION {schema}.bucket_of(v_namespace text, v_name text, v_buckets bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_bytes bytea := convert_to(v_namespace, 'UTF8') || '\x00'::bytea || convert_to(v_name, 'UTF8');
    v_hash bigint := 2166136261;
BEGIN
    IF v_buckets <= 1 THEN
        RETURN 0;
    END IF;
    FOR i IN 0..octet_length(v_bytes) - 1 LOOP
        v_hash := ((v_hash # get_byte(v_bytes, i)) * 16777619) & 4294967295;
    END LOOP;
    RETURN v_hash % v_buckets;
END $$;

-- buckets returns the number of buckets, which the first node records. Before that it is 1: the first bucket
-- always exists.
CREATE FUNCTION {schema}.buckets() RETURNS bigint LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_data bytea;
BEGIN
    SELECT l.data INTO v_data FROM {schema}.leases l WHERE l.name = 'setting/buckets' AND l.epoch > 0;
    IF NOT FOUND THEN
        RETURN 1;
    END IF;
    RETURN convert_from(v_data, 'UTF8')::bigint;
END $$;

-- check_key refuses what rouse does not accept as a namespace or as the name of a timer.
CREATE FUNCTION {schema}.check_key(v_namespace text, v_name text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_wrong text;
BEGIN
    IF v_namespace IS NULL OR v_namespace COLLATE "C" !~ '^[a-z0-9][a-z0-9_.-]{0,63}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'namespace',
            MESSAGE = format('namespace %s is no namespace', COALESCE('"' || left(v_namespace, 80) || '"', 'NULL')),
            HINT = 'use 1 to 64 of a-z, 0-9, ''-'', ''_'', ''.'', with a letter or digit first';
    END IF;
    v_wrong := CASE
        WHEN v_name IS NULL OR v_name = '' THEN 'is missing'
        WHEN octet_length(v_name) > 256 THEN format('has %s bytes, more than 256', octet_length(v_name))
        WHEN v_name COLLATE "C" ~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]' THEN 'contains a control character'
        WHEN v_name COLLATE "C" ~ '^[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]|[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]$'
            THEN 'begins or ends with a space'
    END;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s %s', COALESCE('"' || left(v_name, 80) || '"', 'NULL'), v_wrong),
            HINT = 'use 1 to 256 bytes of printable UTF-8, without a space at either end';
    END IF;
END $$;

-- check_spec refuses what does not have the form of a spec, and returns its criticality. Only rouse can
-- interpret the texts: a timer with, for example, an invalid schedule is created, and a node pauses it with
-- the reason when it reads it.
CREATE FUNCTION {schema}.check_spec(v_spec jsonb) RETURNS smallint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_kinds CONSTANT jsonb := '{"schedule": "string", "also": "array", "except": "array", "timezone": "string", "dst": "string", "calendar": "object",
        "start": "string", "end": "string", "ttl": "string", "max_occurrences": "number", "jitter": "string", "target": "string", "payload": "any",
        "payload_base64": "string", "content_type": "string", "labels": "object", "retry": "object", "misfire": "string", "overlap": "string",
        "deadline": "string", "priority": "string", "keep": "string", "webhook": "object", "criticality": "number"}';
    v_member text;
    v_value jsonb;
    v_wrong text;
    v_cure text;
BEGIN
    IF v_spec IS NULL OR jsonb_typeof(v_spec) <> 'object' THEN
        v_wrong := format('is %s, not an object', COALESCE(jsonb_typeof(v_spec), 'NULL'));
        v_cure := 'give one such as {"schedule": "@after 90s", "target": "https://example.com/hook"}';
    ELSIF octet_length(v_spec::text) > 1048576 THEN
        v_wrong := format('has %s bytes, more than 1048576', octet_length(v_spec::text));
        v_cure := 'keep what is large elsewhere and send its address';
    END IF;
    IF v_wrong IS NULL THEN
        FOREACH v_member IN ARRAY ARRAY['schedule', 'target'] LOOP
            IF COALESCE(v_spec -> v_member, 'null') IN ('null', '""') THEN
                v_wrong := 'is missing';
                v_cure := 'every timer needs one';
                EXIT;
            END IF;
            v_member := NULL;
        END LOOP;
    END IF;
    IF v_wrong IS NULL THEN
        FOR v_member, v_value IN SELECT e.key, e.value FROM jsonb_each(v_spec) e LOOP
            IF v_kinds ->> v_member IS NULL THEN
                v_wrong := 'is unknown';
                v_cure := 'leave it out; there are ' || (SELECT string_agg(k, ', ' ORDER BY k) FROM jsonb_object_keys(v_kinds) k);
            ELSIF v_kinds ->> v_member NOT IN ('any', jsonb_typeof(v_value)) AND v_value <> 'null' THEN
                v_wrong := 'is ' || left(v_value::text, 80);
                v_cure := 'give a JSON ' || (v_kinds ->> v_member);
            ELSIF v_member = 'criticality' AND v_value <> 'null' AND (v_value::numeric NOT BETWEEN 0 AND 9 OR v_value::numeric <> trunc(v_value::numeric)) THEN
                v_wrong := 'is ' || left(v_value::text, 80) || ', out of bounds';
                v_cure := 'use 0, for ordinary timers, to 9';
            END IF;
            EXIT WHEN v_wrong IS NOT NULL;
        END LOOP;
    END IF;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = COALESCE(left(v_member, 80), 'spec'),
            MESSAGE = COALESCE('spec: "' || left(v_member, 80) || '"', 'spec') || ' ' || v_wrong, HINT = v_cure;
    END IF;
    RETURN COALESCE((v_spec ->> 'criticality')::numeric, 0)::smallint;
END $$;

-- progress reads from a row's body what ends with the row if it is removed or replaced: the requested runs,
-- and of the occurrence that is in progress (attempts is not 0), whether it is one of them, and why it last
-- failed. For a body of a format other than versions 1 and 2, all results are NULL.
CREATE FUNCTION {schema}.progress(v_body bytea, OUT manual boolean, OUT runs bigint[], OUT attempts bigint, OUT last_error text) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_at integer := 1;
    v_byte integer;
    v_shift integer;
    v_n bigint; -- the number that was read
    v_kind text;
    v_left bigint;
BEGIN
    IF octet_length(v_body) < 2 OR get_byte(v_body, 0) NOT IN (1, 2) THEN
        RETURN;
    END IF;
    -- The fields of a body in order: n a number, t a text, b a byte, h pairs of texts, f flags, r the runs, a
    -- the attempts, e the error.
    FOREACH v_kind IN ARRAY string_to_array('f t t t t t n n n n n n b t n h t n n n r a n e', ' ') LOOP
        IF v_kind = 'b' THEN
            v_at := v_at + 1;
            CONTINUE;
        END IF;
        v_left := 0; -- what follows a number: numbers (r), or texts
        LOOP
            v_n := 0;
            v_shift := 0;
            LOOP
                v_byte := get_byte(v_body, v_at);
                v_at := v_at + 1;
                v_n := v_n | ((v_byte & 127)::bigint << v_shift);
                v_shift := v_shift + 7;
                EXIT WHEN v_byte < 128;
            END LOOP;
            CASE v_kind
                WHEN 'f' THEN manual := v_n & 2 <> 0;
                WHEN 'a' THEN attempts := v_n;
                WHEN 't' THEN v_at := v_at + v_n;
                WHEN 'e' THEN last_error := convert_from(substr(v_body, v_at + 1, v_n::integer), 'UTF8');
                WHEN 'h' THEN
                    v_left := 2 * v_n;
                    v_kind := 'H';
                WHEN 'H' THEN
                    v_at := v_at + v_n;
                    v_left := v_left - 1;
                WHEN 'r' THEN
                    runs := '{}';
                    v_left := v_n;
                    v_kind := 'R';
                WHEN 'R' THEN -- its lowest bit is the sign
                    runs := runs || (((v_n >> 1) & 9223372036854775807) # -(v_n & 1));
                    v_left := v_left - 1;
                ELSE NULL;
            END CASE;
            EXIT WHEN v_left = 0;
        END LOOP;
    END LOOP;
END $$;

-- number encodes a number that is not negative in the format of records.
CREATE FUNCTION {schema}.number(v_n bigint) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_out bytea := '';
BEGIN
    WHILE v_n > 127 LOOP
        v_out := v_out || set_byte('\x00', 0, (v_n & 127 | 128)::integer);
        v_n := v_n >> 7;
    END LOOP;
    RETURN v_out || set_byte('\x00', 0, v_n::integer);
END $$;

-- skipped encodes the record of an occurrence that was given up: ending 3, with a reason, and the number of
-- its attempts.
CREATE FUNCTION {schema}.skipped(v_generation bigint, v_due bigint, v_manual boolean, v_attempts bigint, v_ended bigint, v_why text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_reason bytea;
BEGIN
    FOR i IN REVERSE 256..0 LOOP
        v_reason := convert_to(left(v_why, i), 'UTF8');
        EXIT WHEN octet_length(v_reason) <= 256;
    END LOOP;
    RETURN '\x0203'::bytea || CASE WHEN v_manual THEN '\x01'::bytea ELSE '\x00'::bytea END || {schema}.number(v_generation) || {schema}.number(2 * v_due)
        || '\x0000'::bytea || {schema}.number(2 * v_ended) || '\x00'::bytea || {schema}.number(v_attempts) || '\x00'::bytea
        || {schema}.number(octet_length(v_reason)) || v_reason || '\x0000'::bytea;
END $$;

-- cut_off ends what is in progress of a timer that is about to be removed or replaced: it removes the rows of
-- its occurrences in progress, and writes a record for each of them and for the one in the timer's own row,
-- so that nothing ends silently. An attempt that a node is making is recorded by that node. cut_off locks the
-- timer's row, and returns its state, NULL if there is none, and the number of rows that it has removed.
CREATE FUNCTION {schema}.cut_off(v_namespace text, v_name text, v_why text, OUT was smallint, OUT detached integer) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_hashjoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_row record;
    v_is record;
    v_now bigint;
    v_begun boolean;
    v_run bigint;
    v_revision bigint;
    v_fires text[] := '{}';
    v_records bytea[] := '{}';
BEGIN
    FOR v_row IN SELECT t.fire, t.state, t.due, t.generation, t.body FROM {schema}.timers t
        WHERE t.namespace = v_namespace AND t.name = v_name AND (t.fire = '' OR t.state = 6) ORDER BY t.namespace, t.name, t.fire FOR UPDATE
    LOOP
        v_now := {schema}.now_ms() + 1;
        SELECT * INTO v_is FROM {schema}.progress(v_row.body);
        IF v_row.fire = '' THEN
            was := v_row.state;
        ELSE
            v_fires := v_fires || v_row.fire;
        END IF;
        v_begun := v_row.fire <> '' OR COALESCE(v_is.attempts <> 0, v_row.state IN (2, 3));
        IF v_begun THEN
            v_records := v_records || {schema}.skipped(v_row.generation, CASE WHEN v_is.manual THEN COALESCE(v_is.runs[1], v_row.due) ELSE v_row.due END,
                COALESCE(v_is.manual, false), COALESCE(v_is.attempts, 0), v_now, v_why || COALESCE(': ' || NULLIF(v_is.last_error, ''), ''));
        END IF;
        CONTINUE WHEN v_row.fire <> '' OR v_is.runs IS NULL;
        FOREACH v_run IN ARRAY v_is.runs LOOP
            IF NOT (v_begun AND v_is.manual AND v_run = v_is.runs[1]) THEN
                v_records := v_records || {schema}.skipped(v_row.generation, v_run, true, 0, v_now, v_why);
            END IF;
        END LOOP;
    END LOOP;
    detached := cardinality(v_fires);
    IF detached > 0 THEN
        WITH gone AS (
            DELETE FROM {schema}.timers t WHERE t.namespace = v_namespace AND t.name = v_name AND t.fire = ANY(v_fires) RETURNING t.revision
        )
        SELECT max(revision) INTO v_revision FROM gone;
        PERFORM {schema}.bury(v_revision);
    END IF;
    IF cardinality(v_records) > 0 THEN
        INSERT INTO {schema}.records (ended, seq, namespace, name, body)
            SELECT v_now, s.base + u.pos, v_namespace, v_name, u.body FROM (SELECT nextval({revisions}) AS base OFFSET 0) s, unnest(v_records) WITH ORDINALITY u(body, pos);
        PERFORM {schema}.count_hours(ARRAY[v_now / 3600000]::bigint[], ARRAY[cardinality(v_records)]::bigint[]);
    END IF;
END $$;

-- settle_pending executes all requests of its transaction the first time that it is called. It uses the order
-- of keys, as nodes do, so that concurrent commits wait for each other in one direction only.
CREATE FUNCTION {schema}.settle_pending() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
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
    PERFORM 1 FROM {schema}.pending p WHERE p.xid = NEW.xid AND p.namespace = NEW.namespace AND p.name = NEW.name AND p.generation = NEW.generation;
    IF NOT FOUND THEN
        RETURN NULL; -- already done
    END IF;
    FOR v_want IN SELECT * FROM {schema}.pending p WHERE p.xid = NEW.xid ORDER BY p.xid, p.namespace, p.name, p.generation LOOP
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
    RETURN NULL;
END $$;

-- taken raises the error that the name of a new timer is taken.
CREATE FUNCTION {schema}.taken(v_namespace text, v_name text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'unique_violation', SCHEMA = {channel}, TABLE = 'timers', CONSTRAINT = 'timers_by_key',
        MESSAGE = format('timer "%s" already exists in namespace %s', v_name, v_namespace),
        HINT = 'use another name, or mode => ''replace'', or mode => ''ensure'' to leave it as it is';
END $$;

-- No row of pending may stay behind, so the trigger also fires in sessions with triggers switched off.
CREATE CONSTRAINT TRIGGER settle AFTER INSERT ON {schema}.pending DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.settle_pending();
ALTER TABLE {schema}.pending ENABLE ALWAYS TRIGGER settle;

-- wanted returns the state of a name for the caller: the last request of its transaction, else the existing
-- timer. NULL is none.
CREATE FUNCTION {schema}.wanted(v_namespace text, v_name text) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_generation bigint;
BEGIN
    SELECT CASE WHEN p.mode <> 'delete' THEN p.generation END INTO v_generation FROM {schema}.pending p
        WHERE p.xid = pg_current_xact_id_if_assigned()::text::bigint AND p.namespace = v_namespace AND p.name = v_name
        ORDER BY p.xid DESC, p.namespace DESC, p.name DESC, p.generation DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT t.generation INTO v_generation FROM {schema}.timers t WHERE t.namespace = v_namespace AND t.name = v_name AND t.fire = '';
    END IF;
    RETURN v_generation;
END $$;

-- create_timer creates a timer in the caller's transaction, and returns its generation: the timer exists and
-- fires only if the transaction commits. The spec is the one of the HTTP API. @after and intervals count from
-- this call.
--
--   mode    what to do if the name is taken: 'create' fails with unique_violation; 'replace' begins a new generation, and the
--           old one does not fire any more; 'ensure' leaves the timer unchanged and returns its generation
--   hint    whether nodes are notified at commit, so that they read the timer immediately; if not, they find it within their
--           poll interval (a second). Transactions that notify commit one at a time, in the whole server: a bulk load should not
--
-- If another transaction takes the name between the call and the commit, the commit decides: under 'create'
-- it fails with unique_violation, under 'ensure' the other timer stays.
--
-- The row that is written is a draft: a byte, and the spec, due now. A node turns it into a timer.
CREATE FUNCTION {schema}.create_timer(namespace text, name text, spec jsonb, mode text DEFAULT 'create', hint boolean DEFAULT true) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_namespace text := $1;
    v_name text := $2;
    v_mode text := $4;
    v_criticality smallint;
    v_generation bigint;
BEGIN
    PERFORM {schema}.check_key(v_namespace, v_name);
    v_criticality := {schema}.check_spec($3);
    IF v_mode IS NULL OR v_mode NOT IN ('create', 'replace', 'ensure') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'mode',
            MESSAGE = format('mode %s is none', COALESCE('"' || left(v_mode, 80) || '"', 'NULL')), HINT = 'use create, replace or ensure';
    END IF;
    IF v_mode <> 'replace' THEN
        v_generation := {schema}.wanted(v_namespace, v_name);
        IF v_generation IS NOT NULL AND v_mode = 'ensure' THEN
            RETURN v_generation;
        ELSIF v_generation IS NOT NULL THEN
            PERFORM {schema}.taken(v_namespace, v_name);
        END IF;
    END IF;
    v_generation := nextval({revisions});
    INSERT INTO {schema}.pending (xid, generation, due, bucket, criticality, namespace, name, mode, body)
        -- The clock is truncated: a delay that is counted from there would end early.
        VALUES (pg_current_xact_id()::text::bigint, v_generation, {schema}.now_ms() + 1, {schema}.bucket_of(v_namespace, v_name, {schema}.buckets()),
            v_criticality, v_namespace, v_name, v_mode, '\x4a'::bytea || convert_to($3::text, 'UTF8'));
    IF COALESCE($5, true) THEN
        PERFORM {schema}.hint();
    END IF;
    RETURN v_generation;
END $$;

-- delete_timer removes a timer in the caller's transaction, with its occurrences in progress, and returns
-- whether there was one. Dead letters stay. After the commit no attempt starts; one that has started may
-- still arrive.
CREATE FUNCTION {schema}.delete_timer(namespace text, name text) RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_namespace text := $1;
    v_name text := $2;
BEGIN
    PERFORM {schema}.check_key(v_namespace, v_name);
    IF {schema}.wanted(v_namespace, v_name) IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO {schema}.pending (xid, generation, due, bucket, criticality, namespace, name, mode)
        VALUES (pg_current_xact_id()::text::bigint, nextval({revisions}), 0, 0, 0, v_namespace, v_name, 'delete');
    RETURN true;
END $$;

-- By default, every role may execute functions. These run with their owner's rights, so execution is granted
-- explicitly.
REVOKE ALL ON FUNCTION {schema}.create_timer(text, text, jsonb, text, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.delete_timer(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.settle_pending() FROM PUBLIC;

-- compatible: 1
--
-- A timer that is deleted or replaced while its occurrence is due and has not begun leaves a record of it, as one
-- that is being tried does, and the records have their causes. This migration only replaces functions, and nodes
-- of previous versions continue to work.

DROP FUNCTION {schema}.progress(bytea);

-- progress reads from a row's body what ends with the row if it is removed or replaced: the requested runs; of
-- the occurrence that is in progress (attempts is not 0), whether it is one of them, and why it last failed; the
-- timeout of an attempt in milliseconds, 0 for the default; whether the timer is due only once; and when its pause
-- began, and ends (0: before all, and never). paused is NULL where that is behind what is read: after earlier
-- pauses, or with an occurrence in progress. For a body of a format other than versions 1 and 2, all results are NULL.
CREATE FUNCTION {schema}.progress(v_body bytea, OUT manual boolean, OUT runs bigint[], OUT attempts bigint, OUT last_error text, OUT timeout bigint,
    OUT once boolean, OUT paused bigint, OUT until bigint) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_at integer := 1;
    v_byte integer;
    v_shift integer;
    v_n bigint; -- the number that was read
    v_signed bigint; -- the same, if its lowest bit is the sign
    v_kind text;
    v_next integer := 1;
    v_left bigint;
    v_more boolean := false; -- there are earlier pauses
    -- The fields of a body in order: n a number, t a text, b a byte, h pairs of texts, l a list of texts, f flags, s
    -- the schedule, o the timeout, r the runs, a the attempts, e the error, p which parts follow, m more schedules, u
    -- the end of the pause and g its beginning, z what is 0 without an occurrence in progress.
    v_kinds text[] := string_to_array('f s t t t t n n n n o n b t n h t n n n r a n e n', ' ');
BEGIN
    IF octet_length(v_body) < 2 OR get_byte(v_body, 0) NOT IN (1, 2) THEN
        RETURN;
    END IF;
    paused := 0;
    until := 0;
    IF get_byte(v_body, 0) = 2 THEN
        v_kinds := v_kinds || 'p'::text;
    END IF;
    WHILE v_next <= cardinality(v_kinds) LOOP
        v_kind := v_kinds[v_next];
        v_next := v_next + 1;
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
            v_signed := ((v_n >> 1) & 9223372036854775807) # -(v_n & 1);
            CASE v_kind
                WHEN 'f' THEN manual := v_n & 2 <> 0;
                WHEN 'a' THEN attempts := v_n;
                WHEN 'o' THEN timeout := v_signed / 1000000;
                WHEN 'u' THEN until := v_signed;
                WHEN 'g' THEN paused := v_signed;
                WHEN 'z' THEN
                    IF v_n <> 0 THEN
                        paused := NULL;
                    END IF;
                WHEN 't' THEN v_at := v_at + v_n;
                WHEN 's' THEN
                    once := convert_from(substr(v_body, v_at + 1, v_n::integer), 'UTF8') ~ '^(@after |aws:at[(]|[0-9]{4}-)';
                    v_at := v_at + v_n;
                WHEN 'e' THEN
                    last_error := convert_from(substr(v_body, v_at + 1, v_n::integer), 'UTF8');
                    v_at := v_at + v_n;
                WHEN 'h' THEN
                    v_left := 2 * v_n;
                    v_kind := 'T';
                WHEN 'l' THEN
                    v_left := v_n;
                    v_kind := 'T';
                WHEN 'm' THEN
                    once := once AND v_n = 0;
                    v_left := v_n;
                    v_kind := 'T';
                WHEN 'T' THEN
                    v_at := v_at + v_n;
                    v_left := v_left - 1;
                WHEN 'r' THEN
                    runs := '{}';
                    v_left := v_n;
                    v_kind := 'R';
                WHEN 'R' THEN
                    runs := runs || v_signed;
                    v_left := v_left - 1;
                WHEN 'p' THEN
                    v_kinds := string_to_array(concat_ws(' ', CASE WHEN v_n & 1 <> 0 THEN 'm l t n n n n n' END, CASE WHEN v_n & 2 <> 0 THEN 'l l b' END,
                        CASE WHEN v_n & 4 <> 0 THEN 'n n' END, CASE WHEN v_n & 8 <> 0 THEN 'n n n n n' END, CASE WHEN v_n & 16 <> 0 THEN 'u n g n n z' END), ' ');
                    v_next := 1;
                    v_more := v_n & 16384 <> 0;
                ELSE NULL;
            END CASE;
            EXIT WHEN v_left = 0;
        END LOOP;
    END LOOP;
    IF v_more OR attempts <> 0 THEN
        paused := NULL;
    END IF;
END $$;

DROP FUNCTION {schema}.skipped(bigint, bigint, boolean, bigint, bigint, text);

-- skipped encodes the record of an occurrence that was given up: version 3, ending 3, with a reason, the number of
-- its attempts, and a cause.
CREATE FUNCTION {schema}.skipped(v_generation bigint, v_due bigint, v_manual boolean, v_attempts bigint, v_ended bigint, v_why text,
    v_cause integer) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_reason bytea;
BEGIN
    FOR i IN REVERSE 256..0 LOOP
        v_reason := convert_to(left(v_why, i), 'UTF8');
        EXIT WHEN octet_length(v_reason) <= 256;
    END LOOP;
    RETURN '\x0303'::bytea || CASE WHEN v_manual THEN '\x01'::bytea ELSE '\x00'::bytea END || {schema}.number(v_generation) || {schema}.number(2 * v_due)
        || '\x0000'::bytea || {schema}.number(2 * v_ended) || '\x00'::bytea || {schema}.number(v_attempts) || '\x00'::bytea
        || {schema}.number(octet_length(v_reason)) || v_reason || '\x0000'::bytea || set_byte('\x00', 0, v_cause);
END $$;

-- cut_later adds the row that records at a time how an occurrence ended with its timer, unless its own record is
-- there by then: its first attempt may be out. It is a body of version 2 with little in it but why, and the cause. No
-- other row has its key.
CREATE FUNCTION {schema}.cut_later(v_bucket bigint, v_namespace text, v_name text, v_generation bigint, v_due bigint, v_manual boolean, v_attempts bigint,
    v_at bigint, v_why text, v_cause integer) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_revision bigint := nextval({revisions});
BEGIN
    INSERT INTO {schema}.timers (bucket, visible, revision, generation, due, xid, state, namespace, name, fire, body)
        VALUES (v_bucket, v_at, v_revision, v_generation, v_due, pg_current_xact_id()::text::bigint, 8, v_namespace, v_name,
            format(E'%s/%s%s\x01cut', v_generation, v_due, CASE WHEN v_manual THEN 'm' END),
            '\x02'::bytea || CASE WHEN v_manual THEN '\x02'::bytea ELSE '\x00'::bytea END || decode(repeat('00', 15), 'hex')
                || {schema}.number(octet_length(v_why)) || convert_to(v_why, 'UTF8') || decode(repeat('00', 4), 'hex')
                || {schema}.number(v_attempts) || '\x000000'::bytea || '\x4004'::bytea
                || set_byte('\x00', 0, v_cause));
    PERFORM {schema}.tally(ARRAY[v_namespace], ARRAY[8::smallint], ARRAY[1::bigint]);
END $$;

-- cut_off ends what is due or in progress of a timer that is about to be removed or replaced: it removes the rows
-- of its occurrences in progress, and writes a record for each of them and for the one in the timer's own row, so
-- that nothing ends silently. The record of an occurrence whose first attempt a node may be making is left to that
-- node for a minute and the time of an attempt. Of several that are due only the first one is known here.
-- cut_off locks the timer's row, and returns its state, NULL if there is none, and the number of rows that it has
-- removed.
CREATE OR REPLACE FUNCTION {schema}.cut_off(v_namespace text, v_name text, v_why text, OUT was smallint, OUT detached integer) LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_hashjoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_row record;
    v_is record;
    v_now bigint;
    v_begun boolean;
    v_word text := split_part(v_why, ' ', 1);
    v_cause integer := CASE v_word WHEN 'deleted' THEN 9 ELSE 10 END;
    v_later bigint;
    v_run bigint;
    v_revision bigint;
    v_fires text[] := '{}';
    v_records bytea[] := '{}';
BEGIN
    FOR v_row IN SELECT t.bucket, t.fire, t.state, t.due, t.generation, t.body FROM {schema}.timers t
        WHERE t.namespace = v_namespace AND t.name = v_name AND (t.fire = '' OR t.state = 6) ORDER BY t.namespace, t.name, t.fire FOR UPDATE
    LOOP
        v_now := {schema}.now_ms() + 1;
        SELECT * INTO v_is FROM {schema}.progress(v_row.body);
        IF v_row.fire = '' THEN
            was := v_row.state;
        ELSE
            v_fires := v_fires || v_row.fire;
        END IF;
        v_later := v_now + 60000 + COALESCE(NULLIF(v_is.timeout, 0), 30000);
        v_begun := v_row.fire <> '' OR COALESCE(v_is.attempts <> 0, v_row.state IN (2, 3));
        IF v_begun AND v_row.fire = '' AND v_row.state <> 3 AND v_is.last_error = '' THEN -- none has failed: it was counted before it was sent
            PERFORM {schema}.cut_later(v_row.bucket, v_namespace, v_name, v_row.generation, CASE WHEN v_is.manual THEN v_is.runs[1] ELSE v_row.due END,
                v_is.manual, v_is.attempts, v_later, v_word || ' while it may have been sent', v_cause);
        ELSIF v_begun THEN
            v_records := v_records || {schema}.skipped(v_row.generation, CASE WHEN v_is.manual THEN COALESCE(v_is.runs[1], v_row.due) ELSE v_row.due END,
                COALESCE(v_is.manual, false), COALESCE(v_is.attempts, 0), v_now, v_why || COALESCE(': ' || NULLIF(v_is.last_error, ''), ''), v_cause);
        ELSIF v_row.state = 4 AND NOT v_is.once AND v_row.due < v_now AND v_row.due > v_is.paused AND (v_is.until = 0 OR v_row.due <= v_is.until) THEN
            v_records := v_records || {schema}.skipped(v_row.generation, v_row.due, false, 0, v_now, 'paused', 7);
        ELSIF v_row.state IN (1, 4) AND v_row.due < v_now AND v_is.attempts IS NOT NULL THEN -- else it is a draft, whose timer is not due yet
            PERFORM {schema}.cut_later(v_row.bucket, v_namespace, v_name, v_row.generation, v_row.due, false, 0, v_later, v_word || ' while it may have been sent', v_cause);
        END IF;
        CONTINUE WHEN v_row.fire <> '' OR v_is.runs IS NULL;
        FOREACH v_run IN ARRAY v_is.runs LOOP
            IF NOT v_begun AND v_run = v_is.runs[1] THEN
                PERFORM {schema}.cut_later(v_row.bucket, v_namespace, v_name, v_row.generation, v_run, true, 0, v_later, v_word || ' while it may have been sent', v_cause);
            ELSIF NOT (v_begun AND v_is.manual AND v_run = v_is.runs[1]) THEN
                v_records := v_records || {schema}.skipped(v_row.generation, v_run, true, 0, v_now, v_word || ' before it was sent', v_cause);
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

-- The functions are those of 0002.
DROP FUNCTION {schema}.cut_later(bigint, text, text, bigint, bigint, boolean, bigint, bigint, text, integer);
DROP FUNCTION {schema}.progress(bytea);

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

DROP FUNCTION {schema}.skipped(bigint, bigint, boolean, bigint, bigint, text, integer);

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
CREATE OR REPLACE FUNCTION {schema}.cut_off(v_namespace text, v_name text, v_why text, OUT was smallint, OUT detached integer) LANGUAGE plpgsql VOLATILE
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

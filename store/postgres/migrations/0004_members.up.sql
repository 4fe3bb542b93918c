-- compatible: 1
--
-- The members that check_spec accepts are no longer listed here: nodes write them to a setting, so that a new
-- member requires no migration. check_key accepts the same names as nodes. This migration only replaces
-- functions, and nodes of previous versions continue to work.

-- character returns the code of a character, such as U+0041.
CREATE FUNCTION {schema}.character(v_text text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'U+' || upper(lpad(to_hex(ascii(v_text)), greatest(4, length(to_hex(ascii(v_text)))), '0'))
$$;

-- check_key refuses what rouse does not accept as a namespace or as the name of a new timer.
CREATE OR REPLACE FUNCTION {schema}.check_key(v_namespace text, v_name text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_controls CONSTANT text := '\u0001-\u001f\u007f-\u009f\u061c\u200e-\u200f\u2028-\u202e\u2066-\u2069\ufffd';
    v_none CONSTANT text := '\ufdd0-\ufdef\ufffe-\uffff\U0001fffe-\U0001ffff\U0002fffe-\U0002ffff\U0003fffe-\U0003ffff\U0004fffe-\U0004ffff'
        '\U0005fffe-\U0005ffff\U0006fffe-\U0006ffff\U0007fffe-\U0007ffff\U0008fffe-\U0008ffff\U0009fffe-\U0009ffff\U000afffe-\U000affff'
        '\U000bfffe-\U000bffff\U000cfffe-\U000cffff\U000dfffe-\U000dffff\U000efffe-\U000effff\U000ffffe-\U000fffff\U0010fffe-\U0010ffff';
    v_hidden CONSTANT text := '\u00ad\u034f\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0'
        '\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff';
    v_spaces CONSTANT text := '[\u0009-\u000d \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]';
    v_text text := v_name COLLATE "C";
    v_found text;
    v_wrong text;
    v_cure text := 'use 1 to 256 bytes of printable UTF-8, without a space at either end';
BEGIN
    IF v_namespace IS NULL OR v_namespace COLLATE "C" !~ '^[a-z0-9][a-z0-9_.-]{0,63}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'namespace',
            MESSAGE = format('namespace %s: is no namespace', COALESCE('"' || left(v_namespace, 80) || '"', 'NULL')),
            HINT = 'use 1 to 64 of a-z, 0-9, ''-'', ''_'', ''.'', with a letter or digit first';
    END IF;
    IF v_text IS NULL OR v_text = '' THEN
        v_wrong := 'is missing';
    ELSIF v_text COLLATE "C" ~ ('^' || v_spaces || '|' || v_spaces || '$') THEN
        v_wrong := 'begins or ends with a space';
    ELSIF octet_length(v_text) > 256 THEN
        v_wrong := format('has %s bytes, more than 256', octet_length(v_text));
    ELSE
        v_found := substring(v_text COLLATE "C" from '[' || v_controls || v_none || ']');
        IF v_found COLLATE "C" ~ ('[' || v_controls || ']') THEN
            v_wrong := 'contains the control character ' || {schema}.character(v_found);
        ELSIF v_found IS NOT NULL THEN
            v_wrong := 'contains ' || {schema}.character(v_found) || ', which is no character';
        ELSE
            v_found := substring(v_text COLLATE "C" from '[' || v_hidden || ']');
            IF v_found IS NOT NULL THEN
                v_wrong := 'contains ' || {schema}.character(v_found) || ', which cannot be seen';
                v_cure := 'leave it out';
            ELSIF v_text IS NOT NFC NORMALIZED THEN
                v_wrong := 'is not in Unicode''s normal form NFC, so another name can look the same';
                v_cure := format('write "%s"', normalize(v_text, NFC));
            ELSIF v_text COLLATE "C" ~ '(^|/)\.\.?(/|$)' THEN
                v_wrong := format('has the part "%s", which paths lose', (regexp_match(v_text COLLATE "C", '(?:^|/)(\.\.?)(?:/|$)'))[1]);
                v_cure := 'leave out "." and ".." between slashes';
            END IF;
        END IF;
    END IF;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name',
            MESSAGE = format('name %s: %s', COALESCE('"' || left(v_name, 80) || '"', 'NULL'), v_wrong), HINT = v_cure;
    END IF;
END $$;

-- check_spec refuses what does not have the form of a spec, and returns its criticality. Nodes provide the
-- members of a spec and their types: before the first node has run, all members are accepted. Only a node can
-- interpret the values: a timer with, for example, an invalid schedule is created, and a node pauses it with
-- the reason when it reads it.
CREATE OR REPLACE FUNCTION {schema}.check_spec(v_spec jsonb) RETURNS smallint LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_kinds jsonb;
    v_names CONSTANT jsonb := '{"string": "a text", "number": "a number", "array": "an array", "object": "an object", "boolean": "true or false"}';
    v_wanted CONSTANT jsonb := v_names || '{"number": "a whole number that is not negative"}';
    v_member text;
    v_value jsonb;
    v_wrong text;
    v_cure text;
BEGIN
    IF v_spec IS NULL OR jsonb_typeof(v_spec) <> 'object' THEN
        v_wrong := 'is ' || COALESCE(v_names ->> jsonb_typeof(v_spec), 'NULL');
        v_cure := 'give an object such as {"schedule": "@after 90s", "target": "https://example.com/hook"}';
    ELSIF octet_length(v_spec::text) > 1048576 THEN
        v_wrong := format('has %s bytes, more than 1048576', octet_length(v_spec::text));
        v_cure := 'keep what is large elsewhere and send its address';
    END IF;
    IF v_wrong IS NULL THEN
        SELECT convert_from(l.data, 'UTF8')::jsonb INTO v_kinds FROM {schema}.leases l WHERE l.name = 'setting/members' AND l.epoch > 0;
        FOR v_member, v_value IN SELECT e.key, e.value FROM jsonb_each(v_spec) e LOOP
            IF v_value = 'null' AND v_member <> 'payload' THEN
                v_wrong := 'is null';
                v_cure := 'leave it out, or give a value';
            ELSIF v_kinds ->> v_member IS NULL AND v_kinds IS NOT NULL THEN
                v_wrong := 'is unknown';
                v_cure := 'leave it out; there are ' || (SELECT string_agg(k, ', ' ORDER BY k) FROM jsonb_object_keys(v_kinds) k);
            ELSIF v_kinds ->> v_member NOT IN ('any', jsonb_typeof(v_value)) THEN
                v_wrong := 'is ' || (v_names ->> jsonb_typeof(v_value));
                v_cure := 'give ' || (v_wanted ->> (v_kinds ->> v_member));
            ELSIF v_member = 'criticality' AND (jsonb_typeof(v_value) <> 'number' OR v_value::numeric NOT BETWEEN 0 AND 9
                OR v_value::numeric <> trunc(v_value::numeric)) THEN
                v_wrong := 'is out of bounds';
                v_cure := 'use 0, for ordinary timers, to 9';
            END IF;
            EXIT WHEN v_wrong IS NOT NULL;
            v_member := NULL;
        END LOOP;
    END IF;
    IF v_wrong IS NULL THEN
        FOREACH v_member IN ARRAY ARRAY['schedule', 'target'] LOOP
            IF COALESCE(v_spec -> v_member, '""') = '""' THEN
                v_wrong := 'is missing';
                v_cure := 'every timer needs one';
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = COALESCE(left(v_member, 80), 'spec'),
            MESSAGE = 'spec: ' || COALESCE(left(v_member, 80) || COALESCE(' "' || left(v_spec ->> v_member, 80) || '"', '') || ': ', '') || v_wrong, HINT = v_cure;
    END IF;
    RETURN COALESCE((v_spec ->> 'criticality')::numeric, 0)::smallint;
END $$;

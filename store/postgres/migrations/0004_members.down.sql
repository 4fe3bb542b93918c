-- The functions are those of 0002, with the members that a spec had then. check_key refuses what rouse does
-- not accept as a namespace or as the name of a timer.
CREATE OR REPLACE FUNCTION {schema}.check_key(v_namespace text, v_name text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
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
CREATE OR REPLACE FUNCTION {schema}.check_spec(v_spec jsonb) RETURNS smallint LANGUAGE plpgsql IMMUTABLE AS $$
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

DROP FUNCTION {schema}.character(text);

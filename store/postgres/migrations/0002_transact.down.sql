-- Removes the functions for callers' own transactions; the timers that they created stay.
DROP FUNCTION {schema}.delete_timer(text, text);
DROP FUNCTION {schema}.create_timer(text, text, jsonb, text, boolean);
DROP FUNCTION {schema}.wanted(text, text);
DROP TABLE {schema}.pending;
DROP FUNCTION {schema}.settle_pending();
DROP FUNCTION {schema}.taken(text, text);
DROP FUNCTION {schema}.cut_off(text, text, text);
DROP FUNCTION {schema}.skipped(bigint, bigint, boolean, bigint, bigint, text);
DROP FUNCTION {schema}.number(bigint);
DROP FUNCTION {schema}.progress(bytea);
DROP FUNCTION {schema}.check_spec(jsonb);
DROP FUNCTION {schema}.check_key(text, text);
DROP FUNCTION {schema}.buckets();
DROP FUNCTION {schema}.bucket_of(text, text, bigint);

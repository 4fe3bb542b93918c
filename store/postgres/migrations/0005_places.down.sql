DROP INDEX {schema}.timers_by_due;
DROP FUNCTION {schema}.hold_at(bigint, bigint, bytea, bigint[], bigint, text, text, text, bigint, bigint, integer, integer, bigint, text[], bigint);
DROP FUNCTION {schema}.hold_rows_at(bigint, bigint, tid[], bigint[]);
DROP FUNCTION {schema}.claim_at(bigint, bigint, bytea, bigint[], bigint, text, text, text, bigint, bigint, integer, integer, bigint, text[]);
DROP FUNCTION {schema}.revisions_at(tid[]);
DROP FUNCTION {schema}.find_rows(smallint[], text[], text[], text[], bigint[], tid[]);
DROP FUNCTION {schema}.create_rows(bigint, bigint, integer, smallint[], integer[], text[], text[], text[], bigint[], bigint[], bigint[], smallint[], bigint[],
    smallint[], text[], bytea[]);
DROP FUNCTION {schema}.apply_at(smallint[], integer[], text[], text[], text[], bigint[], bigint[], bigint[], bigint[], smallint[], bigint[], smallint[],
    text[], bytea[], integer[], text[], text[], bigint[], bytea[], bigint[], bigint[], tid[], text[], smallint[], bigint[], integer);

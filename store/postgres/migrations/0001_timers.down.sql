-- Removes everything, with all timers and records.
DROP FUNCTION {schema}.end_hour(bigint);
DROP FUNCTION {schema}.delete_records(tid[]);
DROP FUNCTION {schema}.trim_timer(text, text, integer, integer);
DROP FUNCTION {schema}.trim_hour(bigint, integer);
DROP FUNCTION {schema}.hint();
DROP FUNCTION {schema}.unlock(text, text[]);
DROP FUNCTION {schema}.take(text, bigint, bigint, text[], bigint[], bytea[]);
DROP FUNCTION {schema}.lock(text, bigint, text[], bigint[], bytea[]);
DROP FUNCTION {schema}.raise(bigint);
DROP FUNCTION {schema}.revisions_of(text[], text[], text[]);
DROP FUNCTION {schema}.fetch(text[], text[], text[]);
DROP FUNCTION {schema}.claim_hold(bigint, bigint, bytea, bigint[], bigint, text, text, text, bigint, bigint, integer, integer, bigint, text[], bigint);
DROP FUNCTION {schema}.hold_rows(bigint, bigint, tid[], bigint[]);
DROP FUNCTION {schema}.claim(bigint, bigint, bytea, bigint[], bigint, text, text, text, bigint, bigint, integer, integer, bigint, text[]);
DROP FUNCTION {schema}.era();
DROP FUNCTION {schema}.alone();
DROP FUNCTION {schema}.apply_full(smallint[], integer[], text[], text[], text[], bigint[], bigint[], bigint[], bigint[], smallint[], bigint[], smallint[], text[],
    bytea[], integer[], integer[], text[], text[], bigint[], bytea[], integer, integer[]);
DROP FUNCTION {schema}.apply_plain(smallint[], integer[], text[], text[], text[], bigint[], bigint[], bigint[], bigint[], smallint[], bigint[], smallint[], text[],
    bytea[], integer[], integer[], text[], text[], bigint[], bytea[], integer, boolean);
DROP FUNCTION {schema}.delete_rows(smallint[], integer[], tid[], bigint[]);
DROP FUNCTION {schema}.update_rows(bigint, bigint, integer, smallint[], integer[], tid[], bigint[], bigint[], bigint[], bigint[], smallint[], bigint[], smallint[], text[], bytea[]);
DROP FUNCTION {schema}.insert_rows(boolean, bigint, bigint, integer, smallint[], integer[], text[], text[], text[], bigint[], bigint[], bigint[], smallint[], bigint[], smallint[],
    text[], bytea[]);
DROP FUNCTION {schema}.renew_rows(bigint, bigint, integer[], integer[], text[], text[], text[]);
DROP FUNCTION {schema}.outlived(bigint);
DROP FUNCTION {schema}.bury(bigint);
DROP FUNCTION {schema}.keep(bigint, integer[], integer[], integer[], text[], text[], bigint[], bytea[]);
DROP FUNCTION {schema}.count_hours(bigint[], bigint[]);
DROP FUNCTION {schema}.tally(text[], smallint[], bigint[]);
DROP FUNCTION {schema}.slot();
DROP FUNCTION {schema}.now_ms();
DROP TABLE {schema}.leases, {schema}.hours, {schema}.graves, {schema}.tallies, {schema}.records, {schema}.timers;
DROP SEQUENCE {schema}.writers;
DROP SEQUENCE {schema}.revisions;

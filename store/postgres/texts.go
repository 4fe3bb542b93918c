package postgres

import (
	"fmt"
	"strings"
	"time"
)

// texts contains the statements of a store, with the name of its schema.
type texts struct {
	schema                         string // quoted
	settings, leaseSettings, plans string // of a transaction
	now, fetch, revisions, raise   string
	plain, full, claim, hold       string
	at, revisionsAt                string
	alone, writer                  string
	index                          string
	lock, unlock                   string
	trimHour, trimTimer, hours     string
}

// newTexts returns the statements for a program that knows the schema's versions up to latest.
func newTexts(o *Options, latest int) texts {
	q := func(format string) string { return strings.ReplaceAll(format, "{schema}", quoteName(o.Schema)) }
	settings := func(timeout time.Duration) string {
		return fmt.Sprintf(`SELECT set_config('statement_timeout', '%d', true), set_config('lock_timeout', '%d', true),
			set_config('idle_in_transaction_session_timeout', '%d', true)`, roundUpMillis(timeout), roundUpMillis(min(timeout, o.LockTimeout)), roundUpMillis(timeout))
	}
	return texts{
		schema:   quoteName(o.Schema),
		settings: settings(o.Timeout),
		leaseSettings: settings(o.LeaseTimeout) +
			fmt.Sprintf(
				q(
					`, 1 / (SELECT COALESCE(max(version) >= %d AND max(compatible) <= %[1]d, false)::integer FROM {schema}.migrations)`), latest),
		// Lists and counts are planned each time, and use an index whatever the statistics are.
		plans: `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
			set_config('jit', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)`,
		now:       q(`SELECT {schema}.now_ms()`),
		fetch:     q(`SELECT * FROM {schema}.fetch($1, $2, $3)`),
		revisions: q(`SELECT {schema}.revisions_of($1, $2, $3)`),
		raise:     q(`SELECT {schema}.raise($1)`),
		plain: q(
			`SELECT * FROM {schema}.apply_plain($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`),
		at: q(`SELECT * FROM {schema}.apply_at($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
			$26)`),
		revisionsAt: q(`SELECT {schema}.revisions_at($1)`),
		full: q(
			`SELECT * FROM {schema}.apply_full($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`),
		writer: q(`SELECT nextval('{schema}.writers')`),
		alone:  q(`SELECT {schema}.alone()`),
		claim:  q(`SELECT * FROM {schema}.claim_at($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`),
		hold: q(`SELECT * FROM {schema}.hold_at($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, ` +
			heldFor(15) + `)`),
		index:     q(`SELECT * FROM {schema}.index_hold($1, $2, $3, $4, $5, $6, ` + heldFor(7) + `)`),
		lock:      q(`SELECT * FROM {schema}.lock($1, $2, $3, $4, $5)`),
		unlock:    q(`SELECT {schema}.unlock($1, $2)`),
		trimHour:  q(`SELECT {schema}.trim_hour($1, $2)`),
		trimTimer: q(`SELECT {schema}.trim_timer($1, $2, $3, $4)`),
		hours:     q(`SELECT hour, sum(records)::bigint FROM {schema}.hours GROUP BY hour ORDER BY hour DESC`),
	}
}

// heldFor returns the SQL for the duration of a hold: the parameter n, or until the time in the next
// parameter, as in rouse.Window.
func heldFor(n int) string {
	return fmt.Sprintf(`COALESCE(NULLIF(GREATEST($%[2]d - {schema}.now_ms(), $%[1]d / 2), $%[1]d / 2), $%[1]d)`, n, n+1)
}

// quoteName returns a name in SQL syntax.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// quoteLiteral returns a text in SQL syntax.
func quoteLiteral(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

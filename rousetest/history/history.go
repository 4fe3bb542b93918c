// Package history judges a timer service from outside. Clients, receivers and fault injectors log their calls
// and observations (Writer), one JSON object a line; Check reports which guarantees the service broke.
//
//	clients    ─ create, replace, reschedule, delete, pause, …, get, final ─┐
//	receivers  ─ fire, ack ─────────────────────────────────────────────────┼─► Writer ─► file ─► Read ─► Check ─► Report
//	injector   ─ fault, heal ───────────────────────────────────────────────┤
//	harness    ─ config, dead, record, end ─────────────────────────────────┘
//
// All times are the observers', never the service's, but for the due times that it claims; records are its
// own account, which is compared with the observations. Nothing here uses rouse's own schedules: cron
// expressions are walked minute by minute against the time zone database.
//
// A log that cannot be understood whole is unusable: Read returns an error, and such a log is never a pass.
//
// The harness must provide: one writer per timer at a time; a gen that is new for every write; a call that
// timed out is Info, not Fail; receivers log an arrival before they reply; one host, or a ClockErr of at
// least the measured offset. A pass of a history in which nothing had to arrive (Stats.Musts) proves nothing,
// so the harness should require a floor.
package history

import (
	"fmt"
	"time"
)

// History holds the events of a log, each kind in the order of the lines.
type History struct {
	Config    Config
	Puts      []Put
	Deletes   []Delete
	Pauses    []Pause
	Resumes   []Resume
	Skips     []Skip
	Runs      []Run
	Backfills []Backfill
	Redrives  []Redrive
	Limits    []Limit
	Gets      []Get
	Finals    []Final
	Fires     []Fire
	Acks      []Ack
	Deads     []Dead
	Records   []Record
	Faults    []Fault
	Heals     []Heal
	End       End
	Events    int // lines with an event
}

// Config holds the promises of the service, as the harness knows them.
type Config struct {
	MaxLate  time.Duration `json:"max_late_ms"`  // an occurrence may arrive so late
	EarlyTol time.Duration `json:"early_tol_ms"` // or so early
	// how far the observers' clocks, and the service's, may be apart
	ClockErr time.Duration `json:"clock_err_ms"`
	Recovery time.Duration `json:"recovery_ms"` // how long a fault is felt after it was healed
	// how long after a fault ended it excuses another delivery; 0: for Recovery
	Excuse time.Duration `json:"excuse_ms,omitzero"`
	// how long an attempt may be on its way after an answer of in flight
	Lease time.Duration `json:"lease_ms"`
	// the least time between a refused attempt and the next; 0: not judged
	MinBackoff     time.Duration `json:"min_backoff_ms"`
	MaxBackoff     time.Duration `json:"max_backoff_ms"`      // the longest
	AttemptTimeout time.Duration `json:"attempt_timeout_ms"`  // how long an attempt may run
	StrictDup      bool          `json:"strict_dup,omitzero"` // judge rule C6
	ZombieOK       bool          `json:"zombie_ok,omitzero"`  // a fault excuses arrivals after a delete
	// the log has all records of the service, so that an occurrence without one is judged
	Records bool `json:"records,omitzero"`
	// nodes come and go, and the log does not show all that each had: server_down and overlapped as causes
	// are not judged
	Handovers bool `json:"handovers,omitzero"`
	// its calls may take more than a second all the time: store_unavailable as a cause is not judged
	SlowStore bool `json:"slow_store,omitzero"`
	// the policy of cron where clocks are put forward or back, unless a spec sets it
	DST DST `json:"dst,omitzero"`
}

// Defaults is the Config of a log that has none; its fields stand for those that a config line leaves out.
var Defaults = Config{
	MaxLate: time.Second, Recovery: 5 * time.Second, Lease: 30 * time.Second,
	MaxBackoff: time.Minute, AttemptTimeout: 30 * time.Second, DST: Vixie,
}

// Time is a point in time in microseconds since 1970-01-01T00:00:00Z. The zero Time means "not set".
type Time int64

// At returns t as a Time, rounded down to a microsecond.
func At(t time.Time) Time { return Time(t.UnixMicro()) }

// Add returns the time d later, and stays forever if t is.
func (t Time) Add(d time.Duration) Time {
	if t == forever {
		return t
	}
	return t + Time(d.Microseconds())
}

// Sub returns how much later t is than u.
func (t Time) Sub(u Time) time.Duration {
	return time.Duration(min(int64(t-u), int64(forever)/1000)) * time.Microsecond
}

// Time returns the time in UTC.
func (t Time) Time() time.Time { return time.UnixMicro(int64(t)).UTC() }

// String returns the time as RFC 3339 in UTC; "never" for a time that does not come, "" for zero.
func (t Time) String() string {
	switch t {
	case forever:
		return "never"
	case 0:
		return ""
	}
	return t.Time().Format(timeLayout)
}

// AppendText appends the time as RFC 3339 in UTC, with microseconds.
func (t Time) AppendText(b []byte) ([]byte, error) { return t.Time().AppendFormat(b, timeLayout), nil }

// UnmarshalText reads an RFC 3339 time that is not before 1970.
func (t *Time) UnmarshalText(text []byte) error {
	var at time.Time
	if err := at.UnmarshalText(text); err != nil {
		return fmt.Errorf("%.40q is no RFC 3339 time", text)
	}
	if *t = At(at); *t <= 0 {
		return fmt.Errorf("%s is before 1970", text)
	}
	return nil
}

const timeLayout = "2006-01-02T15:04:05.000000Z"

// forever is later than every time.
const forever Time = 1<<63 - 1

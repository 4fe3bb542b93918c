package history

import "time"

// Event is a line of a history: Config, Put, Delete, Pause, Resume, Skip, Run, Backfill, Redrive, Limit, Get,
// Final, Fire, Ack, Dead, Record, Fault, Heal or End. The tags of their fields are the members of the line;
// those that are not left out when they are zero have to be there.
type Event interface{ eventLine() any }

// Res is a client's knowledge of the outcome of a call.
type Res string

const (
	OK       Res = "ok"
	NotFound Res = "notfound" // of a Get
	Fail     Res = "fail"     // surely not applied
	Info     Res = "info"     // unknown
)

// Reply is the answer of a receiver.
type Reply string

const (
	ReplyOK    Reply = "ok"
	ReplyRetry Reply = "retry" // try again
	ReplyFatal Reply = "fatal" // do not
	ReplyNone  Reply = "none"  // hung, cut or crashed; or an Ack comes later
)

// Put is a create, a replace, which also creates, or a reschedule, which keeps all of a timer but when it is
// due.
type Put struct {
	Replace    bool   `json:"-"`
	Reschedule bool   `json:"-"` // a pause goes on
	Timer      string `json:"timer"`
	// the client's number of the write, which the payload carries; or the observer of a reschedule knows it
	Gen  uint64 `json:"gen"`
	Spec Spec   `json:"spec"`
	T0   Time   `json:"t0"` // the call began
	T1   Time   `json:"t1"` // the answer came, or was given up
	Res  Res    `json:"res"`
	Due  Time   `json:"due,omitzero"` // the first due time in the answer, if it had one
	// of a replace or reschedule: the answer reported that an attempt of the old generation may still arrive
	InFlight bool `json:"inflight,omitzero"`
}

// Spec is when a timer is due: At, Every or Cron; and after Delay if none of them is set.
type Spec struct {
	At    Time          `json:"at,omitzero"`
	Delay time.Duration `json:"delay_ms,omitzero"`
	Every time.Duration `json:"every_ms,omitzero"`
	// of Every: the first occurrence; zero: the first is one interval after the write. Of Cron: none is
	// earlier
	Start Time `json:"start,omitzero"`
	// five fields; six, or "cron6:" and six, with seconds first; or a word such as @daily
	Cron string `json:"cron,omitzero"`
	TZ   string `json:"tz,omitzero"`  // of Cron; empty is UTC
	DST  DST    `json:"dst,omitzero"` // of Cron; empty is the config's
	// of Every and Cron: dates, as YYYY-MM-DD in TZ, without occurrences
	Except []string `json:"except,omitzero"`
	// of Every and Cron: days of the week, as sun to sat, and dates without occurrences
	Off     []string      `json:"off,omitzero"`
	Until   Time          `json:"until,omitzero"`     // no occurrence is later
	Count   int           `json:"count,omitzero"`     // so many occurrences at most; 0: no bound
	Jitter  time.Duration `json:"jitter_ms,omitzero"` // an occurrence is sent up to so much later than due
	Misfire Misfire       `json:"misfire,omitzero"`
	Within  time.Duration `json:"within_ms,omitzero"` // of MisfireWithin
	Overlap Overlap       `json:"overlap,omitzero"`   // empty: not known, not judged
	// no attempt starts later than so long after it was to be sent; 0: none
	Deadline    time.Duration `json:"deadline_ms,omitzero"`
	MaxAttempts int           `json:"max_attempts,omitzero"` // 0: not known, not judged
	// an occurrence does not begin before the previous one is done
	Serial bool `json:"serial,omitzero"`
	// the Limit that bounds its attempts, with those of others, and the key that they count for
	Limit    string `json:"limit,omitzero"`
	LimitKey string `json:"limit_key,omitzero"`
}

// isOrdered reports whether no two occurrences are in progress at once.
func (s *Spec) isOrdered() bool {
	return s.Serial || s.Overlap == OverlapWait || s.Overlap == OverlapSkip
}

// isRecurring reports whether there may be more than one occurrence.
func (s *Spec) isRecurring() bool { return s.Every != 0 || s.Cron != "" }

// Misfire is which occurrences may be left out when there was no time for all.
type Misfire string

const (
	MisfireAll    Misfire = "all" // none; the default
	MisfireLatest Misfire = "latest"
	MisfireSkip   Misfire = "skip"
	MisfireWithin Misfire = "within" // those that were noticed more than Spec.Within late
)

// Overlap is the policy for an occurrence that comes due while another of the timer is in progress.
type Overlap string

const (
	OverlapWait  Overlap = "wait"
	OverlapSkip  Overlap = "skip" // it is left out
	OverlapAllow Overlap = "allow"
)

// DST is the policy of a cron expression where clocks are put forward or back. In addition to the named ones
// there are pairs such as "skip,both" for fixed times: in a gap next (at its end, once), skip or shift (later
// by its length); in a repeated hour in the first pass, the second or both. With * in minute or hour a pair
// is Naive.
type DST string

const (
	// fixed times: in a gap at its end, in a repeated hour in the first pass; with * in minute or hour: Naive
	Vixie    DST = "vixie"
	Naive    DST = "naive"     // whenever the clocks show a matching time: never in a gap, twice in a repeated hour
	SkipOnce DST = "skip_once" // never in a gap, in the first pass of a repeated hour
	Shift    DST = "shift"     // in a gap later by its length, in the first pass of a repeated hour
)

// Delete is a client's call.
type Delete struct {
	Timer    string `json:"timer"`
	T0       Time   `json:"t0"`
	T1       Time   `json:"t1"`
	Res      Res    `json:"res"`
	InFlight bool   `json:"inflight,omitzero"` // the answer reported that an attempt may still arrive
}

// Pause stops a timer's occurrences until it is resumed, or until a time.
type Pause struct {
	Timer string `json:"timer"`
	T0    Time   `json:"t0"`
	T1    Time   `json:"t1"`
	Res   Res    `json:"res"`
	Until Time   `json:"until,omitzero"` // 0: until it is resumed
}

// Resume ends a pause.
type Resume struct {
	Timer string `json:"timer"`
	T0    Time   `json:"t0"`
	T1    Time   `json:"t1"`
	Res   Res    `json:"res"`
}

// Skip gives up the next occurrences of a timer.
type Skip struct {
	Timer string `json:"timer"`
	T0    Time   `json:"t0"`
	T1    Time   `json:"t1"`
	Res   Res    `json:"res"`
	Count int    `json:"count"`
}

// Run asks for a fire next to the schedule.
type Run struct {
	Timer string `json:"timer"`
	T0    Time   `json:"t0"`
	T1    Time   `json:"t1"`
	Res   Res    `json:"res"`
	Key   string `json:"key,omitzero"` // of its fire, as answered
	Due   Time   `json:"due,omitzero"` // as answered
}

// Backfill asks for the occurrences of a range of time, (again) or for the first time.
type Backfill struct {
	Timer string `json:"timer"`
	From  Time   `json:"from"`  // the first due time
	Until Time   `json:"until"` // before which the last one lies
	T0    Time   `json:"t0"`
	T1    Time   `json:"t1"`
	Res   Res    `json:"res"`
}

// Redrive asks for a new set of attempts for a dead letter.
type Redrive struct {
	Timer  string `json:"timer"`
	Gen    uint64 `json:"gen"`
	Due    Time   `json:"due"`
	Manual bool   `json:"manual,omitzero"`
	T0     Time   `json:"t0"`
	T1     Time   `json:"t1"`
	Res    Res    `json:"res"`
}

// Limit sets, changes, pauses, resumes or removes a limit of timers: these are its bounds from then on.
type Limit struct {
	Limit       string        `json:"limit"`
	T0          Time          `json:"t0"`
	T1          Time          `json:"t1"`
	Res         Res           `json:"res"`
	Concurrency int           `json:"concurrency,omitzero"` // attempts in progress at a time; 0: unlimited
	Count       int           `json:"count,omitzero"`       // attempts that begin in Per; 0: unlimited
	Per         time.Duration `json:"per_ms,omitzero"`
	Burst       int           `json:"burst,omitzero"`   // of them at once; 0: 1, or those of a tenth of a second
	PerKey      bool          `json:"per_key,omitzero"` // for each key by itself
	Ordered     bool          `json:"ordered,omitzero"` // attempts after the first keep its place, and do not count for the rate
	Paused      bool          `json:"paused,omitzero"`  // none begins
}

// Get is a client's look at one timer.
type Get struct {
	Timer string `json:"timer"`
	T0    Time   `json:"t0"`
	T1    Time   `json:"t1"`
	Res   Res    `json:"res"`
	Gen   uint64 `json:"gen,omitzero"` // if Res is OK
}

// Final is a client's listing of all timers after everything is quiet.
type Final struct {
	T0     Time              `json:"t0"`
	T1     Time              `json:"t1"`
	Timers map[string]uint64 `json:"timers"` // their generations
}

// Fire is the arrival of an attempt.
type Fire struct {
	Timer string `json:"timer"`
	Gen   uint64 `json:"gen"`
	Due   Time   `json:"due,omitzero"` // the occurrence, as the service claims
	T     Time   `json:"t"`            // the first byte arrived
	// the reply ended: taken just before its last byte, so that nothing which follows from it seems earlier
	T1      Time   `json:"t1,omitzero"`
	Key     string `json:"key,omitzero"`
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"` // fencing number
	Reply   Reply  `json:"reply"`
	Manual  bool   `json:"manual,omitzero"` // the service reports that it is a Run's
}

// Ack is the later acknowledgement of an attempt whose Reply was none, as with streams and queues.
type Ack struct {
	Key string `json:"key"`
	T   Time   `json:"t"`
}

// Dead is an entry of the list of dead letters.
type Dead struct {
	Timer string `json:"timer"`
	Gen   uint64 `json:"gen"`
	Due   Time   `json:"due,omitzero"`
	T     Time   `json:"t"`

	Manual bool `json:"manual,omitzero"` // of a Run
}

// Ending is how an occurrence ended according to the service.
type Ending string

const (
	Fired   Ending = "fired"
	Died    Ending = "dead"
	Skipped Ending = "skipped"
	Missed  Ending = "missed"
)

// Record is an entry of the service's list of ended occurrences: of one, or of all from Due to LastDue.
type Record struct {
	Timer   string `json:"timer"`
	Gen     uint64 `json:"gen"`
	Due     Time   `json:"due"`
	LastDue Time   `json:"last_due,omitzero"` // 0: a single occurrence
	Count   int    `json:"count,omitzero"`    // how many, with LastDue; 0: not counted
	Ending  Ending `json:"ending"`
	// of Skipped: begins with paused, asked, overlap, or deleted, replaced, rescheduled; of Missed: with
	// misfire or deadline
	Reason   string `json:"reason,omitzero"`
	Attempts int    `json:"attempts,omitzero"`
	Manual   bool   `json:"manual,omitzero"`    // of a Run
	Cause    string `json:"cause,omitzero"`     // why, in the service's words for programs; empty: it is not judged
	Other    Time   `json:"other_due,omitzero"` // of cause overlapped: when the other occurrence was due
}

// Fault begins a fault, which excuses the violations that it touches until it is healed, or for Excuse if
// that is shorter. A Kind that begins with "server", "store" or "clock", alone or before a hyphen, is the
// cause of no record that blames another of these.
type Fault struct {
	FID    string        `json:"fid"`
	Kind   string        `json:"kind"`
	Node   string        `json:"node,omitzero"`
	T      Time          `json:"t"`
	Excuse time.Duration `json:"excuse_ms,omitzero"` // 0: until healed
}

// Heal ends a fault.
type Heal struct {
	FID  string `json:"fid"`
	Kind string `json:"kind,omitzero"`
	Node string `json:"node,omitzero"`
	T    Time   `json:"t"`
}

// End is the last moment of the observations.
type End struct {
	T Time `json:"t"`
}

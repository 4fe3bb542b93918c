package history

import "time"

// Event is a line of a history: Config, Put, Delete, Pause, Resume, Skip, Run, Backfill, Redrive, Get, Final, Fire, Ack, Dead,
// Record, Fault, Heal or End.
type Event interface{ append(b []byte) []byte }

// Res is what a client knows of a call.
type Res string

const (
	OK       Res = "ok"
	NotFound Res = "notfound" // of a Get
	Fail     Res = "fail"     // surely not applied
	Info     Res = "info"     // unknown
)

// Reply is what a receiver answered.
type Reply string

const (
	ReplyOK    Reply = "ok"
	ReplyRetry Reply = "retry" // try again
	ReplyFatal Reply = "fatal" // do not
	ReplyNone  Reply = "none"  // hung, cut or crashed; or an Ack comes later
)

// Put is a create, a replace, which also creates, or a reschedule, which keeps all of a timer but when it is due.
type Put struct {
	Replace    bool
	Reschedule bool // a pause goes on
	Timer      string
	Gen        uint64 // the client's number of the write, which the payload carries; or the observer of a reschedule knows it
	Spec       Spec
	T0, T1     Time // the call began; the answer came, or was given up
	Res        Res
	Due        Time // what the service answered as first due, if it did
	InFlight   bool // of a replace or reschedule: the answer reported that an attempt of the old generation may still arrive
}

// Spec is when a timer is due: At, Every or Cron; and after Delay if none of them is set.
type Spec struct {
	At          Time
	Delay       time.Duration
	Every       time.Duration
	Start       Time          // of Every: the first occurrence; zero: the first is one interval after the write. Of Cron: none is earlier
	Cron        string        // five fields; six, or "cron6:" and six, with seconds first; or a word such as @daily
	TZ          string        // of Cron; empty is UTC
	DST         DST           // of Cron; empty is the config's
	Except      []string      // of Every and Cron: dates, as YYYY-MM-DD in TZ, without occurrences
	Off         []string      // of Every and Cron: days of the week, as sun to sat, and dates without occurrences
	Until       Time          // no occurrence is later
	Count       int           // so many occurrences at most; 0: no bound
	Jitter      time.Duration // an occurrence is sent up to so much later than due
	Misfire     Misfire
	Within      time.Duration // of MisfireWithin
	Overlap     Overlap       // empty: not known, not judged
	Deadline    time.Duration // no attempt starts later than so long after it was to be sent; 0: none
	MaxAttempts int           // 0: not known, not judged
	Serial      bool          // an occurrence does not begin before the previous one is done
}

// ordered reports whether no two occurrences are in progress at once.
func (s *Spec) ordered() bool {
	return s.Serial || s.Overlap == OverlapWait || s.Overlap == OverlapSkip
}

// recurring reports whether there may be more than one occurrence.
func (s *Spec) recurring() bool { return s.Every != 0 || s.Cron != "" }

// Misfire is which occurrences may be left out when there was no time for all.
type Misfire string

const (
	MisfireAll    Misfire = "all" // none; the default
	MisfireLatest Misfire = "latest"
	MisfireSkip   Misfire = "skip"
	MisfireWithin Misfire = "within" // those that were noticed more than Spec.Within late
)

// Overlap is what happens to an occurrence that comes due while another of the timer is in progress.
type Overlap string

const (
	OverlapWait  Overlap = "wait"
	OverlapSkip  Overlap = "skip" // it is left out
	OverlapAllow Overlap = "allow"
)

// DST is what a cron expression means where clocks are put forward or back. In addition to the named ones
// there are pairs such as "skip,both" for fixed times: in a gap next (at its end, once), skip or shift (later
// by its length); in a repeated hour in the first pass, the second or both. With * in minute or hour a pair
// is Naive.
type DST string

const (
	Vixie    DST = "vixie"     // fixed times: in a gap at its end, in a repeated hour in the first pass; with * in minute or hour: Naive
	Naive    DST = "naive"     // whenever the clocks show a matching time: never in a gap, twice in a repeated hour
	SkipOnce DST = "skip_once" // never in a gap, in the first pass of a repeated hour
	Shift    DST = "shift"     // in a gap later by its length, in the first pass of a repeated hour
)

// Delete is a client's call.
type Delete struct {
	Timer    string
	T0, T1   Time
	Res      Res
	InFlight bool // the answer reported that an attempt may still arrive
}

// Pause stops a timer's occurrences until it is resumed, or until a time.
type Pause struct {
	Timer  string
	T0, T1 Time
	Res    Res
	Until  Time // 0: until it is resumed
}

// Resume ends a pause.
type Resume struct {
	Timer  string
	T0, T1 Time
	Res    Res
}

// Skip gives up the next occurrences of a timer.
type Skip struct {
	Timer  string
	T0, T1 Time
	Res    Res
	Count  int
}

// Run asks for a fire next to the schedule.
type Run struct {
	Timer  string
	T0, T1 Time
	Res    Res
	Key    string // of its fire, as answered
	Due    Time   // as answered
}

// Backfill asks for the occurrences of a range of time, (again) or for the first time.
type Backfill struct {
	Timer       string
	From, Until Time // from the first due time to before the last
	T0, T1      Time
	Res         Res
}

// Redrive asks for a new set of attempts for a dead letter.
type Redrive struct {
	Timer  string
	Gen    uint64
	Due    Time
	Manual bool
	T0, T1 Time
	Res    Res
}

// Get is a client's look at one timer.
type Get struct {
	Timer  string
	T0, T1 Time
	Res    Res
	Gen    uint64 // if Res is OK
}

// Final is a client's listing of all timers after everything is quiet.
type Final struct {
	T0, T1 Time
	Timers map[string]uint64 // their generations
}

// Fire is the arrival of an attempt.
type Fire struct {
	Timer   string
	Gen     uint64
	Due     Time // the occurrence, as the service claims
	T       Time // the first byte arrived
	T1      Time // the reply ended: taken just before its last byte, so that nothing which follows from it seems earlier
	Key     string
	Attempt int
	Epoch   uint64 // fencing number
	Reply   Reply
	Manual  bool // the service reports that it is a Run's
}

// Ack is the later acknowledgement of an attempt whose Reply was none, as with streams and queues.
type Ack struct {
	Key string
	T   Time
}

// Dead is an entry of the list of dead letters.
type Dead struct {
	Timer string
	Gen   uint64
	Due   Time
	T     Time

	Manual bool // of a Run
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
	Timer    string
	Gen      uint64
	Due      Time
	LastDue  Time // 0: a single occurrence
	Count    int  // how many, with LastDue; 0: not counted
	Ending   Ending
	Reason   string // of Skipped: begins with paused, asked, overlap, or deleted, replaced, rescheduled; of Missed: with misfire or deadline
	Attempts int
	Manual   bool   // of a Run
	Cause    string // why, in the service's words for programs; empty: it is not judged
	Other    Time   // of cause overlapped: when the other occurrence was due
}

// Fault begins a fault, which excuses what it touches until it is healed, or for Excuse if that is shorter.
type Fault struct {
	FID    string
	Kind   string
	Node   string
	T      Time
	Excuse time.Duration // 0: until healed
}

// Heal ends a fault.
type Heal struct {
	FID  string
	Kind string
	Node string
	T    Time
}

// End is the last moment anyone watched.
type End struct{ T Time }

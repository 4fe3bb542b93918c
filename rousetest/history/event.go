package history

import "time"

// Event is a line of a history: Config, Put, Delete, Get, Final, Fire, Ack, Dead, Fault, Heal or End.
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

// Put is a create, or a replace, which also creates.
type Put struct {
	Replace  bool
	Timer    string
	Gen      uint64 // the client's number of the write, which the payload carries
	Spec     Spec
	T0, T1   Time // the call began; the answer came, or was given up
	Res      Res
	Due      Time // what the service answered as first due, if it did
	InFlight bool // of a replace: the answer said that an attempt of the old generation may still arrive
}

// Spec is when a timer is due: At, Every or Cron; and after Delay if none of them is set.
type Spec struct {
	At          Time
	Delay       time.Duration
	Every       time.Duration
	Start       Time   // of Every: the first occurrence; zero: the first is one interval after the write
	Cron        string // five fields; six, or "cron6:" and six, with seconds first; or a word such as @daily
	TZ          string // of Cron; empty is UTC
	DST         DST    // of Cron; empty is the config's
	Until       Time   // no occurrence is later
	Count       int    // so many occurrences at most; 0: no bound
	Misfire     Misfire
	MaxAttempts int  // 0: not known, not judged
	Serial      bool // an occurrence does not begin before the previous one is done
}

// Misfire says which occurrences may be left out when there was no time for all.
type Misfire string

const (
	MisfireAll    Misfire = "all" // none; the default
	MisfireLatest Misfire = "latest"
	MisfireSkip   Misfire = "skip"
)

// DST says what a cron expression means where clocks are put forward or back.
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
	InFlight bool // the answer said that an attempt may still arrive
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
}

// Ack says that an attempt whose Reply was none was acknowledged later, as streams and queues do.
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

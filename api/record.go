package api

import "github.com/rousehq/rouse"

// Record is how an occurrence ended, or a run of occurrences that ended alike without an attempt.
type Record struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name" schema:"Name"`
	Generation uint64 `json:"generation"`
	FireID     string `json:"fire_id" schema:"FireID"`
	Ending     string `json:"ending" schema:"enum=fired|dead|skipped|missed"` // fired, dead, skipped or missed
	// why, one of a closed set; unknown in records that were written before there were causes
	Cause    string `json:"cause" schema:"Cause"`
	Manual   bool   `json:"manual,omitzero"` // asked for by run
	Due      Time   `json:"due,omitzero"`
	LastDue  Time   `json:"last_due,omitzero"` // of the last of a run of occurrences
	Count    uint32 `json:"count,omitzero"`    // occurrences in a run; left out with a last_due: too many to count
	Attempts uint32 `json:"attempts,omitzero"`
	Code     int    `json:"code,omitzero"`   // of the last attempt
	Reason   string `json:"reason,omitzero"` // details of the cause, for people
	Target   string `json:"target,omitzero"` // of the timer, unless the occurrence fired
	Began    Time   `json:"began,omitzero"`  // when the first attempt was sent
	Sent     Time   `json:"sent,omitzero"`   // when the last one was
	Ended    Time   `json:"ended,omitzero"`

	Failures []Attempt `json:"failures,omitempty"` // attempts before the last one, the latest eight
	// of a timer with keep_answer: that to the last attempt. Records that are followed, and lists of
	// outcomes, have none
	Answer *Answer `json:"answer,omitzero"`

	// of cause overlapped: when the occurrence was due that was in progress
	OtherDue    Time   `json:"other_due,omitzero"`
	OtherManual bool   `json:"other_manual,omitzero"` // it was asked for by run
	OtherFireID string `json:"other_fire_id,omitzero" schema:"FireID"`
}

// Wait is a time in which the occurrence that is next was due and could not begin, or be settled.
type Wait struct {
	Cause string `json:"cause" schema:"Cause"`
	From  Time   `json:"from,omitzero"`
	To    Time   `json:"to,omitzero"`
}

func waitsOf(list []rouse.Wait) (out []Wait) {
	for _, w := range list {
		out = append(out, Wait{w.Cause.String(), TimeOf(w.From), TimeOf(w.To)})
	}
	return out
}

// Attempt is how one attempt of an occurrence failed.
type Attempt struct {
	Sent   Time     `json:"sent,omitzero"`
	Took   Duration `json:"took,omitzero"`
	Code   int      `json:"code,omitzero"`
	Detail string   `json:"detail,omitzero"`
}

func attemptsOf(list []rouse.Attempt) (out []Attempt) {
	for _, a := range list {
		out = append(out, Attempt{Sent: TimeOf(a.Sent), Took: Duration(a.Took), Code: a.Code, Detail: a.Detail})
	}
	return out
}

// RecordOf returns the JSON form of a record.
func RecordOf(r *rouse.Record) Record {
	return Record{Namespace: r.Namespace, Name: r.Name, Generation: r.Generation, FireID: r.FireID(),
		Ending: r.Ending.String(),
		Cause:  r.Cause.String(), OtherDue: TimeOf(r.Other), OtherManual: r.OtherManual, OtherFireID: r.OtherID(),
		Manual: r.Manual, Due: TimeOf(r.Due), LastDue: TimeOf(r.LastDue), Count: r.Count, Attempts: r.Attempts, Code: r.Code,
		Reason: r.Reason, Target: r.Target, Began: TimeOf(r.Began), Sent: TimeOf(r.Sent), Ended: TimeOf(r.Ended),
		Failures: attemptsOf(r.Failures), Answer: answerOf(r.Answer)}
}

// RecordsOf returns the JSON form of records.
func RecordsOf(records []rouse.Record) []Record {
	out := make([]Record, len(records))
	for i := range records {
		out[i] = RecordOf(&records[i])
	}
	return out
}

// RecordList is a page of records, newest first or oldest first.
type RecordList struct {
	Records       []Record `json:"records"`
	NextPageToken string   `json:"next_page_token,omitzero"` // left out at the end; a page can be empty before that
	// only if the search stopped at its bound, before the page was full: how many records it compared
	Searched int64 `json:"searched,omitzero"`
}

// RecordGroups sums up records.
type RecordGroups struct {
	// by time in its order, others by count, the largest first; at most 1,000
	Groups   []RecordGroup `json:"groups"`
	Other    int64         `json:"other,omitzero"` // occurrences of more groups
	Searched int64         `json:"searched"`       // records that were read, newest first
	// the bound was reached, and older records can be aggregated with it
	NextPageToken string `json:"next_page_token,omitzero"`
}

// RecordGroup sums up the records that have a property in common.
type RecordGroup struct {
	// the target, the ending, the cause, the error without digits and ids, or the namespace
	Key     string   `json:"key,omitzero"`
	From    Time     `json:"from,omitzero"` // of a group by time: when it begins
	Count   int64    `json:"count"`         // occurrences; a run of unknown length counts as one
	Fired   int64    `json:"fired,omitzero"`
	Dead    int64    `json:"dead,omitzero"`
	Skipped int64    `json:"skipped,omitzero"`
	Missed  int64    `json:"missed,omitzero"`
	First   Time     `json:"first,omitzero"`   // when the first of them ended
	Last    Time     `json:"last,omitzero"`    // when the last of them ended
	Lagged  int64    `json:"lagged,omitzero"`  // how many have a lag
	LagP50  Duration `json:"lag_p50,omitzero"` // at most an eighth too long
	LagP99  Duration `json:"lag_p99,omitzero"`
}

// RecordGroupsOf returns the JSON form of an aggregate.
func RecordGroupsOf(a *rouse.RecordGroups, token string) RecordGroups {
	out := RecordGroups{Groups: make([]RecordGroup, len(a.Groups)), Other: a.Other, Searched: a.Searched,
		NextPageToken: token}
	for i, g := range a.Groups {
		out.Groups[i] = RecordGroup{Key: g.Key, From: TimeOf(g.From), Count: g.Count, Fired: g.Fired, Dead: g.Dead,
			Skipped: g.Skipped, Missed: g.Missed,
			First: TimeOf(g.First), Last: TimeOf(g.Last), Lagged: g.Lagged, LagP50: Duration(g.LagP50),
			LagP99: Duration(g.LagP99)}
	}
	return out
}

// ListOutcomes asks for the last endings of each of some timers.
type ListOutcomes struct {
	Names []string `json:"names" schema:"maxItems=100"`                   // at most 100
	Limit uint32   `json:"limit,omitzero" schema:"maximum=30,default=30"` // of the endings of each; up to 30, the default
}

// OutcomesList has the last endings of each of some timers.
type OutcomesList struct {
	Timers []TimerOutcomes `json:"timers"`
}

// TimerOutcomes has the last endings of a timer.
type TimerOutcomes struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name" schema:"Name"`
	Outcomes  []Record `json:"outcomes"` // newest first
}

// Dropped tells a follower how many records it missed since the last one.
type Dropped struct {
	Dropped uint64 `json:"dropped"`
}

// Complete reports that the receiver of an accepted fire has done its work.
type Complete struct {
	Token uint64 `json:"token"` // the fencing token that the fire carried
}

// Fail reports that the receiver of an accepted fire has failed.
type Fail struct {
	Token      uint64    `json:"token"`
	Detail     string    `json:"detail,omitzero" schema:"maxLength=1024"`
	Permanent  bool      `json:"permanent,omitzero"`   // dead letter, without further attempts
	RetryAfter *Duration `json:"retry_after,omitzero"` // default: the timer's own backoff; "0s" is at once
}

// Heartbeat reports that the receiver of an accepted fire still works on it.
type Heartbeat struct {
	Token  uint64   `json:"token"`
	Extend Duration `json:"extend"` // the new deadline, from now, if it is later; up to 168h
}

// Release reports that the receiver of an accepted fire has not begun, and gives it back.
type Release struct {
	Token uint64 `json:"token"`
}

// Deadline is the answer to a report: when the next one is due, left out when none is.
type Deadline struct {
	Deadline Time `json:"deadline,omitzero"` // when the next report is due; left out when none is
}

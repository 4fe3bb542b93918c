package rouse

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Sought is the part of a query that no store has an index for: an operation reads the rows that the rest of
// the query selects, and compares.
type Sought struct {
	Text   string // in the name, the error, or the payload, without regard to case
	Target string // exactly, or its beginning with a "*" after it
	Code   int    // of the last attempt, such as 503; 0: any
}

// MaxText bounds a text to search for, in bytes.
const MaxText = 256

// Any reports whether something is sought.
func (s *Sought) Any() bool { return *s != Sought{} }

func (s *Sought) checkSought() error {
	if err := CheckText("text", s.Text, MaxText); err != nil {
		return err
	}
	if fixed := strings.TrimSuffix(s.Target, "*"); s.Target != "" &&
		(textFault(s.Target, MaxTarget) != "" || strings.Contains(fixed, "*")) {
		return Refuse("target", s.Target, "matches no target", `give a target, or the beginning of some with "*" after it`)
	}
	if s.Code < 0 || s.Code > 1<<16 {
		return Refuse("code", strconv.Itoa(s.Code), "is out of bounds", "give the status of an attempt, such as 503")
	}
	return nil
}

// matchesTarget reports whether a target is sought.
func (s *Sought) matchesTarget(target string) bool {
	if fixed, ok := strings.CutSuffix(s.Target, "*"); ok {
		return strings.HasPrefix(target, fixed)
	}
	return s.Target == "" || s.Target == target
}

// Timer reports whether a timer is sought. Fields that it does not show, such as a redacted payload, do not
// match.
func (s *Sought) Timer(t *Timer) bool {
	if !s.matchesTarget(t.Spec.Target) || s.Code != 0 && !failedWith(t.Failures, s.Code) {
		return false
	}
	return s.Text == "" || containsFold(t.Key.Name, s.Text) || containsFold(t.LastError, s.Text) ||
		containsFold(t.Reason, s.Text) ||
		hasDetail(t.Failures, s.Text) || bytes.Contains(bytes.ToLower(t.Spec.Payload), []byte(strings.ToLower(s.Text)))
}

// failedWith reports whether the last attempt failed with a code.
func failedWith(attempts []Attempt, code int) bool {
	return len(attempts) > 0 && attempts[len(attempts)-1].Code == code
}

func hasDetail(attempts []Attempt, text string) bool {
	return slices.ContainsFunc(attempts, func(a Attempt) bool { return containsFold(a.Detail, text) })
}

func containsFold(s, text string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(text))
}

// Record reports whether a record is sought. now is the target of the timer if it exists; a record of an
// occurrence that fired has none of its own. That of a notice was another one.
func (s *Sought) Record(r *Record, now string) bool {
	target := r.Target
	if target == "" && r.Cause != CauseNotice {
		target = now
	}
	if !s.matchesTarget(target) || s.Code != 0 && r.Code != s.Code {
		return false
	}
	return s.Text == "" || containsFold(r.Name, s.Text) || containsFold(r.Reason, s.Text) || hasDetail(r.Failures, s.Text)
}

// Order is the order of a list of timers. Those of equal times are in the order of their keys.
type Order uint8

// The orders.
const (
	OrderName    Order = iota // of namespaces, names and fires
	OrderDue                  // of due times; timers without one come last
	OrderUpdated              // of the last change by a client, or of the end of a dead letter
	OrderEnded                // of the end: of dead letters, and of timers whose schedule has ended
)

var orderNames = [...]string{OrderName: "name", OrderDue: "due", OrderUpdated: "updated", OrderEnded: "ended"}

func (o Order) String() string {
	if int(o) >= len(orderNames) {
		return "unknown"
	}
	return orderNames[o]
}

// ParseOrder reads the name of an order; an empty one is by name.
func ParseOrder(name string) (Order, error) {
	if i := slices.Index(orderNames[:], name); i >= 0 {
		return Order(i), nil
	}
	if name == "" {
		return OrderName, nil
	}
	return 0, Refuse("order_by", name, "is no order", "give one of name, due, updated, ended")
}

// OrderTime returns the time by which an order puts the timer in its place; Never if it has none, and 0 in
// the order of names.
func (t *Timer) OrderTime(o Order) Instant {
	switch o {
	case OrderDue:
		return min(t.Due, UnknownDue)
	case OrderUpdated:
		return t.Updated
	case OrderEnded:
		if t.Key.Fire == "" && t.Visible != Never { // kept after its end
			return t.Visible.Add(-t.Spec.Keep)
		}
		return t.Updated
	}
	return 0
}

// checkOrder refuses an order that goes with no state of the query.
func (q *Query) checkOrder() error {
	if int(q.Order) >= len(orderNames) {
		return Refuse("order_by", strconv.Itoa(int(q.Order)), "is no order", "give one of name, due, updated, ended")
	}
	if q.Order != OrderEnded {
		return nil
	}
	for _, s := range q.States {
		if s != StateDead && s != StateEnded {
			return Refuse("order_by", q.Order.String(), fmt.Sprintf("does not go with the state %s, which has not ended", s),
				"give the states dead, ended or both")
		}
	}
	if len(q.States) == 0 {
		return Refuse("order_by", q.Order.String(), "needs states that have an end", "give the states dead, ended or both")
	}
	return nil
}

// Matches reports whether a record passes all filters of the query but the namespace and the place. target
// and labels are those that the timer has now, if it exists.
func (q *RecordQuery) Matches(r *Record, target string, labels map[string]string) bool {
	if q.Name != "" && r.Name != q.Name || !strings.HasPrefix(r.Name, q.Prefix) ||
		len(q.Endings) > 0 && !slices.Contains(q.Endings, r.Ending) ||
		len(q.Causes) > 0 && !slices.Contains(q.Causes, r.Cause) {
		return false
	}
	for k, v := range q.Labels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return q.Sought.Record(r, target)
}

// Narrow reports whether the query leaves records out by anything but their timer, place and time.
func (q *RecordQuery) Narrow() bool {
	return q.Prefix != "" || len(q.Labels) > 0 || len(q.Endings) > 0 || len(q.Causes) > 0 || q.Sought.Any()
}

// Lag is how long after its due time the first attempt of the occurrence began; ok is false if none did.
func (r *Record) Lag() (ms int64, ok bool) {
	return int64(r.Began) - int64(r.Due), r.Began != 0
}

// Selects reports whether a row passes all filters of the query that stores know.
func (q *Query) Selects(r *Row) bool {
	if q.Namespace != "" && r.Key.Namespace != q.Namespace || !strings.HasPrefix(r.Key.Name, q.Prefix) ||
		q.Name != "" && r.Key.Name != q.Name || !q.Wants(r.State) {
		return false
	}
	for k, v := range q.Labels {
		if have, ok := r.Labels[k]; !ok || have != v {
			return false
		}
	}
	return (q.DueFrom == 0 || r.Due >= q.DueFrom) && (q.DueUntil == 0 || r.Due < q.DueUntil)
}

package rouse

import (
	"errors"
	"testing"
)

func TestErrorKind(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "connection refused": "connection refused", "dial tcp 10.0.0.5:4312: connect: connection refused": "dial tcp #: connect: connection refused",
		"timer 7f-3a of user_12 is gone": "timer # of # is gone", "HTTP 503": "HTTP #", "överfull 12 %": "överfull # %", "1": "#", "1 2": "# #",
		"after 1.5s": "after #", "x\xff1": "x\xff#",
	} {
		if got := ErrorKind(text); got != want {
			t.Errorf("%q is of kind %q, want %q", text, got, want)
		}
	}
}

// TestHostileFilters: what no timer or record can match is refused with the field's name.
func TestHostileFilters(t *testing.T) {
	long := string(make([]byte, MaxText+1))
	for field, q := range map[string]Query{"text": {Sought: Sought{Text: long}}, "target": {Sought: Sought{Target: "a*b"}}, "code": {Sought: Sought{Code: -1}},
		"order_by": {Order: 99}, "namespace": {Namespace: "-"}, "prefix": {Prefix: "\x00"}} {
		if got := problemsOf(q.Check()); len(got) != 1 || got[0].Field != field {
			t.Errorf("%s: %+v", field, got)
		}
	}
	for _, states := range [][]State{nil, {StateDead, StatePaused}} {
		if (&Query{Order: OrderEnded, States: states}).Check() == nil {
			t.Errorf("%v were put in the order of their ends", states)
		}
	}
	for field, q := range map[string]RecordQuery{"text": {Sought: Sought{Text: "a\x01"}}, "ending": {Endings: []Ending{9}}, "cause": {Causes: []Cause{lastCause + 1}},
		"until": {From: RecordCursor{Ended: 9}, Until: RecordCursor{Ended: 8}}, "label": {Labels: map[string]string{"": ""}}, "name": {Namespace: "a", Name: " "},
		"prefix": {Prefix: "\n"}, "namespace": {Namespace: "A"}} {
		if got := problemsOf(q.Check()); len(got) != 1 || got[0].Field != field {
			t.Errorf("%s: %+v", field, got)
		}
	}
}

// TestTargetsOfRecords: an occurrence that fired went to the target that its timer has, a notice did not.
func TestTargetsOfRecords(t *testing.T) {
	for _, c := range []struct {
		cause  Cause
		target string
		want   bool
	}{{CauseDelivered, "", true}, {CauseNotice, "", false}, {CauseRejected, "b", false}, {CauseRejected, "a/x", true}} {
		s := Sought{Target: "a*"}
		if s.Record(&Record{Cause: c.cause, Target: c.target}, "a") != c.want {
			t.Errorf("%v of %q: found %v", c.cause, c.target, !c.want)
		}
	}
}

func problemsOf(err error) []Problem {
	if inv, ok := errors.AsType[*Invalid](err); ok {
		return inv.Problems
	}
	return nil
}

package harness

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
	"github.com/rousehq/rouse/rousetest/history"
)

// A load may write a timer again with the due time that it has: its generation goes on then, and neither the
// recorder nor the checker takes that for a fault.
func TestWritesOfOneDueTimeShareAGeneration(t *testing.T) {
	s := rousetest.NewServer(t, rousetest.At(time.Now()))
	r := NewRecorder(t, history.Defaults)
	l := r.NewLoad(s.Client, s.Receiver.URL()+"/", "", LoadOptions{
		Timeout:  Patience,
		Expected: func(error, time.Duration) bool { return false },
		Written:  func(e *history.Put, made *rouse.Timer) { r.Wrote(e, made, false) },
	})
	at := Once(rouse.At(time.Now().Add(time.Hour)))
	first, _ := l.Put("a", l.URL, at, false)
	second, _ := l.Put("a", l.URL, at, true)
	if first.Generation == 0 || second.Generation != first.Generation || second.Revision == first.Revision {
		t.Fatalf("generations %d and %d of revisions %d and %d", first.Generation, second.Generation, first.Revision,
			second.Revision)
	}
	l.Get("a")
	r.Final(s.Client)
	r.Judge(0, nil)
}

// refused takes the failures of a recorder.
type refused struct {
	testing.TB
	err error
}

func (r *refused) Errorf(format string, args ...any) {
	r.err = errors.Join(r.err, fmt.Errorf(format, args...))
}

// A generation has one due time, so two writes of different ones never share it.
func TestWritesOfTwoDueTimesShareNoGeneration(t *testing.T) {
	refuses := &refused{TB: t}
	r := NewRecorder(refuses, history.Defaults)
	at := rouse.At(time.Now())
	r.Knows("a", 7, 1, at)
	r.Knows("a", 7, 1, rouse.Never) // it has ended
	r.Knows("b", 7, 2, at+1)
	if refuses.err != nil {
		t.Error(refuses.err)
	}
	r.Knows("a", 7, 3, at+1)
	if refuses.err == nil {
		t.Error("a generation is that of two writes of different times")
	}
}

package history_test

import (
	"bytes"
	"fmt"
	"log"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
)

// A client created a timer, and its receiver got the fire a second early.
func Example() {
	at := func(seconds int) history.Time {
		return history.At(time.Date(2027, 1, 1, 0, 0, seconds, 0, time.UTC))
	}
	var file bytes.Buffer
	w := history.NewWriter(&file)
	for _, e := range []history.Event{
		&history.Put{Timer: "coffee", Gen: 1, Spec: history.Spec{At: at(10)}, T0: at(0), T1: at(1), Res: history.OK, Due: at(10)},
		&history.Fire{Timer: "coffee", Gen: 1, Due: at(10), T: at(9), T1: at(9), Key: "fire-17", Attempt: 1, Reply: history.ReplyOK},
		&history.End{T: at(60)},
	} {
		if err := w.Write(e); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
	h, err := history.Read(&file)
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range history.Check(h).Violations {
		fmt.Println(v)
	}
	// Output: C2-early: timer "coffee" gen 1 due 2027-01-01T00:00:10.000000Z: it arrived at 2027-01-01T00:00:09.000000Z, 1s early
}

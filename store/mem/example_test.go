package mem_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// A store on a clock that the test moves: the row is due when the clock has reached its visible time.
func ExampleNewWithClock() {
	ctx := context.Background()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s := mem.NewWithClock(func() time.Time { return now })
	defer s.Close()

	key := rouse.Key{Namespace: "default", Name: "coffee"}
	at := rouse.At(now.Add(time.Hour))
	row := rouse.Row{Key: key, State: rouse.StateScheduled, Due: at, Visible: at}
	if _, err := s.Apply(ctx, []rouse.Change{{Key: key, If: rouse.NoRow, To: &row}}); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		due, err := s.Claim(ctx, rouse.Window{Buckets: []uint32{0}, Limit: 10})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(due.Now, len(due.Rows), "due")
		now = now.Add(time.Hour)
	}
	// Output:
	// 2027-01-01T00:00:00.000Z 0 due
	// 2027-01-01T01:00:00.000Z 1 due
}

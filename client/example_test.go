package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
)

var (
	ctx = context.Background()
	c   *client.Client
)

func Example() {
	c, err := client.Dial("127.0.0.1:7411", client.Options{Timeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	t, err := c.Create(ctx, "default", "coffee", rouse.Spec{
		Schedule: "30 8 * * MON-FRI", Timezone: "Europe/Stockholm", Calendar: rouse.CalendarRule{Off: []string{"holidays"}},
		Target: "stream:kitchen", Payload: []byte(`{"cups": 2}`), ContentType: "application/json",
	})
	var invalid *rouse.Invalid
	switch {
	case errors.Is(err, rouse.ErrExists):
		fmt.Println("there is one already")
	case errors.As(err, &invalid):
		for _, p := range invalid.Problems {
			fmt.Println(p.Field, p.Wrong, p.Cure)
		}
	case err == nil:
		fmt.Println("first due", t.Due)
	}
}

func ExampleClient_Subscribe() {
	err := c.Subscribe(ctx, client.SubscribeOptions{Channel: "kitchen"}, func(ctx context.Context, f client.Fire) error {
		fmt.Printf("%s is due since %s: %s\n", f.Name, f.Due, f.Payload)
		return nil // done
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Replace() {
	r, err := c.Replace(ctx, "default", "coffee", rouse.Spec{Schedule: "@every 1h", Target: "stream:kitchen"})
	if err == nil && r.InFlight {
		fmt.Println("a fire of the timer as it was may still arrive")
	}
}

func ExampleClient_Debounce() {
	// However often a document is saved: it is indexed once, ten seconds after the last time, and once a
	// minute at least.
	_, err := c.Debounce(ctx, "default", "index-17", rouse.Spec{Target: "stream:index"}, 10*time.Second, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Explain() {
	e, err := c.Explain(ctx, "default", "coffee", rouse.At(time.Date(2027, 1, 4, 7, 30, 0, 0, time.UTC)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Summary)
	for _, r := range e.Reasons {
		fmt.Println(r.Code, r.Text)
	}
}

func ExampleClient_Simulate() {
	day := rouse.At(time.Date(2027, 3, 28, 0, 0, 0, 0, time.UTC))
	s, err := c.Simulate(ctx, rouse.Query{Namespace: "default", Labels: map[string]string{"team": "billing"}}, day, day.Add(24*time.Hour), 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range s.Fires {
		fmt.Println(f.Local.Format(time.DateTime), f.Name, f.Mark)
	}
}

func ExampleClient_Bulk() {
	sum, err := c.Bulk(ctx, client.BulkRequest{
		Action: client.BulkRedrive, Query: rouse.Query{Namespace: "default", Prefix: "invoice-"}, ErrorContains: "connection refused",
	}, func(p client.BulkProgress) error {
		fmt.Println(p.Changed, "so far")
		return nil
	})
	fmt.Println(sum.Changed, "redriven", sum.Failed, "failed", err)
}

func ExampleClient_PutICalendar() {
	file, err := os.ReadFile("holidays.ics")
	if err != nil {
		log.Fatal(err)
	}
	saved, err := c.PutICalendar(ctx, "default", "holidays", file)
	fmt.Println(saved.Days, "days", saved.Moved, "timers moved", err)
}

func ExampleClient_Backup() {
	f, err := os.Create("rouse.tar")
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Backup(ctx, f)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		log.Fatal(err) // and what is in the file is no backup
	}
}

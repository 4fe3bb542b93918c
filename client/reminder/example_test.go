package reminder_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rousehq/rouse/client/reminder"
)

var (
	ctx = context.Background()
	c   *reminder.Client
)

func Example() {
	c, err := reminder.Open("127.0.0.1:7411", reminder.Options{App: "orderapp", Handle: func(ctx context.Context, e reminder.Execution) error {
		fmt.Printf("%s of order %s is due since %v\n", e.Reminder.Name, e.Reminder.Metadata["order"], e.Due)
		return nil // done
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	made, err := c.Create(ctx, reminder.Reminder{Name: "pay", InitialDelay: "10m", Metadata: map[string]string{"order": "17"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.ID, "is due at", made.NextExecution)
}

func ExampleClient_Create() {
	_, err := c.Create(ctx, reminder.Reminder{
		Name: "clean-up", Schedule: "0 3 * * *", TTL: time.Now().AddDate(1, 0, 0),
		Actor: reminder.Actor{Type: "Warehouse", ID: "north"}, // its executions go where the actor is
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Subscribe() {
	// Reminders of another sidecar are executed here from now on, with new ids.
	moved, err := c.Subscribe(ctx, "reminder||B||200143||drftghrq", "reminder||B||200156||drftghrq")
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range moved {
		fmt.Println(m.Asked, "is", m.ID, m.Err)
	}
}

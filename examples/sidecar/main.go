// Sidecar is a sidecar of an app at the reminder service: it makes a reminder on request, and executes those
// that come, by printing them. docs/reminders.md has it run.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/rousehq/rouse/client/reminder"
)

func main() {
	server := flag.String("server", "127.0.0.1:7411", "an instance of the service, or several with commas between")
	app := flag.String("app", "orderapp", "id of the app")
	address := flag.String("address", "", "tells the sidecars of the app apart; made up if not given")
	name := flag.String("remind", "", "make a reminder of this name")
	delay := flag.String("in", "", "when it is due first, such as 10s; at once if not given")
	schedule := flag.String("every", "", "when it is due again, such as 90s; never if not given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *server, reminder.Options{App: *app, Address: *address},
		reminder.Reminder{Name: *name, InitialDelay: *delay, Schedule: *schedule}); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server string, o reminder.Options, make reminder.Reminder) error {
	o.Handle = func(_ context.Context, e reminder.Execution) error {
		fmt.Printf("executes %s, attempt %d of the fire %s\n", e.Reminder.Name, e.Attempt, e.FireID)
		return nil // done: an error would have it come again
	}
	c, err := reminder.Open(server, o)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Ready(ctx); err != nil {
		return err
	}
	if make.Name != "" {
		made, err := c.Create(ctx, make)
		if err != nil {
			return err
		}
		fmt.Printf("made %s\n", made.ID)
	}
	<-ctx.Done()
	return nil
}

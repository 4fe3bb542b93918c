package transact_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/transact"
)

// The order and its reminder exist together from the commit on, or not at all.
func Example() {
	ctx := context.Background()
	var db *sql.DB // of the application; rouse has its schema in the same database
	timers, err := transact.New(transact.Options{})
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (17)`); err != nil {
		log.Fatal(err)
	}
	reminder := rouse.Spec{Schedule: "@after 15m", Target: "https://shop.example.com/remind"}
	if _, err := timers.CreateSQL(ctx, tx, "shop", "order-17", reminder, transact.Create); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}

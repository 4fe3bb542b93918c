package transact_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/store/postgres"
)

// TestTheSQLOfTheDocumentation runs the SQL blocks of the page about transactions in order: marked ones as
// the owner, the others as a caller. The Go programs are built where all pages are tested.
func TestTheSQLOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/transactions.md")
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	h.admin(`DO $$ BEGIN CREATE ROLE shop LOGIN; CREATE ROLE intern LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
		DROP TABLE orders; CREATE TABLE orders (id bigint PRIMARY KEY); GRANT ALL ON orders TO shop;` + postgres.CallerRole("rouse", "shop"))
	caller, err := pgx.Connect(t.Context(), as(t, h.url, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close(t.Context())
	ran := 0
	for _, part := range strings.Split(string(page), "```sql\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		ran++
		if owner, ok := strings.CutPrefix(text, "-- as the owner"); ok {
			h.admin("--" + owner)
			if strings.Contains(text, "GRANT USAGE") && strings.ReplaceAll(postgres.CallerRole("rouse", "shop"), `"`, "") != "GRANT"+strings.SplitN(text, "GRANT", 2)[1] {
				t.Errorf("the page grants\n%s\nand CallerRole\n%s", text, postgres.CallerRole("rouse", "shop"))
			}
			continue
		}
		if _, err := caller.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if ran < 5 {
		t.Errorf("the page has %d blocks of SQL", ran)
	}
	if n := h.ask(`SELECT count(*) FROM rouse.timers WHERE name IN ('order-17-reminder', 'order-100', 'order-199', 'order-150')`); n != 3 {
		t.Errorf("%d timers are there, want 3", n)
	}
	intern, err := pgx.Connect(t.Context(), as(t, h.url, "intern"))
	if err != nil {
		t.Fatal(err)
	}
	defer intern.Close(t.Context())
	if _, err := intern.Exec(t.Context(), `SELECT remind_later('a', '{"schedule": "@hourly", "target": "func:note"}')`); err != nil {
		t.Errorf("the roles that may call the function for one namespace: %v", err)
	}
	if _, err := intern.Exec(t.Context(), `SELECT rouse.delete_timer('shop', 'a')`); code(err) != "42501" {
		t.Errorf("and nothing else: %v", err)
	}
}

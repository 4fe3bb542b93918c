//go:build unix

package servers

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgresHasAClockOfItsOwn(t *testing.T) {
	s, set := StartPostgresWithClock(t)
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, ahead := range []time.Duration{0, 3 * time.Hour, time.Hour, 0} {
		set(ahead)
		var now time.Time
		if err := conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(now) - ahead; off.Abs() > time.Minute {
			t.Errorf("with %v, the clock is off by %v", ahead, off)
		}
	}
}

//go:build unix

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartPostgresWithClock is StartPostgres with a wall clock of its own, by libfaketime: set lets it be ahead
// of that of the machine, also for sessions that exist. It begins right.
func StartPostgresWithClock(t testing.TB) (s *Server, set func(ahead time.Duration)) {
	t.Helper()
	library, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1") // the pattern is well-formed
	if len(library) == 0 {
		reportMissing(t, "libfaketime")
	}
	var clock string
	write := func(ahead time.Duration) error {
		if err := os.WriteFile(clock+".next", fmt.Appendf(nil, "%+d", int64(ahead.Seconds())), 0o644); err != nil {
			return err
		}
		return os.Rename(clock+".next", clock)
	}
	p, err := startPostgres(findPostgres(t), nil, func(p *process) error {
		clock = filepath.Join(p.dir, "clock")
		p.env = []string{"LD_PRELOAD=" + library[0], "FAKETIME_TIMESTAMP_FILE=" + clock, "FAKETIME_NO_CACHE=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1", "FAKETIME_DISABLE_SHM=1"}
		return write(0)
	})
	if err != nil {
		t.Fatal(err)
	}
	return newServer(t, p, postgresURL(p.ports[0].claimedAddr(), "postgres"), p.ports[0].claimedAddr()),
		func(ahead time.Duration) {
			t.Helper()
			if err := write(ahead); err != nil {
				t.Fatal(err)
			}
		}
}

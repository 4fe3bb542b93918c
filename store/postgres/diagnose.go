package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/rousehq/rouse"
)

var _ rouse.Diagnosed = (*Store)(nil)

// Diagnose implements rouse.Diagnosed. The space of a server is not visible to its clients.
func (s *Store) Diagnose(ctx context.Context) ([]rouse.Finding, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, s.o.LeaseTimeout)
	defer cancel()
	on, err := s.leases.Acquire(ctx)
	if err != nil {
		return nil, explainSQLError(err)
	}
	defer on.Release()
	version, off, err := settingsOf(ctx, on.Conn().PgConn())
	if err != nil {
		return nil, explainSQLError(err)
	}
	f := rouse.Finding{Check: rouse.CheckStoreSettings, Severity: rouse.SeverityOK,
		Seen: fmt.Sprintf("PostgreSQL %s with %s on", version, strings.Join(losing, ", "))}
	if len(off) > 0 {
		f.Severity, f.Seen = rouse.SeverityCritical,
			fmt.Sprintf("PostgreSQL %s has %s off: a crash loses acknowledged timers", version, strings.Join(off, " and "))
		f.Cure = "turn it on in postgresql.conf, or for this role or database"
	}
	return []rouse.Finding{f}, nil
}

package mem

import (
	"context"

	"github.com/rousehq/rouse"
)

var _ rouse.Diagnosed = (*Store)(nil)

// Diagnose implements rouse.Diagnosed.
func (s *Store) Diagnose(ctx context.Context) ([]rouse.Finding, error) {
	return []rouse.Finding{{Check: rouse.CheckStoreSettings, Severity: rouse.SeverityWarning,
		Seen: "everything is in memory, and lost when the process ends",
		Cure: "use another store, unless this is a trial"}}, ctx.Err()
}

package sqlite

import (
	"context"

	"github.com/rousehq/rouse"
)

var _ rouse.Diagnosed = (*Store)(nil)

// Diagnose implements rouse.Diagnosed.
func (s *Store) Diagnose(ctx context.Context) ([]rouse.Finding, error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	settings := rouse.Finding{Check: rouse.CheckStoreSettings, Severity: rouse.SeverityOK,
		Seen: "every commit is synced to the disk"}
	if s.witness == nil {
		settings.Severity, settings.Seen = rouse.SeverityWarning,
			"commits are not synced to the disk: a power cut loses the last ones"
		settings.Cure = "open the store without Relaxed"
	}
	return []rouse.Finding{settings, rouse.SpaceFinding(s.path, s.disk.Free(), max(s.disk.Reserve, 0))}, nil
}

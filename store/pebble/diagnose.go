package pebble

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
	return []rouse.Finding{
		{Check: rouse.CheckStoreSettings, Severity: rouse.SeverityOK, Seen: "every commit is synced to the disk"},
		rouse.SpaceFinding(s.dir, s.room.Free(), max(s.room.Reserve, 0)),
	}, nil
}

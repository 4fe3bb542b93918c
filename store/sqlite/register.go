package sqlite

import (
	"context"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

func init() {
	store.Register("sqlite", store.Driver{
		Open: func(_ context.Context, url string, o store.Options) (rouse.Store, error) {
			return Open(strings.TrimPrefix(url, "sqlite:"), Options{Clock: o.Clock, AcceptLoss: o.AcceptLoss, Report: o.Report})
		},
		Files: &store.Files{
			Checkpoint: CheckpointFile,
			Absent:     []string{"", "-wal", "-shm", "-journal", ".witness"},
			Count:      Tally,
			Prefix: func(s rouse.Store) (string, bool) {
				q, ok := s.(*Store)
				if !ok {
					return "", false
				}
				return q.Path() + ".", true
			},
		},
	})
}

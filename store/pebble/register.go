package pebble

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store"
)

func init() {
	store.Register("pebble", store.Driver{
		Open: func(_ context.Context, url string, o store.Options) (rouse.Store, error) {
			return Open(strings.TrimPrefix(url, "pebble:"), Options{Clock: o.Clock, AcceptLoss: o.AcceptLoss, Report: o.Report})
		},
		Files: &store.Files{
			Absent: []string{""},
			Count:  Tally,
			Prefix: func(s rouse.Store) (string, bool) {
				p, ok := s.(*Store)
				if !ok {
					return "", false
				}
				return p.Dir() + string(filepath.Separator), true
			},
		},
	})
}

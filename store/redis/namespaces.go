package redis

import (
	"context"
	"maps"
	"slices"
	"strconv"
)

// RecordNamespaces returns the namespaces that have records, sorted. It reads each hour that has records.
func (s *Store) RecordNamespaces(ctx context.Context) ([]string, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	hours, err := s.recordsPerHour(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]map[string]bool, len(s.shards))
	err = s.everyShard(func(n int, sh *shard) error {
		found[n] = map[string]bool{}
		for hour := range hours {
			names, err := sh.readTexts(ctx, "smembers", "spaces:"+strconv.FormatInt(hour, 10))
			if err != nil {
				return err
			}
			for _, name := range names {
				found[n][name] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, names := range found {
		maps.Copy(all, names)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

package storekit

import (
	"slices"

	"github.com/rousehq/rouse"
)

// MergePages returns the first rows of several sources in the order of keys, limit at most: those up to the
// last key that all sources have read.
func MergePages(limit int, sources ...rouse.Page) (page rouse.Page) {
	for _, s := range sources {
		page.Rows = append(page.Rows, s.Rows...)
		if s.Next != nil && (page.Next == nil || s.Next.Compare(*page.Next) < 0) {
			page.Next = s.Next
		}
	}
	slices.SortFunc(page.Rows, func(a, b rouse.Row) int { return a.Key.Compare(b.Key) })
	if page.Next != nil {
		next := *page.Next // it may be the key of a row
		page.Next = &next
		page.Rows = slices.DeleteFunc(page.Rows, func(r rouse.Row) bool { return r.Key.Compare(next) > 0 })
	}
	if len(page.Rows) > limit {
		page.Rows = page.Rows[:limit:limit]
		next := page.Rows[limit-1].Key
		page.Next = &next
	}
	return page
}

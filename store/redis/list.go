package redis

import (
	"context"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
)

// maxLooks limits the rows that one page of a list examines in each of its sources, scriptLooks the rows that
// one script examines.
const (
	maxLooks    = 16384
	scriptLooks = 2048
)

// List returns the matching rows in the order of keys. It merges the sources of the query up to the last key
// that all of them have read.
func (s *Store) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return rouse.Page{}, err
	}
	defer end()
	q.Limit = max(1, q.Limit)
	sources, err := s.listsOf(&q)
	if err != nil {
		return rouse.Page{}, err
	}
	found := make([][]rouse.Page, len(s.shards))
	err = s.shardsOf(&q, func(n int, sh *shard) error {
		for _, src := range sources {
			rows, next, err := src.readListPage(ctx, sh, q.Limit)
			if err != nil {
				return err
			}
			found[n] = append(found[n], rouse.Page{Rows: rows, Next: next})
		}
		return nil
	})
	if err != nil {
		return rouse.Page{}, err
	}
	return storekit.MergePages(q.Limit, slices.Concat(found...)...), nil
}

// Count returns how many rows match.
func (s *Store) Count(ctx context.Context, q rouse.Query) (int64, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	q.After = rouse.Key{}
	counts := make([]int64, len(s.shards))
	if q.Prefix == "" && q.Name == "" && len(q.Labels) == 0 && q.DueFrom == 0 && q.DueUntil == 0 {
		err = s.shardsOf(&q, func(n int, sh *shard) (err error) {
			counts[n], err = sh.sumTally(ctx, &q)
			return err
		})
	} else {
		var sources []scan
		if sources, err = s.listsOf(&q); err != nil {
			return 0, err
		}
		err = s.shardsOf(&q, func(n int, sh *shard) error {
			for _, src := range sources {
				found, err := src.countListed(ctx, sh)
				if err != nil {
					return err
				}
				counts[n] += found
			}
			return nil
		})
	}
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	return total, nil
}

// sumTally returns how many rows of a shard match the namespace and the states of a query.
func (sh *shard) sumTally(ctx context.Context, q *rouse.Query) (total int64, err error) {
	var counts []string
	if q.Namespace == "" {
		all, err := sh.readTexts(ctx, "hgetall", "tally")
		if err != nil {
			return 0, err
		}
		for i := 0; i+1 < len(all); i += 2 {
			for _, state := range statesOf(q) {
				if prefix := strconv.Itoa(int(state)) + ":"; len(all[i]) >= len(prefix) && all[i][:len(prefix)] == prefix {
					counts = append(counts, all[i+1])
				}
			}
		}
	} else {
		args := []any{"hmget", "tally"}
		for _, state := range statesOf(q) {
			args = append(args, strconv.Itoa(int(state))+":"+q.Namespace)
		}
		all, err := asList(sh.runScript(ctx, readScript, args...))
		if err != nil {
			return 0, err
		}
		for _, n := range all {
			if text, ok := n.(string); ok {
				counts = append(counts, text)
			}
		}
	}
	for _, text := range counts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, errAnswer
		}
		total += n
	}
	return total, nil
}

// statesOf returns the states of a query without duplicates.
func statesOf(q *rouse.Query) []rouse.State {
	states := q.States
	if len(states) == 0 {
		states = rouse.ListedStates
	}
	states = slices.Clone(states)
	slices.Sort(states)
	return slices.Compact(states)
}

// scan is an ordered list of keys with the conditions of a query: of all rows, or of the rows in one state.
// No row is in two lists of a query.
type scan struct {
	list     string
	from, to string // in the syntax of ZRANGEBYLEX
	begins   string // prefix behind the namespace, if the range does not include it
	filters  []any
}

// listsOf chooses the lists of a query: those of the states if the query excludes scheduled rows, or the list
// of all keys.
func (s *Store) listsOf(q *rouse.Query) ([]scan, error) {
	if err := checkTexts("query", q.Namespace, q.Prefix, q.Name); err != nil {
		return nil, err
	}
	src := scan{list: "keys", from: "-", to: "+"}
	begins := q.Prefix
	if q.Name != "" {
		if begins = q.Name + "\x00"; len(q.Prefix) > len(q.Name) || q.Name[:len(q.Prefix)] != q.Prefix {
			return nil, nil // no name has both prefixes
		}
	}
	if q.Namespace != "" {
		low := q.Namespace + "\x00" + begins
		src.from, src.to = "["+low, "("+textAfterPrefix(low)
	} else {
		src.begins = begins
	}
	if q.After != (rouse.Key{}) {
		if after := encodeMember(&q.After); src.from == "-" || after >= src.from[1:] {
			src.from = "(" + after
		}
	}
	states := statesOf(q)
	wanted := make([]byte, len(states))
	for i, state := range states {
		wanted[i] = byte(state)
	}
	bound := func(i rouse.Instant) string {
		if i == 0 {
			return ""
		}
		return strconv.FormatInt(int64(i), 10)
	}
	src.filters = []any{wanted, bound(q.DueFrom), bound(q.DueUntil)}
	var labels []any
	for k, v := range q.Labels {
		labels = append(labels, k, v)
	}
	src.filters = append(src.filters, labels)
	if slices.Contains(states, rouse.StateScheduled) {
		return []scan{src}, nil
	}
	var out []scan
	for _, state := range states {
		src.list = "state:" + strconv.Itoa(int(state))
		out = append(out, src)
	}
	return out, nil
}

func (src *scan) scanArgs(from string, limit, looks int, count int) []any {
	args := []any{src.list, from, src.to, limit, looks, src.begins, src.filters[0], src.filters[1],
		src.filters[2], count, ""}
	return append(args, src.filters[3].([]any)...)
}

// readListPage reads up to limit rows and the next one, and examines at most maxLooks. next is where the
// following page begins.
func (src *scan) readListPage(ctx context.Context, sh *shard,
	limit int) (rows []rouse.Row, next *rouse.Key, err error) {
	from := src.from
	for looked := 0; ; looked += scriptLooks {
		answer, err := sh.runIndexed(ctx, listScript, 10, src.scanArgs(from, limit+1-len(rows), scriptLooks, 0)...)
		if err != nil {
			return nil, nil, err
		}
		if len(answer) < 2 {
			return nil, nil, errAnswer
		}
		last, ok := answer[0].(string)
		found, err := asTexts(answer[2:])
		if err != nil || !ok || len(found)%2 != 0 {
			return nil, nil, errAnswer
		}
		for i := 0; i < len(found); i += 2 {
			row, err := parseRowBlob(found[i], found[i+1])
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, row)
		}
		switch {
		case len(rows) > limit:
			rows = rows[:limit]
			return rows, &rows[limit-1].Key, nil
		case last == "":
			return rows, nil, nil
		case looked+scriptLooks >= maxLooks:
			k, err := decodeMember(last)
			return rows, &k, err
		}
		from = "(" + last
	}
}

// countListed counts the matching rows of the list.
func (src *scan) countListed(ctx context.Context, sh *shard) (total int64, err error) {
	for from := src.from; ; {
		answer, err := sh.runIndexed(ctx, listScript, 10, src.scanArgs(from, 0, scriptLooks, 1)...)
		if err != nil {
			return 0, err
		}
		if len(answer) != 2 {
			return 0, errAnswer
		}
		last, ok := answer[0].(string)
		n, ok2 := answer[1].(int64)
		if !ok || !ok2 {
			return 0, errAnswer
		}
		total += n
		if last == "" {
			return total, nil
		}
		from = "(" + last
	}
}

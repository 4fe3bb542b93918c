package front

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/store/redis"
)

//go:embed head.lua
var headText string

//go:embed enter.lua
var enterText string

//go:embed put.lua
var putText string

//go:embed repair.lua
var repairText string

//go:embed range.lua
var rangeText string

//go:embed take.lua
var takeText string

//go:embed look.lua
var lookText string

//go:embed beat.lua
var beatText string

//go:embed end.lua
var endText string

var (
	enterScript  = goredis.NewScript(enterText)
	putScript    = goredis.NewScript(headText + putText)
	repairScript = goredis.NewScript(headText + repairText)
	rangeScript  = goredis.NewScript(headText + rangeText)
	takeScript   = goredis.NewScript(headText + takeText)
	lookScript   = goredis.NewScript(headText + lookText)
	beatScript   = goredis.NewScript(headText + beatText)
	endScript    = goredis.NewScript(headText + endText)
)

// chunk limits the entries in one script call, so that it is short.
const chunk = 500

var errAnswer = errors.New("unexpected answer of a script")

// index is the client of the index, whose content head.lua describes. Every call except enter contains the id
// that the caller knows, and fails if the index has another id by then.
type index struct {
	client goredis.UniversalClient
	name   string   // of the server, without passwords
	base   []string // prefix of all keys
}

func newIndex(url string, o *Options) (*index, error) {
	if strings.ContainsAny(o.Prefix, "{}*?[]\\ \t\r\n\x00") || len(o.Prefix) > 64 {
		return nil, rouse.Refuse("prefix", o.Prefix, "cannot begin the keys of an index",
			"use up to 64 letters, digits and :-_.")
	}
	client, name, err := redis.Connect(url, redis.Options{Timeout: 10 * time.Second, DialTimeout: o.Timeout, PoolSize: 16})
	if err != nil {
		return nil, err
	}
	return &index{client: client, name: name, base: []string{o.Prefix + ":{index}:"}}, nil
}

func (ix *index) closeIndex() error { return ix.client.Close() }

func (ix *index) runIndexScript(ctx context.Context, s *goredis.Script, args []any) (any, error) {
	v, err := s.Run(ctx, ix.client, ix.base, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", ix.name, err)
	}
	return v, nil
}

func (ix *index) runListScript(ctx context.Context, s *goredis.Script, args []any) ([]any, error) {
	v, err := ix.runIndexScript(ctx, s, args)
	if err != nil {
		return nil, err
	}
	l, ok := v.([]any)
	if !ok {
		return nil, errAnswer
	}
	return l, nil
}

// refuseEviction refuses a server that evicts entries when memory is short: the loss would be silent.
func (ix *index) refuseEviction(ctx context.Context) error {
	info, err := ix.client.Info(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("index %s: %w", ix.name, err)
	}
	if _, policy, ok := strings.Cut(info, "maxmemory_policy:"); ok && strings.HasPrefix(policy, "allkeys-") {
		policy, _, _ = strings.Cut(policy, "\r")
		return fmt.Errorf(
			"index %s has maxmemory-policy %s: Redis would silently delete entries when memory is short; set it to noeviction",
			ix.name, policy)
	}
	return nil
}

// stand is the id and the state of the index.
type stand struct {
	id    int64 // 0: the store has no index
	level int   // all rows of at least this criticality are in it; 10: of none
	beat  int64
}

// openOrCreate returns the state of the index. If the store has no index, enter creates one with the given
// id, unless that is 0; old is the id of an index to discard first.
func (ix *index) openOrCreate(ctx context.Context, id, old int64) (s stand, err error) {
	v, err := ix.runListScript(ctx, enterScript, []any{id, old})
	if err != nil {
		return s, err
	}
	if len(v) != 3 {
		return s, errAnswer
	}
	if text, ok := v[0].(string); ok {
		if s.id, err = strconv.ParseInt(text, 10, 64); err != nil || s.id <= 0 {
			return s, fmt.Errorf("index %s has an invalid id: %q", ix.name, text)
		}
	}
	level, ok1 := v[1].(string)
	beat, ok2 := v[2].(string)
	if s.level, err = strconv.Atoi(level); err != nil || !ok1 || !ok2 {
		return s, errAnswer
	}
	if s.beat, err = strconv.ParseInt(beat, 10, 64); err != nil {
		return s, errAnswer
	}
	return s, nil
}

// batch is a batch of rows that are being added to the index.
type batch struct {
	owner string
	level int // their criticality
}

// recordHeartbeat renews the beat of the index, and fails if the beat is below least. clean is the lowest
// criticality at which the caller found no unmarked row. beat begins the batch if it is not nil. It returns
// the state of the index and the owners of batches older than given.
func (ix *index) recordHeartbeat(ctx context.Context, id, least int64, clean int, given time.Duration,
	b *batch) (s stand, dead []string, err error) {
	args := []any{id, least, clean, given.Milliseconds()}
	if b != nil {
		args = append(args, b.owner, b.level)
	}
	v, err := ix.runListScript(ctx, beatScript, args)
	if err != nil {
		return s, nil, err
	}
	if len(v) < 2 {
		return s, nil, errAnswer
	}
	level, ok := v[0].(int64)
	beat, _ := v[1].(string)
	if s.beat, err = strconv.ParseInt(beat, 10, 64); err != nil || !ok {
		return s, nil, errAnswer
	}
	s.id, s.level = id, int(level)
	for _, v := range v[2:] {
		owner, _ := v.(string)
		dead = append(dead, owner)
	}
	return s, dead, nil
}

// endBatches ends batches.
func (ix *index) endBatches(ctx context.Context, id int64, owners []string) error {
	args := []any{id}
	for _, o := range owners {
		args = append(args, o)
	}
	_, err := ix.runIndexScript(ctx, endScript, args)
	return err
}

// putEntries sets the positions of rows. Newer entries stay. With an owner, the rows are its batch, which
// ends with this call.
func (ix *index) putEntries(ctx context.Context, id int64, entries []postgres.Entry, owner string) error {
	for {
		part := entries[:min(chunk, len(entries))]
		entries = entries[len(part):]
		ends := ""
		if len(entries) == 0 {
			ends = owner
		}
		args := append(make([]any, 0, 2+3*len(part)), id, ends)
		for i := range part {
			e := &part[i]
			args = append(args, encodeMember(&e.Key), scoreOf(e.Visible), valueOf(e.Revision, e.Bucket))
		}
		if len(part) > 0 || ends != "" {
			if _, err := ix.runIndexScript(ctx, putScript, args); err != nil {
				return err
			}
		}
		if len(entries) == 0 {
			return nil
		}
	}
}

// repairEntries sets the positions of rows as the caller has read them, after it had read the values in the
// index (empty: none). It returns the number of entries that were added or moved.
func (ix *index) repairEntries(ctx context.Context, id int64, entries []postgres.Entry,
	seen []string) (repaired int, err error) {
	for len(entries) > 0 {
		part := entries[:min(chunk, len(entries))]
		args := append(make([]any, 0, 1+4*len(part)), id)
		for i := range part {
			e := &part[i]
			args = append(args, encodeMember(&e.Key), scoreAt(e), valueOf(e.Revision, e.Bucket), seen[i])
		}
		v, err := ix.runIndexScript(ctx, repairScript, args)
		if err != nil {
			return repaired, err
		}
		n, ok := v.(int64)
		if !ok {
			return repaired, errAnswer
		}
		repaired += int(n)
		entries, seen = entries[len(part):], seen[len(part):]
	}
	return repaired, nil
}

// lookupEntries returns the entries of keys.
func (ix *index) lookupEntries(ctx context.Context, id int64, keys []rouse.Key) (out []entry, err error) {
	for len(keys) > 0 {
		part := keys[:min(chunk, len(keys))]
		args := append(make([]any, 0, 1+len(part)), id)
		for i := range part {
			args = append(args, encodeMember(&part[i]))
		}
		v, err := ix.runListScript(ctx, lookScript, args)
		if err != nil {
			return nil, err
		}
		if len(v) != 2*len(part) {
			return nil, errAnswer
		}
		for i := range part {
			e := entry{Entry: postgres.Entry{Key: part[i]}}
			e.score, _ = v[2*i].(string)
			e.value, _ = v[2*i+1].(string)
			e.Revision = valueRevision(e.value)
			e.Visible, _ = visibleOf(e.score)
			out = append(out, e)
		}
		keys = keys[len(part):]
	}
	return out, nil
}

// postponeEntries moves unchanged entries to a later time, and reports which ones it moved.
func (ix *index) postponeEntries(ctx context.Context, id int64, to rouse.Instant,
	entries []entry) (mine []bool, err error) {
	for len(entries) > 0 {
		part := entries[:min(chunk, len(entries))]
		args := append(make([]any, 0, 2+3*len(part)), id, scoreOf(to))
		for i := range part {
			args = append(args, encodeMember(&part[i].Key), part[i].score, part[i].value)
		}
		v, err := ix.runListScript(ctx, takeScript, args)
		if err != nil {
			return nil, err
		}
		if len(v) != len(part) {
			return nil, errAnswer
		}
		for _, won := range v {
			mine = append(mine, won == int64(1))
		}
		entries = entries[len(part):]
	}
	return mine, nil
}

// page is a part of a bucket's entries.
type page struct {
	entries []entry
	more    bool
}

// spot is the position in a bucket from which to continue.
type spot struct {
	bucket uint32
	score  string // empty: from the start
	member string
}

// readDueEntries returns the level and the next entries of buckets that are due by a time, up to count of
// each.
func (ix *index) readDueEntries(ctx context.Context, id int64, until rouse.Instant, count int,
	spots []spot) (level int, pages []page, err error) {
	args := append(make([]any, 0, 3+3*len(spots)), id, scoreOf(min(until, rouse.Never-1)), count)
	for i := range spots {
		args = append(args, spots[i].bucket, spots[i].score, spots[i].member)
	}
	v, err := ix.runListScript(ctx, rangeScript, args)
	if err != nil {
		return 0, nil, err
	}
	if len(v) != 1+len(spots) {
		return 0, nil, errAnswer
	}
	text, _ := v[0].(string)
	if level, err = strconv.Atoi(text); err != nil {
		return 0, nil, errAnswer
	}
	pages = make([]page, len(spots))
	for i := range spots {
		if pages[i], err = parseEntryPage(v[1+i], spots[i].bucket); err != nil {
			return 0, nil, err
		}
	}
	return level, pages, nil
}

func parseEntryPage(v any, bucket uint32) (p page, err error) {
	l, ok := v.([]any)
	if !ok || len(l)%3 != 1 {
		return p, errAnswer
	}
	p.more = l[0] == int64(1)
	p.entries = make([]entry, 0, len(l)/3)
	for i := 1; i < len(l); i += 3 {
		member, ok1 := l[i].(string)
		score, ok2 := l[i+1].(string)
		value, ok3 := l[i+2].(string)
		key, ok4 := decodeMember(member)
		visible, ok5 := visibleOf(score)
		if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
			return p, errAnswer
		}
		p.entries = append(p.entries, entry{Entry: postgres.Entry{Key: key, Bucket: bucket, Visible: visible,
			Revision: valueRevision(value)},
			value: value, score: score})
	}
	return p, nil
}

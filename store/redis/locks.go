package redis

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Lock takes or renews leases in a single script.
func (s *Store) Lock(ctx context.Context, owner string, ttl time.Duration, wants []rouse.Want) ([]rouse.Lease, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	args := []any{owner, max(0, int64(rouse.Instant(0).Add(ttl)))}
	for _, w := range wants {
		data := w.Data
		if data == nil {
			data = []byte{}
		}
		args = append(args, w.Name, binary.BigEndian.AppendUint64(nil, w.If), data)
	}
	answer, err := asList(s.shards[0].runScript(ctx, lockScript, args...))
	if err != nil {
		return nil, err
	}
	if len(answer) != 1+len(wants) {
		return nil, errAnswer
	}
	values, err := asTexts(answer[1:])
	if err != nil {
		return nil, err
	}
	out := make([]rouse.Lease, len(wants))
	for i, w := range wants {
		if out[i], err = readLease(w.Name, values[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Unlock ends the given leases if they belong to the owner.
func (s *Store) Unlock(ctx context.Context, owner string, names []string) error {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return err
	}
	defer end()
	args := []any{owner, -1}
	for _, name := range names {
		args = append(args, name)
	}
	_, err = s.shards[0].runScript(ctx, lockScript, args...)
	return err
}

// leasesScript returns the clock and all leases at the same moment.
var leasesScript = newScript(commonText, `local now = clock() return {now, call('HGETALL', base .. 'leases')}`)

// Leases returns the leases whose names begin with the prefix. It reads all leases: there are only a few for
// each node and bucket.
func (s *Store) Leases(ctx context.Context, prefix string) ([]rouse.Lease, rouse.Instant, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	answer, err := asList(s.shards[0].runScript(ctx, leasesScript))
	if err != nil {
		return nil, 0, err
	}
	if len(answer) != 2 {
		return nil, 0, errAnswer
	}
	now, ok := answer[0].(int64)
	values, err := asTexts(answer[1])
	if err != nil || !ok || len(values)%2 != 0 {
		return nil, 0, errAnswer
	}
	var out []rouse.Lease
	for i := 0; i < len(values); i += 2 {
		if !strings.HasPrefix(values[i], prefix) {
			continue
		}
		l, err := readLease(values[i], values[i+1])
		if err != nil {
			return nil, 0, err
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b rouse.Lease) int { return strings.Compare(a.Name, b.Name) })
	return out, rouse.Instant(now), nil
}

// endScript ends leases. ARGV: as for dropScript.
var endScript = newScript(commonText, `local key, now = base .. 'leases', clock()
loosen()
for i = 1, #ARGV, 2 do
  local lease = call('HGET', key, ARGV[i])
  if lease and sub(lease, 1, 16) == ARGV[i + 1] and parse('>L', lease, 9) > now then
    call('HSET', key, ARGV[i], sub(lease, 1, 8) .. pack('>l', now) .. sub(lease, 17))
  end
end
return now`)

// EndLeases ends leases of any owner.
func (s *Store) EndLeases(ctx context.Context, leases []rouse.Lease) error {
	return s.changeLeases(ctx, endScript, leases)
}

// dropScript deletes leases that have ended. ARGV: of each its name, its epoch and its end (8 bytes each).
var dropScript = newScript(commonText, `local key, now = base .. 'leases', clock()
loosen()
for i = 1, #ARGV, 2 do
  local lease = call('HGET', key, ARGV[i])
  if lease and sub(lease, 1, 16) == ARGV[i + 1] and parse('>L', lease, 9) <= now then call('HDEL', key, ARGV[i]) end
end
return now`)

// DropLeases deletes leases that have ended.
func (s *Store) DropLeases(ctx context.Context, leases []rouse.Lease) error {
	return s.changeLeases(ctx, dropScript, leases)
}

// changeLeases runs a script that changes those of the leases that are as they are given.
func (s *Store) changeLeases(ctx context.Context, by script, leases []rouse.Lease) error {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return err
	}
	defer end()
	args := make([]any, 0, 2*len(leases))
	for i := range leases {
		is := binary.BigEndian.AppendUint64(nil, leases[i].Epoch)
		args = append(args, leases[i].Name, binary.BigEndian.AppendUint64(is, uint64(leases[i].Until)))
	}
	_, err = s.shards[0].runScript(ctx, by, args...)
	return err
}

// readLease parses the text of lock.lua: epoch:8 end:8 length:4 owner data. An empty text is a lease that
// never had an owner.
func readLease(name, text string) (rouse.Lease, error) {
	l := rouse.Lease{Name: name}
	if text == "" {
		return l, nil
	}
	b := []byte(text)
	if len(b) < 20 {
		return l, errAnswer
	}
	l.Epoch, l.Until = binary.BigEndian.Uint64(b), rouse.Instant(binary.BigEndian.Uint64(b[8:]))
	n := int(binary.BigEndian.Uint32(b[16:]))
	if n > len(b)-20 {
		return l, errAnswer
	}
	l.Owner = string(b[20 : 20+n])
	if len(b) > 20+n {
		l.Data = b[20+n:]
	}
	return l, nil
}

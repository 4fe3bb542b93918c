package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rousehq/rouse"
)

// Lock takes or renews leases, in one statement and by the server's clock. A name that is wanted twice goes
// into a following statement.
func (s *Store) Lock(ctx context.Context, owner string, ttl time.Duration, wants []rouse.Want) ([]rouse.Lease, error) {
	out := make([]rouse.Lease, len(wants))
	if len(wants) == 0 {
		return out, s.checkUsable(ctx)
	}
	var calls []*call
	var places [][]int // indexes of the wants in each call, in the order of names
	for _, at := range splitRounds(len(wants), func(i int) string { return wants[i].Name }) {
		slices.SortFunc(at, func(a, b int) int { return strings.Compare(wants[a].Name, wants[b].Name) })
		names, ifs, datas := newTextArray(len(at), 32), newInt8Array(len(at)), newByteaArray(len(at), 64)
		for _, i := range at {
			w := &wants[i]
			names.appendString(w.Name)
			ifs.appendInt8(int64(w.If))
			if len(w.Data) == 0 {
				datas.addNull()
			} else {
				datas.appendBytea(w.Data)
			}
		}
		calls = append(calls,
			newCall(s.sql.lock).addString(owner).addInt8(roundUpMillis(ttl)).addArray(names).addArray(ifs).addArray(datas))
		places = append(places, at)
	}
	err := s.callLeases(ctx, calls, func(i int, row [][]byte) error {
		if len(places[i]) == 0 {
			return errShort
		}
		at := places[i][0]
		places[i] = places[i][1:]
		return scanLease(row, &out[at])
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// splitRounds divides the numbers below n into groups without duplicate names; numbers of the same name keep
// their order.
func splitRounds(n int, name func(i int) string) [][]int {
	var out [][]int
	seen := make(map[string]int, n)
	for i := range n {
		round := seen[name(i)]
		seen[name(i)]++
		if round == len(out) {
			out = append(out, nil)
		}
		out[round] = append(out[round], i)
	}
	return out
}

func scanLease(row [][]byte, to *rouse.Lease) error {
	if len(row) < 5 {
		return errShort
	}
	*to = rouse.Lease{Name: string(row[0]), Owner: string(row[1]), Epoch: uint64(readInt(row[2])),
		Until: rouse.Instant(readInt(row[3]))}
	if len(row[4]) > 0 {
		to.Data = slices.Clone(row[4])
	}
	return nil
}

// Unlock ends the given leases if they belong to the owner.
func (s *Store) Unlock(ctx context.Context, owner string, names []string) error {
	if len(names) == 0 {
		return s.checkUsable(ctx)
	}
	list := newTextArray(len(names), 32)
	for _, name := range slices.Sorted(slices.Values(names)) {
		list.appendString(name)
	}
	return s.callLeases(ctx, []*call{newCall(s.sql.unlock).addString(owner).addArray(list)}, nil)
}

// DropLeases deletes leases that have ended. Other rows of leases are never deleted, because they contain the
// epochs.
func (s *Store) DropLeases(ctx context.Context, leases []rouse.Lease) error {
	if len(leases) == 0 {
		return s.checkUsable(ctx)
	}
	text := `DELETE FROM ` + s.sql.schema + `.leases l USING unnest($1, $2, $3) u(name, epoch, until)
WHERE l.name = u.name AND l.epoch = u.epoch AND l.until = u.until AND l.until <= ` + s.sql.schema + `.now_ms()`
	return s.changeLeases(ctx, text, leases)
}

// EndLeases ends leases of any owner. It locks them in the order in which others do.
func (s *Store) EndLeases(ctx context.Context, leases []rouse.Lease) error {
	if len(leases) == 0 {
		return s.checkUsable(ctx)
	}
	text := `WITH e AS (SELECT l.name FROM ` + s.sql.schema + `.leases l, unnest($1, $2, $3) u(name, epoch, until)
WHERE l.name = u.name AND l.epoch = u.epoch AND l.until = u.until ORDER BY l.name FOR UPDATE OF l)
UPDATE ` + s.sql.schema + `.leases l SET until = LEAST(l.until, ` + s.sql.schema + `.now_ms()) FROM e WHERE l.name = e.name`
	return s.changeLeases(ctx, text, leases)
}

// changeLeases makes a change of the leases that are as they are given: $1 to $3 are their names, epochs and
// ends.
func (s *Store) changeLeases(ctx context.Context, text string, leases []rouse.Lease) error {
	names, epochs, ends := newTextArray(len(leases), 32), newInt8Array(len(leases)), newInt8Array(len(leases))
	for i := range leases {
		names.appendString(leases[i].Name)
		epochs.appendInt8(int64(leases[i].Epoch))
		ends.appendInt8(int64(leases[i].Until))
	}
	return s.callLeases(ctx, []*call{newCall(text).addArray(names).addArray(epochs).addArray(ends)}, nil)
}

// Leases returns the leases whose names begin with the prefix.
func (s *Store) Leases(ctx context.Context, prefix string) (out []rouse.Lease, now rouse.Instant, err error) {
	text := `SELECT name, owner, epoch, until, data FROM ` + s.sql.schema +
		`.leases WHERE name >= $1 AND ($2::text IS NULL OR name < $2) AND epoch > 0 ORDER BY name`
	c := newCall(text).addString(prefix)
	if end := textAfterPrefix(prefix); end == "" {
		c.addParameter(pgtype.TextOID, nil)
	} else {
		c.addString(end)
	}
	err = s.callLeases(ctx, []*call{c, newCall(s.sql.now)}, func(i int, row [][]byte) error {
		if i == 1 {
			now = rouse.Instant(readInt(row[0]))
			return nil
		}
		var l rouse.Lease
		if err := scanLease(row, &l); err != nil {
			return err
		}
		out = append(out, l)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return out, now, nil
}

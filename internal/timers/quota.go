package timers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/engine"
)

// Quotas bound the contents and the rates of namespaces. They are safe for concurrent use.
type Quotas interface {
	// Exists reports whether a namespace has been created.
	Exists(namespace string) bool
	// Writes returns how many of n writes of timers a namespace allows now, and why no more.
	Writes(namespace string, n int) (int, error)
	// Room returns how many more timers, of n, there is room for, and why for no more.
	Room(ctx context.Context, namespace string, n int) (int, error)
	// OverlapRoom is Room for occurrences next to their timers.
	OverlapRoom(ctx context.Context, namespace string, n int) (int, error)
	// TakeUp refuses a timer that was written as a draft so long ago, and is in the store already.
	TakeUp(ctx context.Context, namespace string, age time.Duration) error
	// Fit returns how many writes, by how many bytes each adds, there is room for, and why for no more.
	Fit(namespace string, sizes []int64) (int, error)
	// Refuse returns the error of a request beyond a quota of single timers.
	Refuse(namespace, quota string, limit int64) error
	// Read refuses a request that reads.
	Read(namespace string) error
	// ReadSpans refuses a request that reads parts of the namespaces.
	ReadSpans(spans []access.Span) error
	// Of returns the quotas as this node enforces them.
	Of(namespace string) rouse.Quotas
	// Nodes returns how many nodes share the quotas.
	Nodes() int
}

// admission admits writes by the quotas of their namespaces.
type admission struct {
	quotas   Quotas // nil: there are none
	store    rouse.Store
	least    time.Duration // the shortest interval of all namespaces
	longest  time.Duration // the longest timeout of attempts, in namespaces without a quota of it; 0 is any
	explicit bool          // timers are written only in namespaces that have been created
}

// requireNamespace refuses a namespace that has to be created first.
func (a *admission) requireNamespace(namespace string) error {
	if a.explicit && !a.quotas.Exists(namespace) {
		return rouse.Refuse("namespace", namespace, "has not been created", "create it, or use another one")
	}
	return nil
}

// takeWrites returns how many of n writes a namespace allows now, and why no more.
func (a *admission) takeWrites(namespace string, n int) (int, error) {
	if err := a.requireNamespace(namespace); err != nil {
		return 0, err
	}
	return a.quotas.Writes(namespace, n)
}

// admitPuts drops the puts that the quotas of their namespaces do not allow, with the reason as their
// results.
func (a *admission) admitPuts(ctx context.Context, puts []Put, items []*engine.Write, at []int,
	results []PutResult) ([]*engine.Write, []int, error) {
	if a.quotas == nil {
		return items, at, nil
	}
	if len(items) == 1 { // by far the most frequent, and so without the extra work of lists
		err := a.admitPut(ctx, &puts[at[0]], items[0])
		switch {
		case err == nil:
			return items, at, nil
		case !errors.Is(err, rouse.ErrQuota) && !errors.As(err, new(*rouse.Invalid)):
			return nil, nil, err
		}
		results[at[0]] = PutResult{Err: err}
		return nil, nil, nil
	}
	spaces := map[string][]int{} // places in items
	for j, i := range at {
		ns := puts[i].Key.Namespace
		spaces[ns] = append(spaces[ns], j)
	}
	refused := make([]error, len(items))
	for ns, list := range spaces {
		if err := a.refuseInNamespace(ctx, ns, puts, at, list, refused); err != nil {
			return nil, nil, err
		}
		if err := a.fitBytes(ctx, ns, items, list, refused); err != nil {
			return nil, nil, err
		}
	}
	if !slices.ContainsFunc(refused, func(err error) bool { return err != nil }) {
		return items, at, nil
	}
	var keptItems []*engine.Write // the caller still has its own lists
	var keptAt []int
	for j, i := range at {
		if refused[j] != nil {
			results[i] = PutResult{Err: refused[j]}
			continue
		}
		keptItems, keptAt = append(keptItems, items[j]), append(keptAt, i)
	}
	return keptItems, keptAt, nil
}

// admitPut is admitPuts for one put.
func (a *admission) admitPut(ctx context.Context, p *Put, w *engine.Write) error {
	if _, err := a.takeWrites(p.Key.Namespace, 1); err != nil {
		return err
	}
	var old rouse.Row
	read := func() error {
		rows, err := a.store.Get(ctx, []rouse.Key{p.Key})
		if err == nil {
			old = rows[0]
		}
		return err
	}
	if p.mayAdd() {
		if _, why := a.quotas.Room(ctx, p.Key.Namespace, 1); why != nil {
			if !errors.Is(why, rouse.ErrQuota) {
				return why
			}
			if err := read(); err != nil {
				return err
			}
			if old.Revision == 0 {
				return why
			}
		}
	}
	if a.quotas.Of(p.Key.Namespace).Bytes == 0 {
		return nil
	}
	if w.Change.If != rouse.NoRow && old.Revision == 0 {
		if err := read(); err != nil {
			return err
		}
	}
	return a.admitGrowth(p.Key.Namespace, &old, w.Change.To)
}

// mayAdd reports whether a put may add a timer.
func (p *Put) mayAdd() bool { return p.Mode != ReplaceOnly && p.IfRevision == 0 && p.Key.Fire == "" }

// refuseInNamespace fills in why the puts of a list, which are of one namespace, are refused.
func (a *admission) refuseInNamespace(ctx context.Context, namespace string, puts []Put, at, list []int,
	refused []error) error {
	n, why := a.takeWrites(namespace, len(list))
	for _, j := range list[n:] {
		refused[j] = why
	}
	var fresh []int // that may add a timer
	for _, j := range list[:n] {
		if puts[at[j]].mayAdd() {
			fresh = append(fresh, j)
		}
	}
	room, why := a.quotas.Room(ctx, namespace, len(fresh))
	switch {
	case room == len(fresh):
		return nil
	case !errors.Is(why, rouse.ErrQuota):
		return why
	}
	return a.refuseAdditions(ctx, puts, at, fresh[room:], why, refused)
}

// refuseAdditions refuses the puts of a list, except those that replace a timer, which needs no room.
func (a *admission) refuseAdditions(ctx context.Context, puts []Put, at, list []int, why error, refused []error) error {
	keys := make([]rouse.Key, len(list))
	for i, j := range list {
		keys[i] = puts[at[j]].Key
	}
	rows, err := a.store.Get(ctx, keys)
	if err != nil {
		return err
	}
	for i, j := range list {
		if rows[i].Revision == 0 {
			refused[j] = why
		}
	}
	return nil
}

// fitBytes fills in which puts of a list the quota of bytes refuses. The row that a put replaces makes room
// for it.
func (a *admission) fitBytes(ctx context.Context, namespace string, items []*engine.Write, list []int,
	refused []error) error {
	if a.quotas.Of(namespace).Bytes == 0 {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(j int) bool { return refused[j] != nil })
	sizes := make([]int64, len(kept))
	var keys []rouse.Key
	var of []int
	for i, j := range kept {
		c := &items[j].Change
		sizes[i] = rowSize(c.To)
		if c.If != rouse.NoRow {
			keys, of = append(keys, c.Key), append(of, i)
		}
	}
	if len(keys) > 0 {
		rows, err := a.store.Get(ctx, keys)
		if err != nil {
			return err
		}
		for k := range rows {
			sizes[of[k]] -= rowSize(&rows[k])
		}
	}
	n, why := a.quotas.Fit(namespace, sizes)
	for _, j := range kept[n:] {
		refused[j] = why
	}
	return nil
}

// rowSize returns the size of a row, 0 if there is none.
func rowSize(row *rouse.Row) int64 {
	if row == nil || row.Revision == 0 && row.Body == nil {
		return 0
	}
	return row.Size()
}

// admitReplace admits a put onto an existing timer, which needs no room for another one.
func (a *admission) admitReplace(namespace string) error {
	if a.quotas == nil {
		return nil
	}
	_, err := a.takeWrites(namespace, 1)
	return err
}

// admitGrowth admits that a write of one timer replaces a row, if there is one.
func (a *admission) admitGrowth(namespace string, old, row *rouse.Row) error {
	if a.quotas == nil {
		return nil
	}
	_, err := a.quotas.Fit(namespace, []int64{rowSize(row) - rowSize(old)})
	return err
}

// admitNote admits the note of an Idempotency-Key.
func (a *admission) admitNote(n *askedNote, now rouse.Instant) error {
	if a.quotas == nil {
		return nil
	}
	row, err := n.storedRow(now, 0)
	if err != nil {
		return err
	}
	if err := a.admitGrowth(n.key.Namespace, nil, &row); err != nil {
		return fmt.Errorf("the Idempotency-Key needs %d bytes for %v; send the request without one, delete timers, "+
			"or raise the quota: %w", row.Size(), access.RepeatAge, err)
	}
	return nil
}

// admitOccurrences admits that all of the rows of occurrences are written next to a timer, or nothing.
func (a *admission) admitOccurrences(ctx context.Context, namespace string, rows []rouse.Row) error {
	if a.quotas == nil {
		return nil
	}
	size := int64(0)
	for i := range rows {
		size += rows[i].Size()
	}
	if _, err := a.quotas.OverlapRoom(ctx, namespace, len(rows)); err != nil {
		return err
	}
	_, err := a.quotas.Fit(namespace, []int64{size})
	return err
}

// admitRedrive admits that a dead letter becomes an occurrence in progress.
func (a *admission) admitRedrive(ctx context.Context, namespace string, dead, row *rouse.Row) error {
	if _, err := a.quotas.OverlapRoom(ctx, namespace, 1); err != nil {
		return err
	}
	return a.admitGrowth(namespace, dead, row)
}

// takesUp admits a timer of a size that was written as a draft so long ago.
func (a *admission) takesUp(ctx context.Context, namespace string, age time.Duration, size int64) error {
	if a.quotas == nil {
		return nil
	}
	if err := a.requireNamespace(namespace); err != nil {
		return err
	}
	if err := a.quotas.TakeUp(ctx, namespace, age); err != nil {
		return err
	}
	_, err := a.quotas.Fit(namespace, []int64{size})
	return err
}

// occurrencesAtATime returns how many occurrences of a size are admitted together: a tenth of this node's
// part of the quotas, so that nearly all of the room can be used; at least one, and most without quotas.
func (a *admission) occurrencesAtATime(namespace string, size int64, most int) int {
	if a.quotas == nil {
		return most
	}
	q, part := a.quotas.Of(namespace), int64(10*max(1, a.quotas.Nodes()))
	if q.Overlaps > 0 {
		most = int(min(int64(most), q.Overlaps/part))
	}
	if q.Bytes > 0 {
		most = int(min(int64(most), q.Bytes/part/max(1, size)))
	}
	return max(1, most)
}

// returnBytes gives back the room of a row that was admitted in place of another one, and is not written.
// Room in other quotas comes back by itself.
func (a *admission) returnBytes(namespace string, old, row *rouse.Row) {
	if a.quotas == nil || a.quotas.Of(namespace).Bytes == 0 {
		return
	}
	_, _ = a.quotas.Fit(namespace, []int64{rowSize(old) - rowSize(row)})
}

// checkTimeout refuses a spec whose attempts may take longer than its namespace may have them: each holds a
// place of the node's deliveries.
func (a *admission) checkTimeout(namespace string, spec *rouse.Spec) error {
	most, cure := a.longest, "use less, answer 202 and report later, or raise max-timeout of the server"
	if a.quotas != nil {
		if q := a.quotas.Of(namespace).MaxTimeout; q > 0 {
			most, cure = q, "use less, answer 202 and report later, or raise the quota max_timeout of the namespace"
		}
	}
	if timeout := spec.Retry.Effective().Timeout; timeout > most && most > 0 {
		return rouse.Refuse("retry.timeout", timeout.String(),
			fmt.Sprintf("is longer than %v, which an attempt may take in the namespace %q", most, namespace), cure)
	}
	return nil
}

// checkRecurrence refuses a schedule that comes too often for its namespace, unless any interval will do, or
// that takes too long to search.
func (a *admission) checkRecurrence(namespace string, spec *rouse.Spec, from rouse.Instant, s rouse.Schedule,
	any bool) error {
	least := a.least
	if any {
		least = 0
	}
	if a.quotas != nil {
		q := a.quotas.Of(namespace)
		least = max(least, q.MinInterval)
		if most := q.ScheduleCost; most > 0 {
			steps, err := spec.Cost(from, s)
			if err != nil {
				return err
			}
			if int64(steps) > most {
				return fmt.Errorf("schedule %q takes %d steps to find an occurrence: %w", rouse.Shorten(spec.Schedule, 100), steps,
					a.quotas.Refuse(namespace, rouse.QuotaScheduleCost, most))
			}
		}
	}
	return spec.CheckEvery(from, s, least)
}

package access

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/note"
)

// Reserved is the namespace of the notes that the nodes of a store share. rouse.CheckNamespace refuses its
// name, so that no client can name it, and its rows are notes, which no list shows. It is copied with the
// store.
const Reserved = rouse.ReservedNamespace

const (
	// RefreshEvery is how often a node reads the changes of other nodes: a key that is revoked ends on all
	// nodes within 5 s.
	RefreshEvery = 2 * time.Second
	// quickEvery is RefreshEvery for kinds with Quick that have notes.
	quickEvery = 500 * time.Millisecond
	// reloadEvery is how often it reads everything, in case the note of a change was lost with the node that
	// made it.
	reloadEvery = time.Minute
	// aloneReload is reloadEvery while no other node uses the store.
	aloneReload = 10 * time.Minute
	// aloneEvery is RefreshEvery while no other node uses the store: a tool may still write to it.
	aloneEvery = 20 * time.Second
	// patience limits a call to the store.
	patience = 10 * time.Second
)

// Shared keeps the notes that the nodes of a store share, such as keys, roles and sealed secrets, by kinds,
// in memory as well. A change is seen by the node that makes it at once, by the others within RefreshEvery.
type Shared struct {
	// Alone reports whether no other node uses the store now, nor can begin to without this one being told.
	// Nil means no. It is set before Run.
	Alone func() bool

	notes note.Notes
	log   *slog.Logger
	kinds []*Kind

	away bool      // the last refresh failed; of Run
	read time.Time // when it ended; of Run
}

// NewShared returns the shared notes of a store. Its kinds are added before Load.
func NewShared(store note.Store, log *slog.Logger) *Shared {
	return &Shared{notes: note.Notes{Store: store, Namespace: Reserved, Prefix: "\x01", Buckets: 1, Patience: patience},
		log: log}
}

// Kind is the notes of one kind, such as the keys.
type Kind struct {
	shared *Shared
	name   string
	take   func(n note.Note)
	quick  bool // see Quick
	quiet  bool // the audit log does not name its notes: they belong to the subject of the call

	mu     sync.Mutex
	seen   uint64            // revision of the kind's version when all notes were read
	loaded time.Time         // when
	known  map[string]uint64 // the revisions of the notes that were taken, by their names
}

// Kind adds a kind of notes. take gets each note when it is new or has changed, with its name within the
// kind, and one with Revision 0 when it is gone; one call at a time.
func (s *Shared) Kind(name string, take func(n note.Note)) *Kind {
	k := &Kind{shared: s, name: name, take: take, known: map[string]uint64{}}
	s.kinds = append(s.kinds, k)
	return k
}

// Quick makes all nodes see changes of the kind within half a second, as long as it has notes.
func (k *Kind) Quick() { k.quick = true }

// Load reads everything.
func (s *Shared) Load(ctx context.Context) error { return s.refreshKinds(ctx, s.kinds, true) }

// Run refreshes until ctx ends. While the store is away, the notes that were read last stay in force.
func (s *Shared) Run(ctx context.Context) {
	tick := time.NewTicker(quickEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		kinds := s.kinds
		switch age := time.Since(s.read); {
		case s.isAlone():
			if age < aloneEvery {
				continue
			}
		case age > RefreshEvery: // another node has come
		case n%int(RefreshEvery/quickEvery) != 0:
			if kinds = s.quickKinds(); len(kinds) == 0 {
				continue
			}
		}
		err := s.refreshKinds(ctx, kinds, false)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !s.away {
			s.log.Warn("keys, roles and secrets cannot be read; those that were read last stay in force", "err", err)
		}
		s.away = err != nil
		if len(kinds) == len(s.kinds) {
			s.read = time.Now()
		}
	}
}

func (s *Shared) isAlone() bool { return s.Alone != nil && s.Alone() }

// quickKinds returns the kinds with Quick that have notes.
func (s *Shared) quickKinds() (list []*Kind) {
	for _, k := range s.kinds {
		k.mu.Lock()
		if k.quick && len(k.known) > 0 {
			list = append(list, k)
		}
		k.mu.Unlock()
	}
	return list
}

// refreshKinds reads those of the kinds that have changed.
func (s *Shared) refreshKinds(ctx context.Context, kinds []*Kind, all bool) error {
	if len(kinds) == 0 {
		return nil
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.versionName()
	}
	versions, err := s.notes.Get(ctx, names...)
	if err != nil {
		return err
	}
	for i, k := range kinds {
		if err := k.refreshNotes(ctx, versions[i].Revision, all); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kind) versionName() string { return "version/" + k.name }

// refreshNotes reads all notes, if their version is not the one that was seen. The version was read before: a
// change after it is found next time.
func (k *Kind) refreshNotes(ctx context.Context, version uint64, all bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	reload := reloadEvery
	if k.shared.isAlone() {
		reload = aloneReload
	}
	if !all && version == k.seen && time.Since(k.loaded) < reload {
		return nil
	}
	prefix := k.name + "/"
	there := map[string]bool{}
	err := k.shared.notes.List(ctx, prefix, func(n note.Note) error {
		n.Name = strings.TrimPrefix(n.Name, prefix)
		there[n.Name] = true
		k.applyIfChanged(n)
		return nil
	})
	if err != nil {
		return err
	}
	for name := range k.known {
		if !there[name] {
			k.applyIfChanged(note.Note{Name: name})
		}
	}
	k.seen, k.loaded = version, time.Now()
	return nil
}

// applyIfChanged takes a note, unless it was taken before; with k.mu.
func (k *Kind) applyIfChanged(n note.Note) {
	if k.known[n.Name] == n.Revision {
		return
	}
	k.take(n)
	if k.known[n.Name] = n.Revision; n.Revision == 0 {
		delete(k.known, n.Name)
	}
}

// Change is one conditional change of a note.
type Change struct {
	Name  string
	Value any    // nil deletes the note
	If    uint64 // the revision that it must have, rouse.NoRow or rouse.AnyRevision
}

// Get reads notes from the store, in the order of their names.
func (k *Kind) Get(ctx context.Context, names ...string) ([]note.Note, error) {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = k.name + "/" + name
	}
	notes, err := k.shared.notes.Get(ctx, paths...)
	for i := range notes {
		notes[i].Name = names[i]
	}
	return notes, err
}

// Refresh reads notes from the store, and takes those that have changed.
func (k *Kind) Refresh(ctx context.Context, names ...string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	notes, err := k.Get(ctx, names...)
	if err != nil {
		return rouse.Unavailable(err)
	}
	for _, n := range notes {
		k.applyIfChanged(n)
	}
	return nil
}

// Write makes changes, each on its condition, and applies their results. A change whose condition does not
// hold is rouse.ErrConflict.
func (k *Kind) Write(ctx context.Context, changes ...Change) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := make([]string, len(changes))
	notes := make([]note.Note, len(changes))
	writes := make([]note.Write, 0, len(changes)+1)
	for i, c := range changes {
		names[i], notes[i].Name = c.Name, c.Name
		value := c.Value
		if value != nil {
			body, err := json.Marshal(value)
			if err != nil {
				return err
			}
			notes[i].Body, value = body, json.RawMessage(body)
		}
		writes = append(writes, note.Set(k.name+"/"+c.Name, value, c.If))
	}
	// last: a node that sees the new version sees the changes
	writes = append(writes, note.Set(k.versionName(), struct{}{}, rouse.AnyRevision))
	results, err := k.shared.notes.Put(ctx, writes...)
	if err != nil {
		return rouse.Unavailable(err)
	}
	conflict := false
	for i := range notes {
		notes[i].Revision = results[i].Revision
		conflict = conflict || !results[i].Applied
	}
	if conflict { // there are other notes than those of this call
		if notes, err = k.Get(ctx, names...); err != nil {
			return rouse.Unavailable(err)
		}
	}
	for _, n := range notes {
		k.applyIfChanged(n)
	}
	for i := range changes {
		if !results[i].Applied {
			return rouse.ErrConflict
		}
		if k.quiet {
			continue
		}
		namespace, name, ok := strings.Cut(changes[i].Name, "/") // of a secret
		if !ok {
			namespace, name = "", changes[i].Name
		}
		audit.Touched(ctx, namespace, name, changes[i].If, notes[i].Revision)
	}
	return nil
}

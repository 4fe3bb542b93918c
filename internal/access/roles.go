package access

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
)

// Roles are the custom roles of a store, which its control knows.
type Roles struct {
	kind    *Kind
	keys    *Keys
	control *Control
	log     *slog.Logger

	mu     sync.Mutex
	custom map[string]Role
}

// NewRoles adds the custom roles to the shared notes.
func NewRoles(shared *Shared, control *Control, keys *Keys, log *slog.Logger) *Roles {
	r := &Roles{keys: keys, control: control, log: log, custom: map[string]Role{}}
	r.kind = shared.Kind("roles", r.applyRoleNote)
	return r
}

// applyRoleNote puts a note in place of a role.
func (r *Roles) applyRoleNote(n note.Note) {
	var verbs []Verb
	if err := n.Read(&verbs); err != nil {
		r.log.Error("a role cannot be read, and allows nothing", "role", n.Name, "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.custom[n.Name] = Role{n.Name, verbs}
	if n.Revision == 0 {
		delete(r.custom, n.Name)
	}
	all := make([]Role, 0, len(r.custom))
	for _, role := range r.custom {
		all = append(all, role)
	}
	r.control.setRoles(all)
}

// Put creates or replaces a custom role. A principal defines no role that can do more than itself: it needs
// all of its verbs everywhere.
func (r *Roles) Put(ctx context.Context, role Role) error {
	if err := role.Check(); err != nil {
		return err
	}
	for _, v := range append([]Verb{RolesWrite}, role.Verbs...) {
		if err := r.control.Require(ctx, v, "", "", nil); err != nil {
			return err
		}
	}
	r.mu.Lock()
	_, there := r.custom[role.Name]
	n := len(r.custom)
	r.mu.Unlock()
	if !there && n >= MaxRoles {
		return rouse.Refuse("role", strconv.Itoa(n), "roles are as many as there can be", "delete those that no key has")
	}
	return r.kind.Write(ctx, Change{role.Name, role.Verbs, rouse.AnyRevision})
}

// Delete deletes a custom role that no key has.
func (r *Roles) Delete(ctx context.Context, name string) error {
	if err := r.control.Require(ctx, RolesWrite, "", "", nil); err != nil {
		return err
	}
	if err := (&Role{Name: name, Verbs: Verbs[:1]}).Check(); err != nil {
		return err
	}
	if id := r.keys.keyWithRole(name); id != "" {
		return fmt.Errorf("the role %q is the role of the key %s: %w; revoke it first", name, id, rouse.ErrConflict)
	}
	notes, err := r.kind.Get(ctx, name)
	if err != nil {
		return rouse.Unavailable(err)
	}
	if notes[0].Revision == 0 {
		return fmt.Errorf("the role %q: %w", name, rouse.ErrNotFound)
	}
	return r.kind.Write(ctx, Change{name, nil, notes[0].Revision})
}

// List returns all roles, in the order of their names.
func (r *Roles) List(ctx context.Context) ([]Role, error) {
	if err := r.control.Admit(ctx, RolesRead); err != nil {
		return nil, err
	}
	return r.control.Roles(), nil
}

// keyWithRole returns a key that has a role, "" if there is none.
func (k *Keys) keyWithRole(role string) string {
	for _, e := range k.sortedEntries() {
		for i := range e.Grants {
			if e.Grants[i].Role == role {
				return e.id
			}
		}
	}
	return ""
}

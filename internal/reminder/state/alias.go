package state

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
)

const aliasPrefix = "alias||"

// alias is the note of an id that a reminder got when it was moved.
type alias struct {
	Name string `json:"name"` // of its timer
}

// Alias returns the name of the timer that an id is an alias of, "" if the id is no alias.
func (k *Notes) Alias(ctx context.Context, id string) (name string, err error) {
	notes, err := k.notes.Get(ctx, aliasPrefix+id)
	if err != nil {
		return "", err
	}
	var a alias
	err = notes[0].Read(&a)
	return a.Name, err
}

// SetAliases writes new aliases: names[i] is the timer that gets ids[i]. If one of the ids is an alias
// already, which happens after a backup of the store was restored, it writes none, and returns
// rouse.ErrConflict: a move that is tried again gets other ids.
func (k *Notes) SetAliases(ctx context.Context, ids, names []string) error {
	writes := make([]note.Write, len(ids))
	for i := range ids {
		writes[i] = note.Set(aliasPrefix+ids[i], alias{names[i]}, 0)
	}
	res, err := k.notes.Put(ctx, writes...)
	if err != nil {
		return err
	}
	taken := slices.IndexFunc(res, func(r rouse.Result) bool { return !r.Applied })
	if taken < 0 {
		return nil
	}
	var undo []note.Write
	for i := range res {
		if res[i].Applied {
			undo = append(undo, note.Delete(aliasPrefix+ids[i], res[i].Revision))
		}
	}
	if len(undo) > 0 {
		if _, err := k.notes.Put(ctx, undo...); err != nil {
			return err
		}
	}
	return fmt.Errorf("the id %s was given to another reminder before the store was restored; call again for other ones: %w",
		ids[taken], rouse.ErrConflict)
}

// DropAlias removes an alias, if it exists.
func (k *Notes) DropAlias(ctx context.Context, id string) error {
	notes, err := k.notes.Get(ctx, aliasPrefix+id)
	if err != nil || notes[0].Revision == 0 {
		return err
	}
	_, err = k.notes.Put(ctx, note.Delete(aliasPrefix+id, notes[0].Revision))
	return err
}

// EachAlias calls do with aliases until it returns an error, or they end.
func (k *Notes) EachAlias(ctx context.Context, do func(id, name string) error) error {
	return k.notes.List(ctx, aliasPrefix, func(n note.Note) error {
		var a alias
		if err := n.Read(&a); err != nil {
			return err
		}
		return do(strings.TrimPrefix(n.Name, aliasPrefix), a.Name)
	})
}

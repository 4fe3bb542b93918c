package keep

import (
	"context"
	"fmt"
	"strings"
)

const aliasPrefix = "alias||"

// alias is the note of an id that a reminder got when it was moved.
type alias struct {
	Name string `json:"name"` // of its timer
}

// Alias returns the name of the timer that has an id by an alias, "" if there is none.
func (k *Notes) Alias(ctx context.Context, id string) (name string, err error) {
	notes, err := k.get(ctx, aliasPrefix+id)
	if err != nil {
		return "", err
	}
	var a alias
	err = notes[0].read(&a)
	return a.Name, err
}

// SetAliases writes new aliases: names[i] is the timer that gets ids[i].
func (k *Notes) SetAliases(ctx context.Context, ids, names []string) error {
	writes := make([]write, len(ids))
	for i := range ids {
		writes[i] = write{aliasPrefix + ids[i], alias{names[i]}, 0}
	}
	res, err := k.put(ctx, writes...)
	if err != nil {
		return err
	}
	for i := range res {
		if !res[i].Applied {
			return fmt.Errorf("the id %s was given before", ids[i])
		}
	}
	return nil
}

// DropAlias removes an alias, if it is there.
func (k *Notes) DropAlias(ctx context.Context, id string) error {
	notes, err := k.get(ctx, aliasPrefix+id)
	if err != nil || notes[0].revision == 0 {
		return err
	}
	_, err = k.put(ctx, write{aliasPrefix + id, nil, notes[0].revision})
	return err
}

// EachAlias calls do with aliases until it returns an error, or they end.
func (k *Notes) EachAlias(ctx context.Context, do func(id, name string) error) error {
	return k.list(ctx, aliasPrefix, func(n note) error {
		var a alias
		if err := n.read(&a); err != nil {
			return err
		}
		return do(strings.TrimPrefix(n.name, aliasPrefix), a.Name)
	})
}

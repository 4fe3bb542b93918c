package state

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse/internal/note"
)

const instancePrefix = "instance||"

// Instance is the published state of an instance.
type Instance struct {
	Address string   `json:"address"`
	Node    string   `json:"node"`
	Clients []Client `json:"clients,omitempty"` // that are connected to it
	Low     []string `json:"low,omitempty"`     // token buckets of which it has given nearly all
	Spent   []string `json:"spent,omitempty"`   // of which it has given all
	Load    float64  `json:"load"`              // its load factor
	// Rates are the executions a second of token buckets, of those that have the most.
	Rates map[string]float64 `json:"rates,omitempty"`
}

// Client is a sidecar that is connected.
type Client struct {
	App     string `json:"app"`
	Prefix  string `json:"prefix"`
	Address string `json:"address"`
}

// Say writes the state of an instance.
func (k *Notes) Say(ctx context.Context, i *Instance) error {
	notes, err := k.notes.Get(ctx, instancePrefix+i.Address)
	if err != nil {
		return err
	}
	res, err := k.notes.Put(ctx, note.Set(instancePrefix+i.Address, i, notes[0].Revision))
	if err == nil && !res[0].Applied {
		err = fmt.Errorf("another node has the address of the instance %s: give each an address of its own", i.Address)
	}
	return err
}

// Instances returns the reports of all instances, including those that are gone.
func (k *Notes) Instances(ctx context.Context) (list []Instance, err error) {
	err = k.notes.List(ctx, instancePrefix, func(n note.Note) error {
		var i Instance
		if err := n.Read(&i); err != nil {
			return err
		}
		list = append(list, i)
		return nil
	})
	return list, err
}

// DeleteInstance deletes the report of an instance.
func (k *Notes) DeleteInstance(ctx context.Context, address string) error {
	notes, err := k.notes.Get(ctx, instancePrefix+address)
	if err != nil || notes[0].Revision == 0 {
		return err
	}
	_, err = k.notes.Put(ctx, note.Delete(instancePrefix+address, notes[0].Revision))
	return err
}

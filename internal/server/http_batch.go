package server

import (
	"net/http"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/timers"
)

// modes are the names of what a batch does with existing timers.
var modes = map[string]timers.Mode{"": timers.CreateOnly, "create_only": timers.CreateOnly, "create_or_replace": timers.CreateOrReplace,
	"replace_only": timers.ReplaceOnly}

// batchCreate responds with 200 even if timers were refused: each has its own outcome.
func (f *httpHandler) batchCreate(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	var body api.BatchCreate
	if err := c.decode(maxBatchBody, false, &body); err != nil {
		return err
	}
	if err := checkBatch(c.namespace(), len(body.Timers)); err != nil {
		return err
	}
	mode, ok := modes[body.Mode]
	if !ok {
		return badMode(body.Mode)
	}
	out := api.BatchCreated{Created: make([]api.Created, len(body.Timers))}
	puts := make([]timers.Put, 0, len(body.Timers))
	places := make([]int, 0, len(body.Timers)) // the index in the batch of each put
	for i := range body.Timers {
		t := &body.Timers[i]
		spec, err := t.Words()
		if err != nil {
			out.Created[i] = failed(t.Name, err)
			continue
		}
		puts = append(puts, timers.Put{Key: rouse.Key{Namespace: c.namespace(), Name: t.Name}, Spec: spec, Mode: mode, Given: true})
		places = append(places, i)
	}
	ctx, cancel := c.context()
	defer cancel()
	results, err := f.batch(ctx, puts)
	if err != nil {
		return err
	}
	for j := range results {
		out.Created[places[j]] = outcome(puts[j].Key.Name, &results[j])
	}
	return c.batchCreated(&out)
}

// outcome is the result for one timer of a batch.
func outcome(name string, r *timers.PutResult) api.Created {
	if r.Err != nil {
		return failed(name, r.Err)
	}
	return api.Created{Name: name, Generation: r.Timer.Generation, Revision: r.Timer.Revision, Due: api.TimeOf(r.Timer.Due), InFlight: r.InFlight}
}

func failed(name string, err error) api.Created {
	p, _ := problemOf(err)
	return api.Created{Name: name, Problem: &p}
}

// batchCreated responds with the results for all timers.
func (c *call) batchCreated(out *api.BatchCreated) error {
	for i := range out.Created {
		if out.Created[i].Problem != nil {
			out.Failed++
		}
	}
	return c.reply(http.StatusOK, out)
}

func badMode(mode string) error {
	return rouse.Refuse("mode", mode, "is no mode", "give create_only, create_or_replace or replace_only")
}

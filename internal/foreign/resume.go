package foreign

import (
	"errors"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
)

// Resumed is an entry of a source that records how far it has come: its timer goes on from there.
type Resumed struct {
	Timer  rouse.Timer
	Origin Origin   // of a reminder
	Line   int      // where it is, in a file of lines
	Size   int      // bytes of it, about
	Notes  []string // the losses of the timer
	Why    string   // there is no timer
	Err    error    // why the timer cannot be, or be written

	// Outcome is its outcome. A reader sets it if there is no timer: Over, Stale or LeftOut.
	Outcome string
}

// Origin is where Dapr's state store has a reminder.
type Origin struct {
	List                     string // the key of a list, which has more of them
	ActorType, ActorID, Name string
}

// Outcomes of entries.
const (
	Imported = "imported"
	There    = "there already"
	Over     = "over"
	Stale    = "stale"
	LeftOut  = "left out"
	Failed   = "failed"
)

// Label names the entry for people, as its source does.
func (r *Resumed) Label() string {
	switch o := &r.Origin; {
	case o.Name != "":
		return strings.Join([]string{o.ActorType, o.ActorID, o.Name}, "/")
	case o.List != "":
		return o.List
	}
	return r.Timer.Key.Namespace + "/" + r.Timer.Key.Name
}

// Importer writes the timers of entries in batches, and reports the outcome of each entry.
type Importer struct {
	Write  func(timers []rouse.Timer) ([]client.Created, error) // nil: nothing is written
	Report func(r *Resumed, created client.Created) error       // of a timer that is there already, created has the error

	MaxTimers, MaxBytes int // of a batch

	batch []Resumed
	size  int
}

// Add writes the timer of an entry with the next batch. Without one, the entry is reported at once.
func (i *Importer) Add(r Resumed) error {
	if r.Err != nil || r.Outcome != "" || i.Write == nil {
		return i.reportCreated(&r, client.Created{Name: r.Timer.Key.Name, Err: r.Err})
	}
	i.batch, i.size = append(i.batch, r), i.size+r.Size
	if len(i.batch) == i.MaxTimers || i.size > i.MaxBytes {
		return i.Flush()
	}
	return nil
}

// Flush writes the timers that were added. One that the server refuses does not prevent the others.
func (i *Importer) Flush() error {
	batch := i.batch
	i.batch, i.size = nil, 0
	if len(batch) == 0 {
		return nil
	}
	timers := make([]rouse.Timer, len(batch))
	for n := range batch {
		timers[n] = batch[n].Timer
	}
	created, err := i.Write(timers)
	_, refused := errors.AsType[*rouse.Invalid](err)
	switch {
	case refused && len(batch) > 1: // write each alone to find the one that is refused
		for n := range batch {
			i.batch = batch[n : n+1]
			if err := i.Flush(); err != nil {
				return err
			}
		}
		return nil
	case refused:
		created = []client.Created{{Name: timers[0].Key.Name, Err: err}}
	case err != nil:
		return err
	}
	for n := range created {
		if err := i.reportCreated(&batch[n], created[n]); err != nil {
			return err
		}
	}
	return nil
}

func (i *Importer) reportCreated(r *Resumed, created client.Created) error {
	switch {
	case errors.Is(created.Err, rouse.ErrExists):
		r.Outcome = There
	case created.Err != nil:
		r.Outcome, r.Err = Failed, created.Err
	case r.Outcome == "":
		r.Outcome = Imported
	}
	return i.Report(r, created)
}

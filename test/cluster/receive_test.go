package cluster

import (
	"context"
	"errors"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/rousetest/receiver"
)

// mood is what a receiver does with a fire.
type mood int

const (
	fine    mood = iota // done at once
	slow                // done after a while, so that some fires are under way at any time
	moody               // the first attempt fails
	broken              // every attempt fails: a dead letter
	refused             // fails for good: a dead letter
	cut                 // the connection ends without an answer, at the first attempt
)

// moodOf depends on the fire alone, so that receivers agree whatever they remember.
func moodOf(id string) mood {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	switch n := h.Sum32() % 100; {
	case n < 60:
		return fine
	case n < 82:
		return slow
	case n < 90:
		return moody
	case n < 94:
		return cut
	case n < 97:
		return broken
	}
	return refused
}

// slowPath is the path of a receiver that takes dragged for each fire.
const slowPath = "slow"

// slowness is how long a slow receiver takes.
const slowness = 150 * time.Millisecond

// listen starts an HTTP receiver that answers as moodOf says, and writes down what arrives. It lives as long as the test.
func (w *witness) listen() *receiver.Receiver {
	r := receiver.New(receiver.Options{
		Keep:   1,
		Answer: answer,
		Ended:  func(a receiver.Arrival) { w.arrived(&a) },
	})
	w.t.Cleanup(r.Close)
	return r
}

func answer(rw http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/"+slowPath {
		receiver.Slow(dragged, receiver.Status(http.StatusOK))(rw, req)
		return
	}
	first := req.Header.Get("Rouse-Attempt") == "1"
	with := receiver.Status(http.StatusOK)
	switch m := moodOf(req.Header.Get("Rouse-Fire-Id")); {
	case m == slow:
		with = receiver.Slow(slowness, with)
	case m == broken, m == moody && first:
		with = receiver.Status(http.StatusServiceUnavailable)
	case m == refused:
		with = receiver.Status(http.StatusBadRequest)
	case m == cut && first:
		with = receiver.Cut()
	}
	with(rw, req)
}

// arrived writes down a request. What did not come whole because its sender died did not arrive.
func (w *witness) arrived(a *receiver.Arrival) {
	if a.Broken != nil {
		return
	}
	fires, err := a.Fires()
	if err != nil {
		w.t.Errorf("a request that is no fire: %v", err)
		return
	}
	replied := a.Replied
	if a.Status == 0 {
		replied = a.Time // of a connection that is cut, its sender knows before the receiver says so
	}
	for i := range fires {
		w.fired(&fires[i], a.Time, replied, replyOf(a.Status))
	}
}

func replyOf(status int) history.Reply {
	switch {
	case status == 0:
		return history.ReplyNone
	case status/100 == 2:
		return history.ReplyOK
	case status/100 == 4:
		return history.ReplyFatal
	}
	return history.ReplyRetry
}

func (w *witness) fired(f *rouse.Fire, came, replied time.Time, reply history.Reply) {
	s, err := readStamp(f.Spec.Payload)
	if err != nil || s.Timer != f.Name {
		w.t.Errorf("a fire of %q has the payload %q: %v", f.Name, f.Spec.Payload, err)
	}
	w.fires.Add(1)
	w.knows(f.Name, f.Generation, s.Gen, f.Due)
	w.write(history.Fire{Timer: f.Name, Gen: s.Gen, Due: moment(f.Due), T: history.At(came), T1: history.At(replied), Key: f.ID,
		Attempt: int(f.Attempt), Epoch: f.Token, Reply: reply, Manual: f.Manual})
}

// channel is where the timers of the load point that are not for the HTTP receiver.
const channel = "load"

// subscribe starts a subscriber that does with the fires of all nodes by stream what the receiver does, until the test ends.
func (w *witness) subscribe(f *fleet) {
	w.attend(f.dial(0, 0), client.SubscribeOptions{Channel: channel, Concurrency: 64}, w.handle)
}

// attend subscribes until the test ends.
func (w *witness) attend(c *client.Client, o client.SubscribeOptions, handle client.Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Subscribe(ctx, o, handle); err != nil {
			w.t.Errorf("subscribe to %s: %v", o.Channel, err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

var errMood = errors.New("not in the mood")

func (w *witness) handle(ctx context.Context, f client.Fire) error {
	came := time.Now()
	reply, err := history.ReplyOK, error(nil)
	switch m := moodOf(f.ID); {
	case m == slow:
		t := time.NewTimer(slowness)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			reply, err = history.ReplyNone, ctx.Err()
		}
	case m == broken, (m == moody || m == cut) && f.Attempt == 1:
		reply, err = history.ReplyRetry, errMood
	case m == refused:
		reply, err = history.ReplyFatal, client.Permanent(errMood)
	}
	w.streamed(f, came, reply)
	return err
}

// streamed writes down a fire that came by stream.
func (w *witness) streamed(f client.Fire, came time.Time, reply history.Reply) {
	w.fired(&rouse.Fire{ID: f.ID, Name: f.Name, Generation: f.Generation, Due: f.Due, Attempt: f.Attempt, Token: f.Token, Manual: f.Manual,
		Spec: &rouse.Spec{Payload: f.Payload}}, came, time.Now(), reply)
}

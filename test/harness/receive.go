package harness

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/rousetest/receiver"
)

// Mood is the reaction of a receiver to a fire. It depends on the fire alone, so that receivers agree
// whatever they remember.
type Mood int

// The moods.
const (
	Fine     Mood = iota // done at once
	Slow                 // done after a while, so that some fires are under way at any time
	Moody                // the first attempt fails
	Broken               // every attempt fails: a dead letter
	Refused              // fails for good: a dead letter
	Ended                // wants no more of the timer
	Cut                  // the connection ends without an answer, at the first attempt
	Lazy                 // done after longer than the interval of its timer, so that occurrences overlap
	Stubborn             // the first two attempts fail
)

// slowness is how long a slow receiver takes, laziness how long a lazy one does.
const (
	slowness = 150 * time.Millisecond
	laziness = 500 * time.Millisecond
)

func (m Mood) answerDelay() time.Duration {
	switch m {
	case Slow:
		return slowness
	case Lazy:
		return laziness
	}
	return 0
}

// failsAttempt reports whether an attempt of this number fails, and may be made again.
func (m Mood) failsAttempt(attempt uint32) bool {
	return m == Broken || m == Moody && attempt == 1 || m == Stubborn && attempt <= 2
}

// Moods returns the mood of a fire by its id and its timer.
type Moods func(id, timer string) Mood

// Answer answers a webhook by its mood.
func (of Moods) Answer(rw http.ResponseWriter, req *http.Request) {
	attempt := uint32(3)
	switch req.Header.Get("Rouse-Attempt") {
	case "1":
		attempt = 1
	case "2":
		attempt = 2
	}
	with := receiver.Status(http.StatusOK)
	switch m := of(req.Header.Get("Rouse-Fire-Id"), req.Header.Get("Rouse-Timer")); {
	case m.answerDelay() > 0:
		with = receiver.Slow(m.answerDelay(), with)
	case m.failsAttempt(attempt):
		with = receiver.Status(http.StatusServiceUnavailable)
	case m == Refused:
		with = receiver.Status(http.StatusBadRequest)
	case m == Ended:
		with = receiver.Status(http.StatusGone)
	case m == Cut && attempt == 1:
		with = receiver.Cut()
	}
	with(rw, req)
}

// Listen starts an HTTP receiver that answers so, and writes down the arrivals. It lives as long as the test.
func (r *Recorder) Listen(answer http.HandlerFunc) *receiver.Receiver {
	to := receiver.New(receiver.Options{Keep: 1, Answer: answer, Ended: func(a receiver.Arrival) { r.Arrived(&a) }})
	r.T.Cleanup(to.Close)
	return to
}

// Arrived writes down a request. One that did not come whole because its sender died did not arrive.
func (r *Recorder) Arrived(a *receiver.Arrival) {
	if a.Broken != nil {
		return
	}
	fires, err := a.Fires()
	if err != nil {
		r.T.Errorf("a request that is no fire: %v", err)
		return
	}
	replied := a.Replied
	if a.Status == 0 {
		replied = a.Time // the sender knows that a connection is cut before the receiver reports it
	}
	for i := range fires {
		r.recordFire(&fires[i], a.Time, replied, replyOf(a.Status))
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

func (r *Recorder) recordFire(f *rouse.Fire, came, replied time.Time, reply history.Reply) {
	s, err := ReadStamp(f.Spec.Payload)
	if err != nil || s.Timer != f.Name {
		r.T.Errorf("a fire of %q has the payload %q: %v", f.Name, f.Spec.Payload, err)
	}
	r.fires.Add(1)
	r.Knows(f.Name, f.Generation, s.Gen, f.Due)
	r.Write(history.Fire{Timer: f.Name, Gen: s.Gen, Due: Moment(f.Due), T: history.At(came),
		T1: history.At(replied), Key: f.ID,
		Attempt: int(f.Attempt), Epoch: f.Token, Reply: reply, Manual: f.Manual})
}

// Streamed writes down a fire that came by stream.
func (r *Recorder) Streamed(f *client.Fire, came time.Time, reply history.Reply) {
	r.recordFire(&rouse.Fire{ID: f.ID, Name: f.Name, Generation: f.Generation, Due: f.Due, Attempt: f.Attempt,
		Token: f.Token, Manual: f.Manual,
		Spec: &rouse.Spec{Payload: f.Payload}}, came, time.Now(), reply)
}

// Subscribe handles the fires of a channel by their moods until the test ends.
func (r *Recorder) Subscribe(c *client.Client, o client.SubscribeOptions, of Moods) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := c.Subscribe(ctx, o, func(ctx context.Context, f client.Fire) error {
			came := time.Now()
			reply, err := of.handleStreamed(ctx, &f)
			r.Streamed(&f, came, reply)
			return err
		})
		if err != nil {
			r.T.Errorf("subscribe to %s: %v", o.Channel, err)
		}
	})
	r.T.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

var errMood = errors.New("not in the mood")

// handleStreamed answers a fire that came by stream as Answer answers a webhook.
func (of Moods) handleStreamed(ctx context.Context, f *client.Fire) (history.Reply, error) {
	switch m := of(f.ID, f.Name); {
	case m.answerDelay() > 0:
		t := time.NewTimer(m.answerDelay())
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return history.ReplyNone, ctx.Err()
		}
	case m.failsAttempt(f.Attempt), m == Cut && f.Attempt == 1:
		return history.ReplyRetry, errMood
	case m == Refused:
		return history.ReplyFatal, client.Permanent(errMood)
	}
	return history.ReplyOK, nil
}

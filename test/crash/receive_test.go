package crash

import (
	"context"
	"errors"
	"hash/fnv"
	"net/http"
	"strings"
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
	fine     mood = iota // done at once
	slow                 // done after a while, so that some fires are under way at any time
	moody                // the first attempt fails
	broken               // every attempt fails: a dead letter
	refused              // fails for good: a dead letter
	ended                // wants no more of the timer
	cut                  // the connection ends without an answer, at the first attempt
	lazy                 // done after longer than the interval of its timer, so that occurrences overlap
	stubborn             // the first two attempts fail
)

// moodOf depends on the fire alone, so that receivers agree whatever they remember.
func moodOf(id, timer string) mood {
	switch kind, _, _ := strings.Cut(timer, "-"); kind {
	case "beside":
		return lazy
	case "patient":
		return stubborn
	case "doomed":
		return refused
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	switch n := h.Sum32() % 100; {
	case n < 55:
		return fine
	case n < 80:
		return slow
	case n < 88:
		return moody
	case n < 91:
		return cut
	case n < 94:
		return broken
	case n < 97:
		return refused
	case strings.HasPrefix(timer, "once"):
		return ended
	}
	return fine
}

// slowness is how long a slow receiver takes, laziness how long a lazy one does.
const (
	slowness = 150 * time.Millisecond
	laziness = 500 * time.Millisecond
)

// listen starts an HTTP receiver that answers as moodOf says, and writes down what arrives.
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
	attempt := req.Header.Get("Rouse-Attempt")
	first := attempt == "1"
	with := receiver.Status(http.StatusOK)
	switch m := moodOf(req.Header.Get("Rouse-Fire-Id"), req.Header.Get("Rouse-Timer")); {
	case m == slow:
		with = receiver.Slow(slowness, with)
	case m == lazy:
		with = receiver.Slow(laziness, with)
	case m == broken, m == moody && first, m == stubborn && (first || attempt == "2"):
		with = receiver.Status(http.StatusServiceUnavailable)
	case m == refused:
		with = receiver.Status(http.StatusBadRequest)
	case m == ended:
		with = receiver.Status(http.StatusGone)
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
	for i := range fires {
		w.fired(&fires[i], a.Time, a.Replied, replyOf(a.Status))
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

// channel is where the timers of the subscriber point.
const channel = "crash"

// subscribe starts a subscriber that does the same with fires by stream, until the end of the test.
func (w *witness) subscribe(s *server) {
	ctx, cancel := context.WithCancel(context.Background())
	c := s.Dial(0)
	var running sync.WaitGroup
	running.Go(func() {
		err := c.Subscribe(ctx, client.SubscribeOptions{Channel: channel, Concurrency: 32}, w.handle)
		if err != nil {
			w.t.Errorf("subscribe: %v", err)
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
	switch m := moodOf(f.ID, f.Name); {
	case m == slow, m == lazy:
		d := slowness
		if m == lazy {
			d = laziness
		}
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			reply, err = history.ReplyNone, ctx.Err()
		}
	case m == broken, (m == moody || m == cut) && f.Attempt == 1, m == stubborn && f.Attempt <= 2:
		reply, err = history.ReplyRetry, errMood
	case m == refused:
		reply, err = history.ReplyFatal, client.Permanent(errMood)
	}
	w.fired(&rouse.Fire{ID: f.ID, Name: f.Name, Generation: f.Generation, Due: f.Due, Attempt: f.Attempt, Token: f.Token, Manual: f.Manual,
		Spec: &rouse.Spec{Payload: f.Payload}}, came, time.Now(), reply)
	return err
}

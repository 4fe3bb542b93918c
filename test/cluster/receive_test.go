package cluster

import (
	"hash/fnv"
	"net/http"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/test/harness"
)

// moods are those of the receivers.
var moods harness.Moods = func(id, _ string) harness.Mood {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	switch n := h.Sum32() % 100; {
	case n < 60:
		return harness.Fine
	case n < 82:
		return harness.Slow
	case n < 90:
		return harness.Moody
	case n < 94:
		return harness.Cut
	case n < 97:
		return harness.Broken
	}
	return harness.Refused
}

// slowPath is the path of a receiver that takes dragged for each fire.
const slowPath = "slow"

func answer(rw http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/"+slowPath {
		receiver.Slow(dragged, receiver.Status(http.StatusOK))(rw, req)
		return
	}
	moods.Answer(rw, req)
}

// channel is where the timers of the load point that are not for the HTTP receiver.
const channel = "load"

// subscribe starts a subscriber that does with the fires of all nodes by stream what the receiver does, until
// the test ends.
func (w *witness) subscribe(f *fleet) {
	w.Subscribe(f.dial(0, 0), client.SubscribeOptions{Channel: channel, Concurrency: 64}, moods)
}

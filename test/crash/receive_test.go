package crash

import (
	"hash/fnv"
	"strings"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/harness"
)

// moods are those of the receivers.
var moods harness.Moods = func(id, timer string) harness.Mood {
	switch kind, _, _ := strings.Cut(timer, "-"); kind {
	case "overlapping":
		return harness.Lazy
	case "patient":
		return harness.Stubborn
	case "doomed":
		return harness.Refused
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	switch n := h.Sum32() % 100; {
	case n < 55:
		return harness.Fine
	case n < 80:
		return harness.Slow
	case n < 88:
		return harness.Moody
	case n < 91:
		return harness.Cut
	case n < 94:
		return harness.Broken
	case n < 97:
		return harness.Refused
	case strings.HasPrefix(timer, "once"):
		return harness.Ended
	}
	return harness.Fine
}

// channel is where the timers of the subscriber point.
const channel = "crash"

// subscribe starts a subscriber that does the same with fires by stream, until the end of the test.
func (w *witness) subscribe(s *server) {
	w.Subscribe(s.Dial(0), client.SubscribeOptions{Channel: channel, Concurrency: 32}, moods)
}

package jetstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/test/servers"
)

// TestAServerWithASmallPayload: the client refuses what is larger than the server's max_payload. It must not
// wait for the server to change its mind, nor keep the other messages.
func TestAServerWithASmallPayload(t *testing.T) {
	q, err := Open(t.Context(), servers.StartNATS(t, "max_payload=50000").URL(), Options{Options: queue.Options{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() //nolint:errcheck // of a test
	list := make([]queue.Message, 100)
	for i := range list {
		list[i] = queue.Message{ID: fmt.Sprint(i), Body: []byte("small")}
	}
	list[10].Body = make([]byte, 100_000)
	for i, err := range q.Publish(t.Context(), list) {
		switch {
		case i != 10 && err != nil:
			t.Errorf("message %d: %v", i, err)
		case i == 10 && (!errors.Is(err, queue.ErrRefused) || !strings.Contains(err.Error(), "50000")):
			t.Errorf("the large message: %v", err)
		}
	}
}

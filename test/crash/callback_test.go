package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/harness"
)

// callbacks is a receiver of fires, half of which it refuses, and of the callbacks and notices about them.
type callbacks struct {
	mu   sync.Mutex
	fire int
	ids  map[string]map[string]bool // fire ids of callbacks, by their event and the fire id that they are about
	n    int
}

func (c *callbacks) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if req.URL.Path == "/work" {
		if c.fire++; c.fire%2 == 0 {
			rw.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(rw, "answer")
		return
	}
	var n struct {
		Event  string
		FireID string `json:"fire_id"`
		Answer struct {
			BodyText string `json:"body_text"`
		}
	}
	if err := json.Unmarshal(body, &n); err != nil || req.URL.Path == "/called" && n.Answer.BodyText != "answer" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	about := n.Event + " " + n.FireID
	if c.ids[about] == nil {
		c.ids[about] = map[string]bool{}
	}
	c.ids[about][req.Header.Get("Rouse-Fire-Id")] = true
	c.n++
}

func (c *callbacks) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// TestCallbacksSurviveKill9: each occurrence that is on record has its callback, and each dead letter its
// notice, whenever the server was killed; those that come twice have the same fire id.
func TestCallbacksSurviveKill9(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(harness.Seed(t), 1<<32))
			data := harness.TempDir(t)
			got := &callbacks{ids: map[string]map[string]bool{}}
			receiver := httptest.NewServer(got)
			t.Cleanup(receiver.Close)
			s := newServer(t, data, st.place(data), "--allow-private-targets")
			s.Start()
			c := s.Dial(0)
			ctx, stop := context.WithCancel(t.Context())
			var creating sync.WaitGroup
			creating.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					called := receiver.URL + "/called"
					_, _ = c.Create(ctx, "", fmt.Sprint("called-", i), rouse.Spec{Schedule: "@after 100ms", Target: receiver.URL + "/work",
						OnSuccess: called, OnFailure: called, Notify: rouse.Notify{Target: receiver.URL + "/told"}}) // the server may be away
				}
			})
			for range harness.Rounds(t, 2, 6) {
				before := got.count()
				harness.Until(t, harness.Always("nothing is called back"), func() bool { return got.count() > before+50 })
				<-time.After(time.Duration(r.IntN(200)) * time.Millisecond) // the random moment
				s.Kill()
				s.Start()
			}
			stop()
			creating.Wait()
			harness.Until(t, harness.Always("timers are left"), func() bool {
				n := 0
				for _, err := range c.List(t.Context(), rouse.Query{Namespace: "default",
					States: []rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateFiring}}) {
					if n++; err != nil {
						return false
					}
				}
				return n == 0
			})
			ended := map[rouse.Ending]int{}
			for record, err := range c.Records(t.Context(), "", "") {
				if err != nil {
					t.Fatal(err)
				}
				if record.Cause == rouse.CauseNotice {
					continue
				}
				ended[record.Ending]++
				events := map[rouse.Ending][]string{rouse.EndFired: {"succeeded"}, rouse.EndDead: {"failed", "dead"}}[record.Ending]
				for _, event := range events {
					if n := len(got.ids[event+" "+record.FireID()]); n != 1 {
						t.Errorf("%s of %s %s has %d fire ids", event, record.Name, record.FireID(), n)
					}
				}
			}
			if ended[rouse.EndFired] < 20 || ended[rouse.EndDead] < 20 {
				t.Errorf("too few occurrences: %v", ended)
			}
		})
	}
}

package stream

import (
	"sync"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// message is a reusable response. gRPC has encoded it when Send returns; only tracers may keep messages
// longer, and rouse installs none.
type message struct {
	response rousev1.SubscribeResponse
	fires    []*rousev1.Fire // all allocated fires; response.Fires is a prefix
}

var messages = sync.Pool{New: func() any { return new(message) }}

// nextFireSlot returns the next fire of the message to fill in.
func (m *message) nextFireSlot() *rousev1.Fire {
	n := len(m.response.Fires)
	if n == len(m.fires) {
		more := make([]rousev1.Fire, min(max(4, n), maxFires-n))
		for i := range more {
			m.fires = append(m.fires, &more[i])
		}
	}
	m.response.Fires = m.fires[:n+1]
	return m.fires[n]
}

// recycleMessage clears all references of the message and keeps it for reuse.
func (m *message) recycleMessage() {
	clearFires(m.response.Fires)
	m.response.Fires, m.response.Peers, m.response.Cancelled = nil, nil, nil
	messages.Put(m)
}

func clearFires(fires []*rousev1.Fire) {
	for _, f := range fires {
		f.Id, f.Namespace, f.Name, f.Payload, f.ContentType, f.Labels, f.Traceparent = "", "", "", nil, "", nil, ""
	}
}

// fireSize returns about how many bytes a fire has in a message.
func fireSize(f *rouse.Fire) int {
	n := 96 + len(f.Namespace) + len(f.Name) + len(f.Spec.Payload) + len(f.Spec.ContentType)
	if len(f.Spec.Labels) > 0 {
		for k, v := range f.Spec.Labels {
			n += len(k) + len(v) + 8
		}
	}
	return n
}

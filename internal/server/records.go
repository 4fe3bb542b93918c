package server

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// recordOps are the operations of this file.
type recordOps interface {
	Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error)
	Follow(ctx context.Context, f func(records []rouse.Record, dropped uint64) error) error
}

// records returns a page of a history, newest first, and the token of the next page.
func (s *service) records(ctx context.Context, namespace, name string, asked uint32, token string) ([]rouse.Record, string, error) {
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	q := rouse.RecordQuery{Namespace: namespace, Name: name, Limit: size}
	if q.Until, err = cursorOf(token, &q); err != nil {
		return nil, "", err
	}
	if !s.reads.TryAcquire(1) {
		return nil, "", overloaded("reads")
	}
	defer s.reads.Release(1)
	page, err := s.timers.Records(ctx, q)
	if err != nil || page.Next == nil {
		return page.Records, "", err
	}
	return page.Records, cursorToken(*page.Next, &q), nil
}

// following calls f with the records of a namespace, or of one timer, as occurrences end, until ctx ends,
// the server drains, or f fails. It calls begin once the request can no longer be refused.
func (s *service) following(ctx context.Context, namespace, name string, begin func() error, f func(records []rouse.Record, dropped uint64) error) error {
	if err := (&rouse.RecordQuery{Namespace: namespace, Name: name}).Check(); err != nil {
		return err
	}
	if !s.follow.TryAcquire(1) {
		return overloaded("followers")
	}
	defer s.follow.Release(1)
	if err := begin(); err != nil {
		return err
	}
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	err := s.timers.Follow(ctx, func(records []rouse.Record, dropped uint64) error {
		var mine []rouse.Record
		for i := range records {
			if records[i].Namespace == namespace && (name == "" || records[i].Name == name) {
				mine = append(mine, records[i])
			}
		}
		if len(mine) == 0 && dropped == 0 {
			return nil
		}
		return f(mine, dropped)
	})
	return s.ended(err)
}

func (f *timersServer) ListRecords(ctx context.Context, r *rousev1.ListRecordsRequest) (*rousev1.ListRecordsResponse, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	page, token, err := f.records(ctx, key.Namespace, key.Name, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	return &rousev1.ListRecordsResponse{Records: recordsToProto(page), NextPageToken: token}, nil
}

func recordsToProto(records []rouse.Record) []*rousev1.Record {
	out := make([]*rousev1.Record, len(records))
	for i := range records {
		out[i] = rousev1.RecordToProto(&records[i])
	}
	return out
}

// followChunk bounds the records of one message.
const followChunk = 500

func (f *timersServer) FollowRecords(r *rousev1.FollowRecordsRequest, stream grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error {
	key := keyFrom(r.Namespace, r.Name, "")
	begin := func() error { return stream.SendHeader(nil) } // tells the client that it follows
	return f.following(stream.Context(), key.Namespace, key.Name, begin, func(records []rouse.Record, dropped uint64) error {
		for first := true; first || len(records) > 0; first = false {
			n := min(len(records), followChunk)
			if err := stream.Send(&rousev1.FollowRecordsResponse{Records: recordsToProto(records[:n]), Dropped: dropped}); err != nil {
				return err
			}
			records, dropped = records[n:], 0
		}
		return nil
	})
}

var recordsRoutes = []route{
	{method: "GET", path: timerPath + "/records", serve: (*httpHandler).timerRecords, params: pageNames, answer: api.RecordList{},
		summary: "Tells how the occurrences of a timer ended, newest first, also after the timer itself has ended.",
		means:   "A page."},
	{method: "GET", path: nsPath + "/records", serve: (*httpHandler).namespaceRecords, params: pageNames, answer: api.RecordList{},
		summary: "Tells how the occurrences of a namespace ended, newest first.", means: "A page."},
	{method: "GET", path: nsPath + "/records:follow", serve: (*httpHandler).followRecords, params: []string{"name"},
		summary: "Streams records as occurrences end.",
		more: `
description: |
  Server-sent events: "record" with a Record, and "dropped" with {"dropped": N} for a reader that was too slow. Lines
  that begin with ":" are comments.
parameters:
  - {name: name, in: query, description: Of this timer only., schema: {$ref: '#/components/schemas/Name'}}
responses:
  "200": {description: 'The stream, which ends when the server stops.', content: {text/event-stream: {schema: {type: string}}}}`},
}

func (f *httpHandler) timerRecords(c *call) error     { return c.history(c.name()) }
func (f *httpHandler) namespaceRecords(c *call) error { return c.history("") }

func (c *call) history(name string) error {
	size, token, err := c.params.page()
	if err != nil {
		return err
	}
	records, next, err := c.handler.records(c.ctx, c.namespace(), name, size, token)
	if err != nil {
		return err
	}
	out := api.RecordList{Records: make([]api.Record, len(records)), NextPageToken: next}
	for i := range records {
		out.Records[i] = api.RecordOf(&records[i])
	}
	return c.reply(http.StatusOK, out)
}

// A follower that does not read for followWrite is cut. An idle one gets a comment every followQuiet, so
// that proxies keep the connection open.
const (
	followWrite = 10 * time.Second
	followQuiet = 15 * time.Second
)

// followRecords streams records as server-sent events: "record", and "dropped" if some were missed.
func (f *httpHandler) followRecords(c *call) error {
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", eventsType)
		return nil
	}
	ev := &events{w: c.w, control: http.NewResponseController(c.w)}
	stop := func() {}
	begun := false
	err := f.following(c.r.Context(), c.namespace(), c.params.text("name"), func() error {
		begun = true
		if err := ev.begin(); err != nil {
			return err
		}
		stop = ev.keepAlive()
		return nil
	}, ev.send)
	stop()
	if begun {
		return nil // the response has begun: it cannot carry the error
	}
	return err
}

// send writes records as events.
func (e *events) send(records []rouse.Record, dropped uint64) error {
	var b bytes.Buffer
	if dropped > 0 {
		b.WriteString("event: dropped\ndata: {\"dropped\":" + strconv.FormatUint(dropped, 10) + "}\n\n")
	}
	for i := range records {
		data, err := api.Encode(api.RecordOf(&records[i]))
		if err != nil {
			return err
		}
		b.WriteString("event: record\ndata: ")
		b.Write(data)
		b.WriteString("\n\n")
	}
	return e.write(b.Bytes())
}

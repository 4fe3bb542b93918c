package server

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backoff"
)

// recordOps are the operations of this file.
type recordOps interface {
	Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error)
	Readable(ctx context.Context, namespace, name string) error
	ChargeRead(ctx context.Context, namespace string) error
	Follow(ctx context.Context, wanted func(r *rouse.Record) bool, begin func() error,
		f func(records []rouse.Record, dropped uint64) error) error
}

// readRecordPage returns a page of a history, and the token of the next page.
func (s *service) readRecordPage(ctx context.Context, q rouse.RecordQuery, asked uint32,
	token string) (rouse.RecordPage, string, error) {
	var err error
	if q.Limit, err = pageSize(asked); err != nil {
		return rouse.RecordPage{}, "", err
	}
	first := q
	if token, err = s.resolvePageToken(token); err == nil {
		err = cursorOf(token, &q)
	}
	if err != nil {
		return rouse.RecordPage{}, "", err
	}
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return rouse.RecordPage{}, "", err
	}
	defer give()
	page, err := s.timers.Records(ctx, q)
	if err != nil {
		return page, "", err
	}
	token, err = s.pageToken(ctx, cursorToken(page.Next, &first), q.Namespace)
	return page, token, err
}

// follower is which records one reader follows.
type follower struct {
	namespace, name string // everywhere and no name: all that the caller may read in full
	perSecond       uint32 // at most so many, the last ones; the others are counted as dropped; 0: all
}

func (q *follower) checkFollower() error {
	if q.namespace == everywhere {
		return (&rouse.RecordQuery{Name: q.name}).Check()
	}
	return cmp.Or(rouse.CheckNamespace(q.namespace), (&rouse.RecordQuery{Namespace: q.namespace, Name: q.name}).Check())
}

// streamRecords calls f with records as occurrences end, until ctx ends, the server drains, or f fails. It
// calls begin when the request can no longer be refused, and no record is missed any more.
func (s *service) streamRecords(ctx context.Context, q follower, begin func() error,
	f func(records []rouse.Record, dropped uint64) error) error {
	if err := q.checkFollower(); err != nil {
		return err
	}
	var namespace string // as operations have it
	if q.namespace != everywhere {
		namespace = q.namespace
	}
	if err := s.timers.Readable(ctx, namespace, q.name); err != nil {
		return err
	}
	if err := s.timers.ChargeRead(ctx, namespace); err != nil {
		return err
	}
	give, err := s.follow.takePlace(ctx)
	if err != nil {
		return err
	}
	defer give()
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	control := s.accessControl()
	wanted := func(r *rouse.Record) bool { return q.wantsRecord(ctx, control, r) }
	err = s.timers.Follow(ctx, wanted, begin, func(records []rouse.Record, dropped uint64) error {
		// the rights, or the timer of that name, may be others by now
		if err := s.timers.Readable(ctx, namespace, q.name); err != nil {
			return err
		}
		if q.perSecond > 0 {
			if n := len(records) - int(q.perSecond); n > 0 {
				records, dropped = records[n:], dropped+uint64(n)
			}
		}
		for i := range records {
			control.RedactRecords(ctx, records[i].Namespace, "", nil, records[i:i+1])
		}
		if err := f(records, dropped); err != nil || q.perSecond == 0 {
			return err
		}
		backoff.Sleep(ctx, time.Second) // new records wait in the follower's queue
		return ctx.Err()
	})
	return s.drainError(err)
}

// wantsRecord reports whether a follower gets a record.
func (q *follower) wantsRecord(ctx context.Context, control *access.Control, r *rouse.Record) bool {
	switch {
	case q.name != "" && r.Name != q.name:
		return false
	case q.namespace == everywhere:
		return r.Namespace != rouse.ReservedNamespace && !control.Restricted(ctx, access.TimersRead, r.Namespace)
	}
	return r.Namespace == q.namespace
}

func (f *timersServer) ListRecords(ctx context.Context,
	r *rousev1.ListRecordsRequest) (*rousev1.ListRecordsResponse, error) {
	q, err := recordQuery(r.Namespace, r.Name, r.Filter)
	if err != nil {
		return nil, err
	}
	q.Oldest = r.Oldest
	page, token, err := f.readRecordPage(ctx, q, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	return &rousev1.ListRecordsResponse{Records: rousev1.RecordsToProto(page.Records), NextPageToken: token,
		Searched: page.Searched}, nil
}

// recordQuery returns the query of a message.
func recordQuery(namespace, name string, f *rousev1.RecordFilter) (rouse.RecordQuery, error) {
	key := keyFrom(namespace, name, "")
	q := rouse.RecordQuery{Namespace: key.Namespace, Name: key.Name}
	if namespace == everywhere {
		q.Namespace = ""
	}
	return q, rousev1.RecordFilterFromProto(f, &q)
}

// followChunk bounds the records of one message.
const followChunk = 500

func (f *timersServer) FollowRecords(r *rousev1.FollowRecordsRequest,
	stream grpc.ServerStreamingServer[rousev1.FollowRecordsResponse]) error {
	key := keyFrom(r.Namespace, r.Name, "")
	begin := func() error { return stream.SendHeader(nil) } // the client sees that it follows
	return f.streamRecords(stream.Context(), follower{key.Namespace, key.Name, r.PerSecond}, begin,
		func(records []rouse.Record, dropped uint64) error {
			for first := true; first || len(records) > 0; first = false {
				n := min(len(records), followChunk)
				if err := stream.Send(&rousev1.FollowRecordsResponse{Records: rousev1.RecordsToProto(records[:n]),
					Dropped: dropped}); err != nil {
					return err
				}
				records, dropped = records[n:], 0
			}
			return nil
		})
}

// recordNames are the parameters of the history of a timer.
var recordNames = []string{"ending", "cause", "from", "until", "text", "target", "code", "oldest", "page_size",
	"page_token"}

var recordsRoutes = []route{
	{method: "GET", path: timerPath + "/records", serve: (*httpHandler).timerRecords, rpc: "Timers/ListRecords",
		params: recordNames, answer: api.RecordList{},
		summary: "Tells how the occurrences of a timer ended, also after the timer itself has ended.",
		means:   "A page. It can be shorter than asked for, even empty, and still have a next one."},
	{method: "GET", path: nsPath + "/records", serve: (*httpHandler).namespaceRecords, rpc: "Timers/ListRecords",
		params: append([]string{"prefix", "label"}, recordNames...), answer: api.RecordList{},
		summary: `Tells how the occurrences of a namespace ended; the namespace "-" is all of them.`,
		means:   "A page. It can be shorter than asked for, even empty, and still have a next one."},
}

const followedRecords = `
description: |
  Server-sent events: "record" with a Record, and "dropped" with {"dropped": N} for a reader that was too slow, or that
  asked for fewer. Lines that begin with ":" are comments. The namespace "-" is all that the caller may read in full.
parameters:
  - {name: name, in: query, description: Of this timer only., schema: {$ref: '#/components/schemas/Name'}}
  - {name: per_second, in: query, schema: {type: integer, format: int64, minimum: 0, maximum: 4294967295}, description: 'At most so many, the last ones of each second; 0 is all.'}
responses:
  "200": {description: 'The stream, which ends when the server stops.', content: {text/event-stream: {schema: {type: string}}}}`

func (f *httpHandler) timerRecords(c *call) error {
	if err := c.pathKey().Check(); err != nil {
		return err
	}
	return c.replyHistory(c.pathName())
}

func (f *httpHandler) namespaceRecords(c *call) error { return c.replyHistory("") }

func (c *call) replyHistory(name string) error {
	q, err := c.params.historyParams(c.pathNamespace())
	if err != nil {
		return err
	}
	q.Name = name
	if q.Oldest, err = c.params.flagParam("oldest"); err != nil {
		return err
	}
	size, token, err := c.params.pageParams()
	if err != nil {
		return err
	}
	page, next, err := c.handler.readRecordPage(c.ctx, q, size, token)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, api.RecordList{Records: api.RecordsOf(page.Records), NextPageToken: next,
		Searched: page.Searched})
}

// A follower that does not read for followWrite is cut. An idle one gets a comment every followQuiet, so
// that proxies keep the connection open.
const (
	followWrite = 10 * time.Second
	followQuiet = 15 * time.Second
)

// followRecords streams records as server-sent events: "record", and "dropped" if some were missed.
func followRecords(f *httpHandler, c *call) error {
	perSecond, err := c.params.countParam("per_second")
	if err != nil {
		return err
	}
	return c.sendEvents(func(ctx context.Context, begin func() error, ev *events) error {
		return f.streamRecords(ctx, follower{c.pathNamespace(), c.params.textParam("name"), perSecond}, begin, ev.sendRecords)
	})
}

// sendRecords writes records as events.
func (e *events) sendRecords(records []rouse.Record, dropped uint64) error {
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
	return e.writeAndFlush(b.Bytes())
}

package server

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
)

func (f *httpHandler) timerRecords(c *call) error     { return c.history(c.name()) }
func (f *httpHandler) namespaceRecords(c *call) error { return c.history("") }

func (c *call) history(name string) error {
	p, err := c.query("page_size", "page_token")
	if err != nil {
		return err
	}
	size, token, err := p.page()
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	records, next, err := c.handler.records(ctx, c.namespace(), name, size, token)
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
	p, err := c.query("name")
	if err != nil {
		return err
	}
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", eventsType)
		return nil
	}
	ev := &events{w: c.w, control: http.NewResponseController(c.w)}
	stop := func() {}
	begun := false
	err = f.following(c.r.Context(), c.namespace(), p.text("name"), func() error {
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

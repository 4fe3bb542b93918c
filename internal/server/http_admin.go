package server

import (
	"bufio"
	"net/http"
	"time"

	"github.com/rousehq/rouse/api"
)

const tarType = "application/x-tar"

// writeBackup streams a tar archive. An error after its beginning cuts the connection, so that the client
// cannot take a part for the whole.
func (f *httpHandler) writeBackup(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", tarType)
		return nil
	}
	body := &download{call: c}
	w := bufio.NewWriterSize(body, backupChunk)
	err := f.backup(c.r.Context(), w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil || !body.begun {
		return err
	}
	f.log.Error("backup ended early", "err", err)
	panic(http.ErrAbortHandler)
}

// download is a streamed response: each write to the client may take followWrite.
type download struct {
	*call
	begun bool
}

func (d *download) Write(b []byte) (int, error) {
	if !d.begun {
		d.begun = true
		h := d.w.Header()
		h.Set("Content-Type", tarType)
		h.Set("Content-Disposition", `attachment; filename="rouse-`+time.Now().UTC().Format("20060102T150405Z")+`.tar"`)
	}
	d.allow(followWrite)
	return d.w.Write(b)
}

func (f *httpHandler) showClock(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	return c.reply(http.StatusOK, clockOf(f.clock()))
}

// advanceClock takes as long as the fires that it causes.
func (f *httpHandler) advanceClock(c *call) error {
	var body api.AdvanceClock
	if err := c.whole(&body); err != nil {
		return err
	}
	state, err := f.advance(c.r.Context(), time.Duration(body.By), body.To.Instant(), body.Jump)
	c.allow(followWrite)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, clockOf(state))
}

func clockOf(s clockState) api.Clock {
	return api.Clock{Now: api.TimeOf(s.now), Ahead: api.Duration(s.ahead), Virtual: s.virtual, Fired: s.fired}
}

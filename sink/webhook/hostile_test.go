package webhook_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

// Whatever a receiver does, an attempt ends with an outcome that explains it, and the next one to another
// receiver succeeds.
func TestHostileReceivers(t *testing.T) {
	const plain, json = "text/plain", "application/json"
	for name, c := range map[string]struct {
		answer  receiver.Answer
		verdict rouse.Verdict
		code    int
		detail  string
	}{
		"hang":                  {receiver.Hang(), rouse.Failed, 0, "no answer within 300ms"},
		"slow":                  {receiver.Slow(time.Minute, receiver.Status(200)), rouse.Failed, 0, "no answer within 300ms"},
		"reset":                 {receiver.Reset(), rouse.Failed, 0, "reset"},
		"cut":                   {receiver.Cut(), rouse.Failed, 0, "EOF"},
		"half a head":           {receiver.Raw("HTTP/1.1 200 OK\r\nContent-Le"), rouse.Failed, 0, "broken"},
		"banner":                {receiver.Raw("SSH-2.0-OpenSSH_9.6\x1b[2J\r\n"), rouse.Failed, 0, "malformed"},
		"garbage":               {receiver.Raw("\x00\x01\x02\xff\xfe"), rouse.Failed, 0, ""},
		"no such status":        {receiver.Raw("HTTP/1.1 2000 OK\r\n\r\n"), rouse.Failed, 0, "malformed"},
		"two lengths":           {receiver.Raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"), rouse.Failed, 0, ""},
		"huge header":           {receiver.HugeHeader(), rouse.Failed, 0, "headers exceeded"},
		"1xx for ever":          {receiver.Informational(), rouse.Failed, 0, ""},
		"switches protocols":    {receiver.Raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello"), rouse.Failed, 101, "101"},
		"redirect loop":         {receiver.RedirectLoop(), rouse.Rejected, 302, "redirects are not followed"},
		"redirect to metadata":  {receiver.Redirect("http://169.254.169.254/latest/"), rouse.Rejected, 302, "redirects are not followed"},
		"endless":               {receiver.Endless(200, plain), rouse.Done, 200, ""},
		"endless JSON":          {receiver.Endless(200, json), rouse.Done, 200, ""},
		"endless failure":       {receiver.Endless(500, plain), rouse.Failed, 500, "500 Internal Server Error: endless endless"},
		"drip":                  {receiver.Drip(200, plain, 10*time.Millisecond), rouse.Done, 200, ""},
		"drip of a failure":     {receiver.Drip(503, plain, 10*time.Millisecond), rouse.Failed, 503, "503"},
		"half a body":           {receiver.HalfReply(200, plain, "half"), rouse.Done, 200, "half"},
		"half a wish":           {receiver.HalfReply(200, json, `{"rouse":{"retry_`), rouse.Failed, 200, "cannot be read"},
		"half a failure":        {receiver.HalfReply(500, plain, "half"), rouse.Failed, 500, "half"},
		"gzip bomb":             {receiver.Bomb(200, json), rouse.Done, 200, ""},
		"gzip bomb of failures": {receiver.Bomb(500, plain), rouse.Failed, 500, `\x1f\x8b`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, webhook.Options{}, receiver.Options{})
			w.r.Script(c.answer)
			f := w.fire()
			f.Spec.Retry.Timeout = 20 * time.Second
			if slices.Contains([]string{"hang", "slow", "drip", "drip of a failure"}, name) { // the others end by themselves
				f.Spec.Retry.Timeout = 300 * time.Millisecond
			}
			o := w.send(f)[0]
			if o.Verdict != c.verdict || o.Code != c.code || o.Unreached || !strings.Contains(o.Detail, c.detail) || len(o.Detail) > rouse.MaxDetail || strings.ContainsAny(o.Detail, "\x00\x1b\r\n") {
				t.Errorf("%+v, want %v, code %d, with %q", o, c.verdict, c.code, c.detail)
			}
			if n, _ := w.r.Count(); n != 1 {
				t.Errorf("sent %d times", n)
			}
			if o := w.send(w.fire())[0]; o.Verdict != rouse.Done {
				t.Errorf("the next attempt: %+v", o)
			}
		})
	}
}

// Only a bounded part of a response is read.
func TestReadsLittle(t *testing.T) {
	for _, kind := range []string{"text/plain", "application/json"} {
		r := &countingReader{}
		webhook.ReadAnswer(r, 200, kind, 64<<10)
		if r.n > 64<<10+1 {
			t.Errorf("%s: read %d bytes", kind, r.n)
		}
	}
}

type countingReader struct{ n int }

func (r *countingReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	r.n += len(b)
	return len(b), nil
}

func (r *countingReader) Close() error { return nil }

// When the server stops, attempts under way are not spent, as when it crashes.
func TestStoppingSpendsNoAttempt(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{Answer: receiver.Hang()})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the delivery
		w.next()
		cancel()
	}()
	if o := send(ctx, w.sink, w.fire())[0]; o.Verdict != rouse.Deferred {
		t.Errorf("%+v", o)
	}
}

func TestNoListener(t *testing.T) {
	w := newWire(t, webhook.Options{}, receiver.Options{})
	w.r.Close()
	if o := w.send(w.fire())[0]; o.Verdict != rouse.Failed || o.Code != 0 || !o.Unreached || !strings.Contains(o.Detail, "refused") {
		t.Errorf("%+v", o)
	}
}

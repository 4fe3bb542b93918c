package receiver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/sink/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a receiver with a plain client.
type peer struct {
	t *testing.T
	*receiver.Receiver
	client *http.Client
}

func open(t *testing.T, o receiver.Options) *peer {
	transport := &http.Transport{DisableCompression: true}
	p := &peer{t, receiver.New(o), &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	t.Cleanup(func() {
		p.Close()
		transport.CloseIdleConnections()
	})
	return p
}

func (p *peer) post(body string, header ...string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), poll.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/hook?x=1", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, b, err
}

func (p *peer) next() *receiver.Arrival {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), poll.Patience)
	defer cancel()
	a, err := p.Next(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

func TestRecords(t *testing.T) {
	p := open(t, receiver.Options{MaxBody: 10})
	before := time.Now()
	p.post("0123456789", "X-A", "b")
	a := p.next()
	if a.Method != "POST" || a.URL != "/hook?x=1" || a.Header.Get("X-A") != "b" || string(a.Body) != "0123456789" || a.Truncated || a.Broken != nil {
		t.Errorf("%+v", a)
	}
	if a.Time.Before(before) || a.Time.After(time.Now()) || a.From == "" {
		t.Errorf("came at %v from %s", a.Time, a.From)
	}
	p.post("0123456789a")
	if a := p.next(); string(a.Body) != "0123456789" || !a.Truncated {
		t.Errorf("%+v", a)
	}
}

// The time of an arrival is that of its own first byte, also on a connection that was used before.
func TestTimeOfFirstByte(t *testing.T) {
	p := open(t, receiver.Options{})
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 1024)
	for range 3 {
		before := time.Now()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
		if n, err := c.Read(buf); err != nil || !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 100")) {
			t.Fatalf("%q, %v", buf[:n], err)
		}
		between := time.Now() // the head has come, and the body has not
		io.WriteString(c, "1234")
		if a := p.next(); a.Time.Before(before) || a.Time.After(between) {
			t.Errorf("came at %v, between %v and %v", a.Time, before, between)
		}
		if n, err := c.Read(buf); err != nil || !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200")) {
			t.Fatalf("%q, %v", buf[:n], err)
		}
	}
}

func TestScript(t *testing.T) {
	p := open(t, receiver.Options{Answer: receiver.Status(204)})
	p.Script(receiver.Status(500), receiver.RetryAfter(429, "7"), receiver.Body(200, "a/b", "c"), receiver.Redirect("http://x/"), receiver.RedirectLoop())
	var got []string
	for range 6 {
		resp, body, err := p.post("")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strconv.Itoa(resp.StatusCode)+resp.Header.Get("Retry-After")+string(body)+resp.Header.Get("Location"))
	}
	if want := "500 4297 200c 302http://x/ 302/hook?x=1 204"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestVerifies(t *testing.T) {
	secret := webhook.NewSecret()
	ref, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, receiver.Options{Secrets: []string{secret}})
	now := time.Now()
	sig, err := ref.Sign("msg_1", now, []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]error{"body": nil, "other": webhook.ErrSignature} {
		p.post(body, "webhook-id", "msg_1", "webhook-timestamp", strconv.FormatInt(now.Unix(), 10), "webhook-signature", sig)
		if a := p.next(); !errors.Is(a.Signature, want) {
			t.Errorf("%s: %v, want %v", body, a.Signature, want)
		}
	}
	p.post("body")
	if a := p.next(); !errors.Is(a.Signature, webhook.ErrUnsigned) {
		t.Errorf("unsigned: %v", a.Signature)
	}
}

func TestManual(t *testing.T) {
	ended := make(chan receiver.Arrival, 2)
	p := open(t, receiver.Options{Manual: true, Ended: func(a receiver.Arrival) { ended <- a }})
	var sending sync.WaitGroup
	for range 2 {
		sending.Go(func() { p.post("x") })
	}
	first, second := p.next(), p.next()
	second.Reply(receiver.Status(201))
	if a := <-ended; a.Status != 201 || a.Replied.Before(a.Time) || a.From != second.From {
		t.Errorf("%+v", a)
	}
	first.Reply(receiver.Cut())
	if a := <-ended; a.Status != 0 || a.From != first.From {
		t.Errorf("%+v", a)
	}
	sending.Wait()
}

func TestKeepsSoMany(t *testing.T) {
	p := open(t, receiver.Options{Keep: 3})
	for range 5 {
		p.post("")
	}
	if n, dropped := p.Count(); n != 5 || dropped != 2 {
		t.Errorf("%d came, %d dropped", n, dropped)
	}
	for range 3 {
		p.next()
	}
}

func TestNextEnds(t *testing.T) {
	p := open(t, receiver.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.post("")
	if _, err := p.Next(ctx); err != nil {
		t.Errorf("one waits already: %v", err)
	}
	p.post("")
	p.Close()
	p.Close()
	p.next()
	if _, err := p.Next(t.Context()); !errors.Is(err, receiver.ErrClosed) {
		t.Error(err)
	}
}

// Close ends whatever is under way.
func TestCloseEndsHostility(t *testing.T) {
	for name, answer := range map[string]receiver.Answer{
		"hang": receiver.Hang(), "slow": receiver.Slow(time.Hour, receiver.Status(200)), "drip": receiver.Drip(200, "a/b", time.Hour),
		"endless": receiver.Endless(200, "a/b"), "huge header": receiver.HugeHeader(), "informational": receiver.Informational(),
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, receiver.Options{Answer: answer})
			c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			p.next() // nothing of the answer is read
			p.Close()
		})
	}
}

// A flood without a reader ends with its request.
func TestFloodsEnd(t *testing.T) {
	for name, answer := range map[string]receiver.Answer{"huge header": receiver.HugeHeader(), "informational": receiver.Informational(), "raw": receiver.Raw("x")} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			answer(hijack{c: ours}, req)
		})
	}
}

// hijack is a response whose connection can be taken over.
type hijack struct {
	http.ResponseWriter
	c net.Conn
}

func (h hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.c, nil, nil }

func TestHostileReplies(t *testing.T) {
	p := open(t, receiver.Options{})
	for name, c := range map[string]struct {
		answer receiver.Answer
		want   string
	}{
		"reset": {receiver.Reset(), "reset"}, "cut": {receiver.Cut(), "EOF"}, "half": {receiver.HalfReply(200, "a/b", "half"), "unexpected EOF"},
		"raw": {receiver.Raw("SSH-2.0-x\r\n"), "malformed"}, "huge header": {receiver.HugeHeader(), "headers exceeded"},
	} {
		p.Script(c.answer)
		if _, _, err := p.post(""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.Script(receiver.Endless(200, "a/b"), receiver.Bomb(200, "a/b"), receiver.Slow(time.Millisecond, receiver.Status(201)))
	if _, b, _ := p.post(""); len(b) != 1<<20 {
		t.Errorf("endless: %d bytes", len(b))
	}
	if resp, b, err := p.post(""); err != nil || len(b) > 100<<10 || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("bomb: %d bytes, %v", len(b), err)
	}
	if resp, _, err := p.post(""); err != nil || resp.StatusCode != 201 {
		t.Errorf("slow: %v", err)
	}
}

func TestFiresRefusesOthers(t *testing.T) {
	p := open(t, receiver.Options{})
	for kind, body := range map[string]string{"text/plain": "x", "application/cloudevents+json": "{", "application/cloudevents-batch+json": `[{"id":"x"}]`} {
		p.post(body, "Content-Type", kind)
		if _, err := p.next().Fires(); err == nil {
			t.Errorf("%s %s passes for a fire", kind, body)
		}
	}
}

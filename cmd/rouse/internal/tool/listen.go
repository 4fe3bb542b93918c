package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/sink/webhook"
)

// ListenCmd is a receiver for trying things out: it prints callbacks, verifies their signatures and
// responds as configured.
type ListenCmd struct {
	Address     string        `help:"Where to listen." default:"127.0.0.1:7413" placeholder:"HOST:PORT"`
	SecretFile  string        `help:"File of the secrets that sign callbacks, one per line; default ./rouse-data/webhook.secret if it exists, else the server's keys." placeholder:"FILE"`
	Answer      int           `help:"Status of the responses." default:"200" placeholder:"STATUS"`
	RetryAfter  time.Duration `help:"Retry-After of the responses." placeholder:"DURATION"`
	Count       int           `help:"Exit after this number of callbacks; 0 is never." default:"0" placeholder:"N"`
	AddressFile string        `help:"Write the address to this file once it listens." placeholder:"FILE"`
}

func (ListenCmd) Help() string {
	return `Callbacks with an invalid signature are answered with 401, regardless of --answer. Without a file of secrets, the keys of a
callback's namespace are asked from the server (--server); if it does not give them, its signature is not looked at.

Examples:

    rouse listen
    rouse listen --secret-file /var/lib/rouse/webhook.secret
    rouse listen --answer 503 --retry-after 5s
    rouse listen --count 1 --json`
}

// maxCallback bounds the body of a callback: a batch of a thousand fires with small payloads, or forty with
// the largest ones.
const maxCallback = 16 << 20

// Run receives until a signal, or --count callbacks.
func (c *ListenCmd) Run(a *cli.App) error {
	if c.Answer < 200 || c.Answer > 599 {
		return rouse.Refuse("answer", strconv.Itoa(c.Answer), "is no status to answer with", "use 200 to 599")
	}
	if c.Count < 0 || c.RetryAfter < 0 {
		return rouse.Refuse("count", strconv.Itoa(c.Count), "or retry-after is negative", "use 0 or more")
	}
	secrets, err := c.readSecrets()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ctx, enough := context.WithCancel(a.Ctx)
	defer enough()
	r := &callbackReceiver{a: a, c: c, secrets: secrets, enough: enough}
	if err := c.printListenAddress(a, l.Addr().String(), len(secrets)); err != nil {
		l.Close()
		return err
	}
	return r.serveCallbacks(ctx, l)
}

func (c *ListenCmd) printListenAddress(a *cli.App, address string, secrets int) error {
	if c.AddressFile != "" {
		if err := daemon.WriteWhole(c.AddressFile, address+"\n"); err != nil {
			return err
		}
	}
	how := "signatures are verified with the keys of " + cmp.Or(a.Flags.Server, cli.DefaultServer)
	if secrets > 0 {
		how = "signatures are verified"
	}
	a.PrintNote("listening on http://%s/, %s", address, how)
	return nil
}

// readSecrets returns the secrets of the file; none if it is the default one and does not exist.
func (c *ListenCmd) readSecrets() ([]string, error) {
	name := c.SecretFile
	name = cmp.Or(name, cli.DefaultSecretFile)
	body, err := os.ReadFile(name)
	if c.SecretFile == "" && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, rouse.Refuse("secret-file", name, "cannot be read: "+cli.BareFileError(err),
			"name the server's webhook-secret-file")
	}
	var list []string
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := webhook.CheckSecret(line); err != nil {
			return nil, rouse.Refuse("secret-file", name, "holds something else: "+err.Error(),
				"name the server's webhook-secret-file")
		}
		list = append(list, line)
	}
	if len(list) == 0 {
		return nil, rouse.Refuse("secret-file", name, "holds no secret", "write one on each line")
	}
	return list, nil
}

// callbackReceiver is shared by the requests.
type callbackReceiver struct {
	a       *cli.App
	c       *ListenCmd
	secrets []string
	enough  func()

	mu    sync.Mutex // guards the output, so that callbacks do not mix, and the fields below
	count int
	err   error // of printing

	keys namespaceKeys
	real bool // guarded by keys.mu: the server's clock cannot be moved, or that is not known
}

// namespaceKeys are the secrets of signing keys that a server has given, by namespace.
type namespaceKeys struct {
	mu sync.Mutex
	of map[string][]string
}

// keysTimeout bounds the question for signing keys. The receiver waits for the answer.
const keysTimeout = 5 * time.Second

// secretsOf returns the secrets that may sign callbacks of a namespace: those of the file, or those that the
// server gives. They are asked for again if they do not fit.
func (r *callbackReceiver) secretsOf(namespace string, again bool) []string {
	if len(r.secrets) > 0 {
		return r.secrets
	}
	r.keys.mu.Lock()
	defer r.keys.mu.Unlock()
	if known := r.keys.of[namespace]; known != nil && !again {
		return known
	}
	var list []string
	err := r.a.CallServer(func(ctx context.Context, s *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, keysTimeout)
		defer cancel()
		keys, err := s.Secrets().RevealSigningKeys(ctx, namespace)
		for _, k := range keys {
			list = append(list, k.Secret)
		}
		return err
	})
	if err != nil {
		return nil
	}
	if r.keys.of == nil {
		r.keys.of = map[string][]string{}
	}
	r.keys.of[namespace] = list
	return list
}

// lagTime returns the time by which lags count: this machine's, but the server's if its clock can be moved.
// That one stands still until the callback is answered. A server that does not answer is assumed to use the
// real time.
func (r *callbackReceiver) lagTime(arrived time.Time) time.Time {
	r.keys.mu.Lock() // the server is asked by one at a time
	defer r.keys.mu.Unlock()
	if r.real {
		return arrived
	}
	_ = r.a.WithClient(func(s *client.Client) error {
		ctx, cancel := context.WithTimeout(r.a.Ctx, cli.Unreachable)
		defer cancel()
		clock, err := s.Clock(ctx)
		if err != nil {
			return err
		}
		if r.real = !clock.Virtual; !r.real {
			arrived = clock.Now.Time()
		}
		return nil
	})
	return arrived
}

// verifyCallback returns the text to print about a signature, and whether it is refused.
func (r *callbackReceiver) verifyCallback(h http.Header, body []byte, at time.Time) (text string, refused bool) {
	namespace := cmp.Or(h.Get("Rouse-Namespace"), "default")
	secrets := r.secretsOf(namespace, false)
	if len(secrets) == 0 {
		return "not verified", false
	}
	err := webhook.Verify(secrets, h, body, at)
	if err != nil { // the keys may have been rotated
		err = webhook.Verify(r.secretsOf(namespace, true), h, body, at)
	}
	if err != nil {
		return "refused: " + err.Error(), true
	}
	return "ok", false
}

// serveCallbacks responds to requests until ctx ends.
func (r *callbackReceiver) serveCallbacks(ctx context.Context, l net.Listener) error {
	err := daemon.ServeUntil(ctx, l, http.HandlerFunc(r.receiveCallback))
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.err, err)
}

// receiveCallback handles one request.
func (r *callbackReceiver) receiveCallback(w http.ResponseWriter, req *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxCallback))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusRequestEntityTooLarge)
		r.a.PrintNote("a callback was cut off or has more than %d bytes: %v", maxCallback, err)
		return
	}
	status := r.c.Answer
	signature, refused := r.verifyCallback(req.Header, body, arrived)
	if refused {
		status = http.StatusUnauthorized
	}
	now := r.lagTime(arrived)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c.Count > 0 && r.count == r.c.Count { // came at the same time as the last one
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.count++
	for _, cb := range parseCallbacks(req, body) {
		cb.Received, cb.Signature, cb.Answered = arrived.UTC().Format(time.RFC3339Nano), signature, status
		cb.computeLag(now)
		if err := r.printCallback(&cb); err != nil && r.err == nil {
			r.err = err
			r.enough()
		}
	}
	if r.c.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((r.c.RetryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(status)
	if r.count == r.c.Count {
		r.enough()
	}
}

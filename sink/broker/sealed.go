package broker

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// placeholder stands for a secret in a URL that is only looked at.
const placeholder = "SECRET"

// withoutSecrets returns the URL with a placeholder for each secret, and the fault of its references, if any.
func (c *Connection) withoutSecrets() (text, wrong string) {
	if !rouse.HasSecrets(c.URL) {
		return c.URL, ""
	}
	text, err := rouse.ExpandSecrets(c.URL, func(name string) (string, error) {
		namespace, name, ok := strings.Cut(name, "/")
		if !ok || rouse.CheckNamespace(namespace) != nil || rouse.CheckSecretName(name) != nil {
			wrong = "has a reference to a secret that cannot exist: write it as {{secret:NAMESPACE/NAME}}"
		}
		return placeholder, nil
	})
	if err != nil {
		return "", err.Error()
	}
	if u, err := url.Parse(text); err == nil && strings.Contains(u.Host+u.Path+u.RawQuery+u.Fragment, placeholder) {
		wrong = "has a secret in another place than user and password"
	}
	return text, wrong
}

// Sealed is a publisher for a connection with secrets in its URL: it connects when it gets their values, and
// connects again when they change.
type Sealed struct {
	connection Connection
	changed    func(error)
	value      func(namespace, name string) (string, error)

	mu      sync.Mutex
	current *generation // nil: a secret is missing
	why     string      // then
	closed  bool
}

// generation is a publisher with one set of values.
type generation struct {
	Publisher
	url  string
	uses sync.WaitGroup
}

// OpenSealed returns a publisher for a connection that passed Check. Its errors, and those of value, must not
// contain secrets.
func OpenSealed(c Connection, changed func(error),
	value func(namespace, name string) (string, error)) (*Sealed, error) {
	s := &Sealed{connection: c, changed: changed, value: value}
	return s, s.Refresh()
}

// Refresh takes over the present values of the secrets. The connection with the old values is closed when its
// messages are settled.
func (s *Sealed) Refresh() error {
	address, err := rouse.ExpandSecrets(s.connection.URL, func(name string) (string, error) {
		namespace, name, _ := strings.Cut(name, "/")
		v, err := s.value(namespace, name)
		return escapeForURL(v), err
	})
	s.mu.Lock()
	old := s.current
	if s.closed || err == nil && old != nil && old.url == address {
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	var next *generation
	why := ""
	if err != nil {
		why = err.Error()
	} else {
		c := s.connection
		c.URL = address
		p, err := Open(c, s.changed)
		if err != nil {
			return err
		}
		next = &generation{Publisher: p, url: address}
	}
	s.mu.Lock()
	if s.closed { // in between
		old = next
	} else {
		s.current, s.why = next, why
	}
	s.mu.Unlock()
	if old == nil {
		return nil
	}
	old.uses.Wait()
	return old.Close()
}

// escapeForURL percent-encodes everything that may have a meaning in a URL.
func escapeForURL(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

func (s *Sealed) useCurrent() *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.uses.Add(1)
	}
	return s.current
}

// Check returns the fault of a target. While a secret is missing, every target is accepted.
func (s *Sealed) Check(t *Target) (wrong, cure string) {
	g := s.useCurrent()
	if g == nil {
		return "", ""
	}
	defer g.uses.Done()
	return g.Check(t)
}

// secretPause is how long messages are put off that need a secret which is missing.
const secretPause = 5 * time.Second

// Publish publishes messages, or puts them off while a secret is missing.
func (s *Sealed) Publish(ctx context.Context, messages []Message, f *Flight) {
	g := s.useCurrent()
	if g == nil {
		o := Unsent(secretPause, s.Obstacle())
		o.Cause = rouse.CauseNoSecret
		for i := range messages {
			f.Settle(i, o)
		}
		return
	}
	defer g.uses.Done()
	g.Publish(ctx, messages, f)
}

// Obstacle returns the reason why publishing is impossible now.
func (s *Sealed) Obstacle() string {
	g := s.useCurrent()
	if g == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.why
	}
	defer g.uses.Done()
	return g.Obstacle()
}

// Close closes the connection.
func (s *Sealed) Close() error {
	s.mu.Lock()
	g := s.current
	s.closed, s.current, s.why = true, nil, "the server is stopping"
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.Close()
}

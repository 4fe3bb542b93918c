package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/sink/webhook"
)

// secrets are secrets that sign the callbacks of all namespaces, in addition to the keys of each: earlier
// versions had only these. They are in a file with one secret a line, the newest first; lines that begin with
// # are comments. Rotation is: put a new first line, let receivers learn it, take the old line out. The file
// is read again when it changes.
type secrets struct {
	path  string
	locks rouse.Locks // of a store that other nodes use too; nil: there are none
	list  atomic.Pointer[[]string]
	last  []byte
}

// secretsEvery is how soon a change of the file is seen.
const secretsEvery = 2 * time.Second

// openSecrets reads the file. One that does not exist is made, readable by its owner only, with the secrets
// that the other nodes of the store sign with, or with a new one if the file is named. Without either there
// are no such secrets, and the result is nil.
func openSecrets(ctx context.Context, path string, locks rouse.Locks, named bool) (*secrets, error) {
	s := &secrets{path: path, locks: locks}
	if err := private.Path(path); err != nil && !readOnly(err) {
		return nil, err
	}
	err := s.readSecretFile()
	if errors.Is(err, fs.ErrNotExist) {
		if !named {
			if theirs, err := presentSecrets(ctx, locks); err != nil || len(theirs) == 0 {
				return nil, err
			}
		}
		err = s.createSecretFile(ctx)
	}
	if err != nil || locks == nil {
		return s, err
	}
	theirs, err := sharedSecrets(ctx, locks, s.currentSecrets())
	if err != nil {
		return nil, err
	}
	if err := agreeSecrets(path, s.currentSecrets(), theirs); err != nil {
		return nil, err
	}
	// rotated while the node was down
	if slices.ContainsFunc(s.currentSecrets(), func(secret string) bool { return !slices.Contains(theirs, secret) }) {
		err = replaceSecrets(ctx, locks, s.currentSecrets())
	}
	return s, rouse.Unavailable(err)
}

// readOnly reports whether a file cannot be changed because it is on a volume that is not to be written, as
// orchestrators give secrets, or another user's: its owner decides about its readers.
func readOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

// createSecretFile makes the file.
func (s *secrets) createSecretFile(ctx context.Context) (err error) {
	list := []string{webhook.NewSecret()}
	if s.locks != nil {
		if list, err = sharedSecrets(ctx, s.locks, list); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make a webhook secret: %w", err)
	}
	_, err = f.WriteString(strings.Join(list, "\n") + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make a webhook secret: %w", err)
	}
	return s.readSecretFile()
}

func (s *secrets) readSecretFile() error {
	b, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	if s.list.Load() != nil && bytes.Equal(b, s.last) {
		return nil
	}
	var list []string
	for n, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if _, err := webhook.Sign(line, "check", 0, nil); err != nil {
			return fmt.Errorf("%s, line %d: %w", s.path, n+1, err)
		}
		list = append(list, line)
	}
	// a file that is just being written, or a mistake: to sign nothing would make receivers refuse everything
	if len(list) == 0 {
		return fmt.Errorf(
			"%s has no secret: put one on a line of its own, such as the output of openssl rand -base64 32 after whsec_", s.path)
	}
	s.list.Store(&list)
	s.last = b
	return nil
}

// currentSecrets returns the secrets, the newest first.
func (s *secrets) currentSecrets() []string { return *s.list.Load() }

// watchSecretFile reads the file again when it changes, until ctx ends. A file that cannot be read leaves the
// secrets as they are.
func (s *secrets) watchSecretFile(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(secretsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		before := s.list.Load()
		if err := s.readSecretFile(); err != nil {
			log.Warn("webhook secrets not read again; the old ones stay in force", "error", err)
		} else if s.list.Load() != before {
			log.Info("webhook secrets read", "secrets", len(*s.list.Load()))
			if s.locks != nil {
				if err := replaceSecrets(ctx, s.locks, s.currentSecrets()); err != nil {
					log.Warn("webhook secrets not written to the store: nodes that come later take the old ones", "error", err)
				}
			}
		}
	}
}

// prepared is the signer of a namespace, while its keys and the secrets of the file are these.
type prepared struct {
	signing *webhook.Signing
	common  *[]string
}

// signingOf returns the signer of the callbacks of a namespace: its keys, then the secrets of the file.
func (v *vault) signingOf(namespace string) (*webhook.Signing, error) {
	set, err := v.Signing(namespace)
	if err != nil {
		return nil, err
	}
	var common *[]string
	if v.common != nil {
		common = v.common.list.Load()
	}
	p, ok := set.Ready.Load().(*prepared)
	if !ok || p.common != common {
		p = &prepared{v.newSigning(set, common), common}
		set.Ready.Store(p)
	}
	return p.signing, nil
}

// newSigning makes the signer with the keys of a namespace and the common secrets.
func (v *vault) newSigning(set *secret.SigningSet, common *[]string) *webhook.Signing {
	var keys []webhook.Key
	for i := range set.Keys {
		var k webhook.Key
		if v.v1 {
			k.HMAC = set.Keys[i].HMAC
		}
		if v.v1a {
			k.Private = set.Keys[i].Private
		}
		keys = append(keys, k)
	}
	if common != nil {
		for _, text := range *common {
			if key, err := webhook.SecretKey(text); err == nil { // readSecretFile has checked it
				keys = append(keys, webhook.Key{HMAC: key})
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return webhook.NewSigning(keys...)
}

// callbackOptions returns the options of callbacks that settings give.
func (c *Config) callbackOptions() (o webhook.Options, err error) {
	o = webhook.Options{AllowPrivate: c.AllowPrivate, DropHeaders: c.DropHeaders, HostConcurrency: c.HostConcurrency,
		AddressRequests: c.AddressConcurrency, UserAgent: "rouse/" + c.Version, Resolver: c.resolver}
	if o.Egress, err = webhook.ParseRules(c.Egress); err != nil {
		return o, err
	}
	if c.EgressProxy != "" {
		o.Proxy, err = webhook.ParseProxy(c.EgressProxy)
	}
	return o, err
}

// openHooks makes the sink of callbacks.
func (n *Node) openHooks() {
	o, _ := n.cfg.callbackOptions() // Check has refused wrong ones
	o.Signing, o.Secret = n.vault.signingOf, n.vault.Value
	hooks := webhook.New(o)
	n.vault.allowed = hooks.Allowed
	var http rouse.Sink = hooks
	if n.cfg.Clock == nil { // a breaker uses the machine's time, which has nothing to do with a clock that is moved
		http = n.newBreaker(hooks)
	}
	n.addPart(parts.Part{Name: "callbacks", Sinks: map[string]rouse.Sink{"http": http, "https": http}, Drain: hooks.Drain,
		Close: func() error { hooks.Close(); return nil }})
}

package pool

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/target"
)

// tokens are the credentials of workers with access control: each group has one, with which its workers get
// and report on the requests of this group and nothing else. It is in the memory of this process only, and
// ends with the group, so there is nothing to renew: workers that are started for the group later get another
// one.
type tokens struct {
	mu      sync.Mutex
	byGroup map[groupID]string
	known   map[[sha256.Size]byte]*access.Principal
}

type groupID struct{ pool, group string }

// workerSource is the Principal.Source of workers with such a token.
const workerSource = "worker"

// workerPrefix begins the tokens of workers.
const workerPrefix = "rw_"

func newTokens() *tokens {
	return &tokens{byGroup: map[groupID]string{}, known: map[[sha256.Size]byte]*access.Principal{}}
}

// tokenOf returns the token of a group.
func (t *tokens) tokenOf(of, group string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := groupID{of, group}
	if text, ok := t.byGroup[id]; ok {
		return text
	}
	text := workerPrefix + rand.Text()
	namespace, key := pool.SplitGroup(group)
	if namespace == "" {
		namespace = "*"
	}
	t.byGroup[id] = text
	t.known[sha256.Sum256([]byte(text))] = access.Revocable(access.Principal{ID: "worker:" + target.Channel(of, group),
		Name:   "a worker of the pool " + of,
		Source: workerSource, Grants: []access.Grant{{Role: "worker",
			Scope: access.Scope{Namespaces: []string{namespace}, Targets: []string{target.Of(of, key)}}}}})
	return text
}

// endToken ends the token of a group, and the streams of those that have it.
func (t *tokens) endToken(of, group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := groupID{of, group}
	text, ok := t.byGroup[id]
	if !ok {
		return
	}
	sum := sha256.Sum256([]byte(text))
	t.known[sum].End()
	delete(t.known, sum)
	delete(t.byGroup, id)
}

// Authenticate implements access.Authenticator.
func (t *tokens) Authenticate(_ context.Context, c *access.Credentials) (*access.Principal, error) {
	if !strings.HasPrefix(c.Bearer, workerPrefix) {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.known[sha256.Sum256([]byte(c.Bearer))]
	if p == nil {
		return nil, access.Unauthenticated(access.ReasonUnknown,
			"the token of a worker is of a group that this node does not have: its workers get another one")
	}
	return p, nil
}

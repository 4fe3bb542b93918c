package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// NodeTokens are the credentials by which the nodes of a store read each other's status. A token is for one
// node and for a short time, so that a token that one node receives is of no use elsewhere, and may read
// only.
type NodeTokens struct {
	Node string // this one

	shared atomic.Pointer[[]byte] // the secret of the store's nodes; none, and nothing is taken
}

// UseSecret signs and verifies with a secret from now on; nil for none.
func (t *NodeTokens) UseSecret(secret []byte) { t.shared.Store(&secret) }

const (
	nodeTokenPrefix = "rn_"
	nodeTokenFor    = 2 * time.Minute // clocks of nodes differ by less
)

// NodeSource is the Principal.Source of the other nodes of a store.
const NodeSource = "node"

func (t *NodeTokens) sharedSecret() []byte {
	if p := t.shared.Load(); p != nil {
		return *p
	}
	return nil
}

// For returns a token for another node; empty without a secret.
func (t *NodeTokens) For(node string, now time.Time) string {
	secret := t.sharedSecret()
	if len(secret) == 0 {
		return ""
	}
	at := strconv.FormatInt(now.Unix(), 10)
	return nodeTokenPrefix + at + "_" + hex.EncodeToString(sumNode(secret, node, at))
}

func sumNode(secret []byte, node, at string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("rouse node\n" + at + "\n" + node))
	return h.Sum(nil)
}

// Authenticate implements Authenticator.
func (t *NodeTokens) Authenticate(_ context.Context, c *Credentials) (*Principal, error) {
	rest, ok := strings.CutPrefix(c.Bearer, nodeTokenPrefix)
	if !ok {
		return nil, nil
	}
	at, sum, _ := strings.Cut(rest, "_")
	given, err := hex.DecodeString(sum)
	secret := t.sharedSecret()
	seconds, _ := strconv.ParseInt(at, 10, 64) // a text that is no number was not signed
	switch {
	case err != nil:
		return nil, Unauthenticated(ReasonMalformed, "the token of a node has another form")
	case len(secret) == 0 || !hmac.Equal(given, sumNode(secret, t.Node, at)):
		return nil, Unauthenticated(ReasonUnknown, "the token of a node is of another store, or for another node")
	case time.Since(time.Unix(seconds, 0)).Abs() > nodeTokenFor:
		return nil, Unauthenticated(ReasonExpired, "the token of a node is more than %v old; compare the clocks of the nodes",
			nodeTokenFor)
	}
	return &Principal{ID: "node", Name: "another node", Source: NodeSource,
		Grants: []Grant{{Role: "reader", Scope: Everything()}}}, nil
}

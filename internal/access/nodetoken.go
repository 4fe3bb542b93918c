package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// NodeTokens are the credentials by which the nodes of a store read each other's status. A token is for one
// node and for a short time, so that what one node receives is of no use elsewhere, and may read only.
type NodeTokens struct {
	Secret []byte // that the nodes share through their store
	Node   string // this one
}

const (
	nodeTokenPrefix = "rn_"
	nodeTokenFor    = 2 * time.Minute // clocks of nodes differ by less
)

// NodeSource is the Principal.Source of the other nodes of a store.
const NodeSource = "node"

// For returns a token for another node.
func (t *NodeTokens) For(node string, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return nodeTokenPrefix + at + "_" + hex.EncodeToString(t.sum(node, at))
}

func (t *NodeTokens) sum(node, at string) []byte {
	h := hmac.New(sha256.New, t.Secret)
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
	seconds, _ := strconv.ParseInt(at, 10, 64) // what is none was not signed
	switch {
	case err != nil:
		return nil, Unauthenticated(ReasonMalformed, "the token of a node has another form")
	case !hmac.Equal(given, t.sum(t.Node, at)):
		return nil, Unauthenticated(ReasonUnknown, "the token of a node is of another store, or for another node")
	case time.Since(time.Unix(seconds, 0)).Abs() > nodeTokenFor:
		return nil, Unauthenticated(ReasonExpired, "the token of a node is more than %v old; compare the clocks of the nodes", nodeTokenFor)
	}
	return &Principal{ID: "node", Name: "another node", Source: NodeSource, Grants: []Grant{{Role: "reader", Scope: Everything()}}}, nil
}

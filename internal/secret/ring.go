// Package secret keeps secrets in the store that the nodes share: named secrets of namespaces, which headers
// of callbacks and the URLs of brokers refer to, and the keys that sign callbacks. They are notes of the
// store, sealed with AES-256-GCM under a key that is not in the store. A node has all of them in memory, and
// follows the changes of other nodes. Keys that only nodes use are derived from the same key, and are in no
// store.
//
//	keys of a file, variable or command ─► Ring ─┐
//	notes of the store ◄──────────────────────► Secrets ─► Value (headers, URLs), Signing (callbacks), Derived (sessions, nodes)
package secret

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rousehq/rouse/internal/access"
)

// keyPrefix begins the text form of a sealing key.
const keyPrefix = "rousekey_"

// NewKey returns a random sealing key in its text form.
func NewKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return keyPrefix + base64.StdEncoding.EncodeToString(key[:])
}

// Ring is a list of sealing keys: the newest seals, all of them open.
type Ring struct {
	newest string
	keys   map[string]sealingKey // by id
}

type sealingKey struct {
	cipher.AEAD
	bytes []byte // from which keys are derived
}

// ParseRing reads keys, one per line, the newest first; lines that begin with # are comments. Errors do not
// contain keys.
func ParseRing(text []byte) (*Ring, error) {
	r := &Ring{keys: map[string]sealingKey{}}
	for n, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		body, ok := strings.CutPrefix(string(line), keyPrefix)
		key, err := base64.StdEncoding.DecodeString(body)
		if !ok || err != nil || len(key) != 32 {
			return nil,
				fmt.Errorf(
					"line %d is no sealing key: a key is %q and the base64 form of 32 bytes, as rouse secret new-key prints it",
					n+1, keyPrefix)
		}
		id := keyID(key)
		if len(r.keys) == 0 {
			r.newest = id
		}
		r.keys[id] = sealingKey{access.NewSeal(key), key}
	}
	if len(r.keys) == 0 {
		return nil, errors.New("there is no sealing key: put one on a line of its own, as rouse secret new-key prints it")
	}
	return r, nil
}

// keyID names a key without telling anything of it.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("rouse sealing key id\x00"), key...))
	return hex.EncodeToString(sum[:4])
}

// box is a sealed value. Without a key it is the value itself: a store that nodes share has signing keys
// before its operator gives the nodes a sealing key.
type box struct {
	Key  string `json:"key,omitempty"` // id
	Data []byte `json:"data"`
}

// sealValue seals a value for a place, the name of its note: a box that is moved to another note of the store
// does not open there. A nil ring seals nothing. The nonces are random, of 96 bits: a key may seal 2^32
// values, which no store of secrets comes near.
func (r *Ring) sealValue(place string, value []byte) box {
	if r == nil {
		return box{Data: value}
	}
	return box{Key: r.newest, Data: r.keys[r.newest].Seal(nil, nil, value, []byte(place))}
}

// openBox returns the content of a box.
func (r *Ring) openBox(place string, b box) ([]byte, error) {
	if b.Key == "" {
		return b.Data, nil
	}
	if r == nil {
		return nil, fmt.Errorf("it is sealed with the key %s, and this node has no sealing key: set secret-keys", b.Key)
	}
	key, ok := r.keys[b.Key]
	if !ok {
		return nil,
			fmt.Errorf("it is sealed with the key %s, which this node does not have: add it to the keys of secret-keys", b.Key)
	}
	value, err := key.Open(nil, nil, b.Data, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("it is damaged, or was sealed for another place: the key %s does not open it", b.Key)
	}
	return value, nil
}

// isStale reports whether a box is to be sealed again: it is not sealed, or by an older key. A key that the
// ring does not have is a newer one, which this node has not received yet.
func (r *Ring) isStale(b box) bool {
	return r != nil && b.Key != r.newest && (b.Key == "" || r.hasKey(b.Key))
}

func (r *Ring) hasKey(id string) bool {
	_, ok := r.keys[id]
	return ok
}

// equalsRing reports whether two rings have the same keys and seal with the same one.
func (r *Ring) equalsRing(other *Ring) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.newest == other.newest && slices.Equal(slices.Sorted(maps.Keys(r.keys)), slices.Sorted(maps.Keys(other.keys)))
}

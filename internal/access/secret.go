package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"time"
)

// A key is "rk_ID_SECRET": ID is 12 characters of idDigits, SECRET 32 random bytes in base64url. The store
// has the SHA-256 of the secret, which cannot be guessed, so that a slow hash would add cost and no safety.
const (
	keyPrefix = "rk_"
	idLength  = 12
	idDigits  = "0123456789abcdefghjkmnpqrstvwxyz"
	secretLen = 43 // of 32 bytes in base64url
	keyLength = len(keyPrefix) + idLength + 1 + secretLen
)

// newID returns the id of a new key.
func newID() string {
	var b [idLength]byte
	_, _ = rand.Read(b[:]) // it never fails
	for i := range b {
		b[i] = idDigits[b[i]%32]
	}
	return string(b[:])
}

// newSecret returns the text of a key with a new secret, and the secret's hash.
func newSecret(id string) (text string, hash []byte) {
	var b [32]byte
	_, _ = rand.Read(b[:])
	secret := base64.RawURLEncoding.EncodeToString(b[:])
	return keyPrefix + id + "_" + secret, hashSecret(secret)
}

func hashSecret(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

// IsKey reports whether a bearer token has the form of a key.
func IsKey(bearer string) bool { return strings.HasPrefix(bearer, keyPrefix) }

// splitKey returns the parts of a key; ok is false for a text that no key has.
func splitKey(text string) (id, secret string, ok bool) {
	if len(text) != keyLength || !IsKey(text) || text[len(keyPrefix)+idLength] != '_' {
		return "", "", false
	}
	id, secret = text[len(keyPrefix):len(keyPrefix)+idLength], text[len(text)-secretLen:]
	return id, secret, strings.Trim(id, idDigits) == ""
}

// Secret is one of the secrets of a key, as it is stored.
type Secret struct {
	Hash    []byte    `json:"hash"` // SHA-256
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

// findValidSecret returns the secret that a hash is of, unless it has expired. All are compared, in constant
// time each.
func findValidSecret(secrets []Secret, hash []byte, now time.Time) (found *Secret, expired bool) {
	for i := range secrets {
		if s := &secrets[i]; subtle.ConstantTimeCompare(s.Hash, hash) == 1 {
			found = s
		}
	}
	if found != nil && !found.Expires.IsZero() && !now.Before(found.Expires) {
		return nil, true
	}
	return found, false
}

package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Tolerance is the maximum difference between a signature's time and the verifier's, in the past or the
// future.
const Tolerance = 5 * time.Minute

// Prefixes of keys in their text form.
const (
	secretPrefix = "whsec_"
	publicPrefix = "whpk_"
)

// Errors of Verify.
var (
	ErrUnsigned  = errors.New("the request is not signed: a webhook- header is missing")
	ErrTimestamp = errors.New("the signature is too old or too new")
	ErrSignature = errors.New("no signature matches")
)

// Errors of keys do not contain them.
var (
	errSecret = errors.New(`a signing secret is "whsec_" and the base64 form of 24 to 64 bytes`)
	errPublic = errors.New(`a public key is "whpk_" and the base64 form of 32 bytes`)
)

// NewSecret returns a random signing secret.
func NewSecret() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return SecretText(key[:])
}

// SecretText returns the text form of a key for HMAC.
func SecretText(key []byte) string { return secretPrefix + base64.StdEncoding.EncodeToString(key) }

// PublicText returns the text form of a public key.
func PublicText(key ed25519.PublicKey) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(key)
}

// CheckSecret refuses an invalid signing secret; the error does not contain it.
func CheckSecret(secret string) error {
	_, err := SecretKey(secret)
	return err
}

// SecretKey returns the key of a secret for HMAC; its error does not contain the secret.
func SecretKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, errSecret
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errSecret
	}
	return key, nil
}

// Sign returns the signature of Standard Webhooks, "v1,…", for a message with the given id and body, sent
// at a Unix time.
func Sign(secret, id string, timestamp int64, body []byte) (string, error) {
	s, err := ParseSigning(secret)
	if err != nil {
		return "", err
	}
	return string(s.keys[0].appendSignature(nil, appendMessage(nil, id, timestamp), body)), nil
}

// appendMessage appends the signed text before the body: id and timestamp, each with a dot.
func appendMessage(dst []byte, id string, timestamp int64) []byte {
	dst = append(append(dst, id...), '.')
	return append(strconv.AppendInt(dst, timestamp, 10), '.')
}

// verifier checks the signatures of one key.
type verifier struct {
	signer
	public ed25519.PublicKey // nil: of signatures v1
}

// verifierOf reads a key: a secret (NewSecret) or a public key (PublicText).
func verifierOf(key string) (v verifier, err error) {
	if text, ok := strings.CutPrefix(key, publicPrefix); ok {
		if v.public, err = base64.StdEncoding.DecodeString(text); err != nil || len(v.public) != ed25519.PublicKeySize {
			return v, errPublic
		}
		return v, nil
	}
	s, err := ParseSigning(key)
	if err != nil {
		return v, err
	}
	v.signer = s.keys[0]
	return v, nil
}

// findSignature returns the signature over a and b together in a list of signatures with spaces between;
// empty if there is none.
func (v *verifier) findSignature(list string, a, b []byte) string {
	if v.public == nil {
		want := v.appendSignature(nil, a, b)
		for one := range strings.SplitSeq(list, " ") {
			if hmac.Equal([]byte(one), want) {
				return one
			}
		}
		return ""
	}
	message := slices.Concat(a, b)
	tried := 0
	for one := range strings.SplitSeq(list, " ") {
		text, ok := strings.CutPrefix(one, "v1a,")
		if !ok {
			continue
		}
		if tried++; tried > maxPublic {
			return ""
		}
		if sum, err := base64.StdEncoding.DecodeString(text); err == nil && ed25519.Verify(v.public, message, sum) {
			return one
		}
	}
	return ""
}

// maxPublic bounds how many signatures of a request are compared with a public key, which takes time.
const maxPublic = 16

// Verify checks that a request was signed with one of the keys, at most Tolerance from now: secrets, whsec_…,
// verify signatures v1, and public keys, whpk_…, signatures v1a. The body has to be unchanged, byte for byte.
//
// The headers Rouse-… and Ce-… are not covered by these signatures: read a fire's identity from
// VerifyIdentity, or from the body.
func Verify(keys []string, header http.Header, body []byte, now time.Time) error {
	return verifyKeys(keys, header, body, now, func(*verifier, string) bool { return true })
}

// VerifyIdentity is Verify, and returns the identity of the fire after checking that the same key has signed
// it. A batch has none: its fires are in its body.
func VerifyIdentity(keys []string, header http.Header, body []byte, now time.Time) (Identity, error) {
	content, id, err := identityOf(header.Get)
	if err != nil {
		return Identity{}, err
	}
	list := header.Get(HeaderIdentity)
	if list == "" {
		return Identity{}, ErrUnsigned
	}
	if err := verifyKeys(keys, header, body, now, func(v *verifier,
		over string) bool {
		return v.findSignature(list, content, []byte(over)) != ""
	}); err != nil {
		return Identity{}, err
	}
	if id.FireID != header.Get(HeaderID) {
		return Identity{}, ErrSignature
	}
	return id, nil
}

// verifyKeys looks for a key that has signed the body, and with whose signature over the body more agrees.
func verifyKeys(keys []string, header http.Header, body []byte, now time.Time,
	more func(v *verifier, signature string) bool) error {
	id, stamp, given := header.Get(HeaderID), header.Get(HeaderTimestamp), header.Get(HeaderSignature)
	if id == "" || stamp == "" || given == "" {
		return ErrUnsigned
	}
	timestamp, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %.32q is no Unix time", ErrTimestamp, stamp)
	}
	if t := time.Unix(timestamp, 0); t.Before(now.Add(-Tolerance)) || t.After(now.Add(Tolerance)) {
		return fmt.Errorf("%w: made at %d, now is %d", ErrTimestamp, timestamp, now.Unix())
	}
	for _, key := range keys {
		v, err := verifierOf(key)
		if err != nil {
			return err
		}
		if one := v.findSignature(given, appendMessage(nil, id, timestamp), body); one != "" && more(&v, one) {
			return nil
		}
	}
	return ErrSignature
}

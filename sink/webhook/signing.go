package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
)

// Key is a key that signs: HMAC for signatures v1, Private for signatures v1a. A key may have one of them, or
// both.
type Key struct {
	HMAC    []byte
	Private ed25519.PrivateKey
}

// Signing signs requests with all keys of a namespace. It is made once and used for many requests, also
// concurrently.
type Signing struct{ keys []signer }

// signer makes one signature.
type signer struct {
	macs    *sync.Pool // of *mac, a used one needs half the time of a new one; nil: ed25519 signs
	private ed25519.PrivateKey
}

type mac struct {
	hash.Hash
	sum []byte
}

// NewSigning returns a signer with keys, the newest first: the v1 signatures of all come before the v1a
// signatures.
func NewSigning(keys ...Key) *Signing {
	s := &Signing{}
	for _, k := range keys {
		if k.HMAC != nil {
			s.keys = append(s.keys,
				signer{macs: &sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, k.HMAC)} }}})
		}
	}
	for _, k := range keys {
		if k.Private != nil {
			s.keys = append(s.keys, signer{private: k.Private})
		}
	}
	return s
}

// ParseSigning is NewSigning with secrets in their text form (NewSecret).
func ParseSigning(secrets ...string) (*Signing, error) {
	keys := make([]Key, len(secrets))
	for i, secret := range secrets {
		key, err := SecretKey(secret)
		if err != nil {
			return nil, err
		}
		keys[i].HMAC = key
	}
	return NewSigning(keys...), nil
}

// appendSignature appends the signature over a and b together: "v1," or "v1a,", and its base64 form.
func (k *signer) appendSignature(dst, a, b []byte) []byte {
	if k.macs == nil {
		return base64.StdEncoding.AppendEncode(append(dst, "v1a,"...), ed25519.Sign(k.private, slices.Concat(a, b)))
	}
	m := k.macs.Get().(*mac) //nolint:errcheck // the pool has nothing else
	m.Reset()
	m.Write(a)
	m.Write(b)
	m.sum = m.Sum(m.sum[:0])
	dst = base64.StdEncoding.AppendEncode(append(dst, "v1,"...), m.sum)
	k.macs.Put(m)
	return dst
}

// appendSignatures appends the headers of the signatures to the head of a request: those of Standard Webhooks
// over message and body and, with an identity, those over it. Each signature over the identity covers the
// same key's signature over the body.
func (s *Signing) appendSignatures(head, message, body, identity []byte) []byte {
	head = append(append(head, HeaderSignature...), ':')
	begin := len(head)
	for i := range s.keys {
		head = s.keys[i].appendSignature(append(head, ' '), message, body)
	}
	if identity == nil {
		return append(head, "\r\n"...)
	}
	signatures := head[begin:] // each after a space
	head = append(append(append(head, "\r\n"...), HeaderIdentity...), ':')
	for i := range s.keys {
		end := 1
		for end < len(signatures) && signatures[end] != ' ' {
			end++
		}
		head = s.keys[i].appendSignature(append(head, ' '), identity, signatures[1:end])
		signatures = signatures[end:]
	}
	return append(head, "\r\n"...)
}

// HeaderIdentity has the signatures over the identity of a fire, in the order of the signatures in
// HeaderSignature.
const HeaderIdentity = "Rouse-Signature"

// Identity has the data about its fire in the headers Rouse-… of a request.
type Identity struct {
	Namespace  string
	Timer      string // its name
	FireID     string
	Due        rouse.Instant
	Attempt    uint32
	Token      uint64
	Generation uint64
	Manual     bool // a client requested the fire
	Last       bool // no attempt follows
}

// identityHeaders are the headers of an identity, in the order in which they are signed.
var identityHeaders = [...]string{"Rouse-Namespace", "Rouse-Timer", "Rouse-Fire-Id", "Rouse-Due", "Rouse-Attempt",
	"Rouse-Token", "Rouse-Generation",
	"Rouse-Manual", "Rouse-Last"}

// appendIdentity appends the signed text of an identity: the values of its headers as they are sent, each
// with a line end, after a line that no other message begins with.
func appendIdentity(dst []byte, f *rouse.Fire, name, due string) []byte {
	dst = append(dst, identityStart...)
	for _, text := range [...]string{f.Namespace, name, f.ID, due} {
		dst = append(append(dst, text...), '\n')
	}
	for _, n := range [...]uint64{uint64(f.Attempt), f.Token, f.Generation} {
		dst = append(strconv.AppendUint(dst, n, 10), '\n')
	}
	dst = append(strconv.AppendBool(dst, f.Manual), '\n')
	return append(strconv.AppendBool(dst, f.Last), '\n')
}

const identityStart = "rouse-identity-v1\n"

// identityOf returns the identity in the headers of a request, and its signed text.
func identityOf(get func(string) string) (content []byte, id Identity, err error) {
	content = append(content, identityStart...)
	for _, name := range identityHeaders {
		v := get(name)
		if v == "" || strings.Contains(v, "\n") {
			return nil, id, ErrUnsigned
		}
		content = append(append(content, v...), '\n')
	}
	id = Identity{Namespace: get("Rouse-Namespace"), FireID: get("Rouse-Fire-Id"), Manual: get("Rouse-Manual") == "true",
		Last: get("Rouse-Last") == "true"}
	attempt, err1 := strconv.ParseUint(get("Rouse-Attempt"), 10, 32)
	token, err2 := strconv.ParseUint(get("Rouse-Token"), 10, 64)
	generation, err3 := strconv.ParseUint(get("Rouse-Generation"), 10, 64)
	due, err4 := rouse.ParseInstant(get("Rouse-Due"))
	name, err5 := url.PathUnescape(get("Rouse-Timer"))
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			return nil, id, ErrSignature
		}
	}
	id.Attempt, id.Token, id.Generation, id.Due, id.Timer = uint32(attempt), token, generation, due, name
	return content, id, nil
}

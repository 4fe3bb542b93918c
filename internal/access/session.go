package access

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
)

// Bounds of sessions.
const (
	// SessionTime is how long a session of a browser lasts.
	SessionTime = 12 * time.Hour
	// MaxSessionCredential is the longest credential of a session, in bytes: browsers keep cookies of 4 KiB.
	MaxSessionCredential = 2 << 10
)

// Sessions turn the credential of a person who uses a browser, or that a person has signed in at an issuer,
// into a text that only the nodes of the store can read, for a cookie, and back. Nothing is kept for a
// session: any node opens it, and as its credential is authenticated for each request, it ends when the
// credential does. Only logins that were finished, and sessions that were ended, are kept until they would
// have ended by themselves (person.go). The key is not in the store: see UseKey.
type Sessions struct {
	people  *Kind
	control *Control
	log     *slog.Logger

	mu       sync.RWMutex
	key      []byte
	seal     cipher.AEAD                      // nil: there is no key
	since    time.Time                        // when the key was made: all sessions that began earlier have ended
	known    map[string]*person               // by the names of their notes
	requests map[string]map[*request]struct{} // under way, by the same names
}

// NewSessions adds the notes about people to the shared notes. Sessions need a key, by UseKey.
func NewSessions(shared *Shared, control *Control, log *slog.Logger) *Sessions {
	s := &Sessions{control: control, log: log, known: map[string]*person{}, requests: map[string]map[*request]struct{}{}}
	s.people = shared.Kind("people", s.takePerson)
	s.people.quiet = true
	return s
}

// UseKey seals sessions with a key of 32 bytes that all nodes of the store have, and that was made at a time;
// nil for none. Sessions that another key has sealed have ended, with their requests.
func (s *Sessions) UseKey(key []byte, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.key, key) {
		return
	}
	s.key, s.seal, s.since = key, nil, since
	if key != nil {
		s.seal = NewSeal(key)
	}
	for _, list := range s.requests {
		for r := range list {
			r.end(errEnded)
		}
	}
}

// NewSeal returns AES-GCM, with random nonces, of a key of 32 bytes.
func NewSeal(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // a key has 32 bytes
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return seal
}

// oldSessionKey is the note in which earlier versions had the key of sessions, in clear.
const oldSessionKey = "sessions/key"

// DropOldKey deletes the key of sessions that an earlier version has left in the store. Nothing uses it any
// more: nodes of that version make themselves another one.
func (s *Shared) DropOldKey(ctx context.Context) error {
	old, err := s.notes.Get(ctx, oldSessionKey)
	if err != nil || old[0].Revision == 0 {
		return rouse.Unavailable(err)
	}
	_, err = s.notes.Put(ctx, note.Delete(oldSessionKey, rouse.AnyRevision),
		note.Set("version/sessions", struct{}{}, rouse.AnyRevision))
	return rouse.Unavailable(err)
}

// sessionCipher returns the cipher that seals sessions; nil if there is no key.
func (s *Sessions) sessionCipher() cipher.AEAD {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.seal
}

// sealedSession is the content of a session's text.
type sealedSession struct {
	// of a session that a key or a token began: without issuer and claims, its subject is a hash of the
	// principal
	Login
	Key string `json:"key,omitempty"` // the key or the token; empty: a login began the session
}

// Begin returns the text of a session of a key or a token, which lasts until a time.
func (s *Sessions) Begin(credential string, by *Principal, until time.Time) (string, error) {
	if len(credential) > MaxSessionCredential {
		return "", rouse.Refuse("key", "", "is longer than what a browser keeps", "use an API key")
	}
	text, err := json.Marshal(&sealedSession{Login{Session: rand.Text(), Subject: personOf("", by.ID), Began: time.Now(),
		Expires: until}, credential})
	if err != nil {
		return "", err
	}
	return s.sealText(text, until, forSession)
}

// sealLogin returns the text of a session of a person who has signed in.
func (s *Sessions) sealLogin(l *Login) (string, error) {
	text, err := json.Marshal(&sealedSession{Login: *l})
	if err != nil {
		return "", err
	}
	if len(text) > MaxSessionCredential {
		return "", rouse.Refuse("claims", "", fmt.Sprintf("take %d bytes, more than a browser keeps", len(text)),
			"make the rules of this issuer match fewer values")
	}
	return s.sealText(text, l.Expires, forSession)
}

// The uses of sealed texts. A text for a login is worth nothing as a session.
var forSession, forLogin, forPage = []byte(nil), []byte("login"), []byte("page")

// Hide returns a text for a caller that is not to read it, and to bring it back.
func (s *Sessions) Hide(text string) (string, error) {
	return s.sealText([]byte(text), time.Now().Add(SessionTime), forPage)
}

// Hidden returns the text that Hide was called with; empty if the text is not from Hide, or has expired.
func (s *Sessions) Hidden(text string) string { return string(s.openSealed(text, time.Now(), forPage)) }

func (s *Sessions) sealAttempt(a *Attempt, until time.Time) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	return s.sealText(text, until, forLogin)
}

func (s *Sessions) openAttempt(text string, now time.Time) *Attempt {
	a := &Attempt{}
	if plain := s.openSealed(text, now, forLogin); plain == nil || json.Unmarshal(plain, a) != nil {
		return nil
	}
	return a
}

// sealText seals a text until a time.
func (s *Sessions) sealText(text []byte, until time.Time, use []byte) (string, error) {
	seal := s.sessionCipher()
	if seal == nil {
		return "",
			rouse.Unavailable(errors.New(
				"this node cannot make the key of sessions: give it the secret-keys of the other nodes, or renew it with rouse session rotate-key"))
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(seal.Seal(nil, nil, append(plain, text...), use)), nil
}

// openSealed returns the content that was sealed for a use; nil if the text is not from sealText, or has
// expired.
func (s *Sessions) openSealed(text string, now time.Time, use []byte) []byte {
	if s == nil || len(text) > 2*MaxSessionCredential {
		return nil
	}
	seal := s.sessionCipher()
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if seal == nil || err != nil {
		return nil
	}
	plain, err := seal.Open(nil, nil, sealed, use)
	if err != nil || now.Unix() >= int64(binary.BigEndian.Uint64(plain)) {
		return nil
	}
	return plain[8:]
}

// Show puts the credential of a session in its place; nothing, if the text is none, or the session is over.
func (s *Sessions) Show(text string, now time.Time, c *Credentials) {
	l := &sealedSession{}
	if plain := s.openSealed(text, now, forSession); plain == nil || json.Unmarshal(plain, l) != nil {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.known[l.personNote()].isLoginEnded(&l.Login) {
		return
	}
	c.Session, c.Bearer = &l.Login, l.Key
	if l.Key == "" {
		c.Login = &l.Login
	}
}

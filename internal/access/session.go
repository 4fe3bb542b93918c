package access

import (
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
// have ended by themselves (person.go).
type Sessions struct {
	kinds   struct{ key, people *Kind }
	control *Control
	log     *slog.Logger

	mu       sync.RWMutex
	seal     cipher.AEAD                      // nil: no node has opened a session yet
	people   map[string]*person               // by the names of their notes
	requests map[string]map[*request]struct{} // under way, by the same names
}

// sessionKey is the note of the key that seals sessions.
type sessionKey struct {
	Key []byte `json:"key"`
}

const sessionNote = "key"

// NewSessions adds the key of sessions to what is shared.
func NewSessions(shared *Shared, control *Control, log *slog.Logger) *Sessions {
	s := &Sessions{control: control, log: log, people: map[string]*person{}, requests: map[string]map[*request]struct{}{}}
	s.kinds.key = shared.Kind("sessions", s.take)
	s.kinds.people = shared.Kind("people", s.takePerson)
	s.kinds.key.quiet, s.kinds.people.quiet = true, true
	return s
}

// take uses the key of a note; without one all sessions have ended.
func (s *Sessions) take(n note.Note) {
	var key sessionKey
	var seal cipher.AEAD
	if n.Revision != 0 {
		err := n.Read(&key)
		if err == nil {
			seal, err = newSeal(key.Key)
		}
		if err != nil {
			s.log.Error("the key of the console's sessions cannot be read: all of them have ended", "err", err)
		}
	}
	s.mu.Lock()
	s.seal = seal
	s.mu.Unlock()
}

func newSeal(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// current returns what seals sessions; nil if there is no key yet.
func (s *Sessions) current() cipher.AEAD {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.seal
}

// Begin returns the text of a session of a key or a token, which lasts until a time.
func (s *Sessions) Begin(ctx context.Context, credential string, until time.Time) (string, error) {
	if len(credential) > MaxSessionCredential {
		return "", rouse.Refuse("key", "", "is longer than what a browser keeps", "use an API key")
	}
	return s.close(ctx, []byte(credential), until, forSession)
}

// beginLogin returns the text of a session of a person who has signed in. It begins with "{", as no other
// credential does.
func (s *Sessions) beginLogin(ctx context.Context, l *Login) (string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	if len(text) > MaxSessionCredential {
		return "", rouse.Refuse("claims", "", fmt.Sprintf("take %d bytes, more than a browser keeps", len(text)), "make the rules of this issuer match fewer values")
	}
	return s.close(ctx, text, l.Expires, forSession)
}

// What a sealed text is for. One for a login is worth nothing as a session.
var forSession, forLogin, forPage = []byte(nil), []byte("login"), []byte("page")

// Hide returns a text for a caller that is not to read it, and to bring it back.
func (s *Sessions) Hide(ctx context.Context, text string) (string, error) {
	return s.close(ctx, []byte(text), time.Now().Add(SessionTime), forPage)
}

// Hidden returns what was hidden; empty if it was not, or long ago.
func (s *Sessions) Hidden(text string) string { return string(s.open(text, time.Now(), forPage)) }

func (s *Sessions) sealAttempt(ctx context.Context, a *Attempt, until time.Time) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	return s.close(ctx, text, until, forLogin)
}

func (s *Sessions) openAttempt(text string, now time.Time) *Attempt {
	a := &Attempt{}
	if plain := s.open(text, now, forLogin); plain == nil || json.Unmarshal(plain, a) != nil {
		return nil
	}
	return a
}

// close seals a text until a time. The first one of a store makes the key.
func (s *Sessions) close(ctx context.Context, text []byte, until time.Time, use []byte) (string, error) {
	if s.current() == nil {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // does not fail
		err := s.kinds.key.Write(ctx, Change{sessionNote, sessionKey{key}, rouse.NoRow})
		if err != nil && !errors.Is(err, rouse.ErrConflict) { // with a conflict another node was first, and its key was taken
			return "", err
		}
	}
	seal := s.current()
	if seal == nil {
		return "", rouse.Unavailable(errors.New("the key of sessions cannot be read"))
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(seal.Seal(nil, nil, append(plain, text...), use)), nil
}

// open returns what was sealed for a use; nil if the text is none of it, or its time is over.
func (s *Sessions) open(text string, now time.Time, use []byte) []byte {
	if s == nil || len(text) > 2*MaxSessionCredential {
		return nil
	}
	seal := s.current()
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
	plain := s.open(text, now, forSession)
	if len(plain) == 0 || plain[0] != '{' {
		c.Bearer = string(plain)
		return
	}
	l := &Login{}
	if json.Unmarshal(plain, l) != nil {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.people[l.person()].ended(l) {
		c.Login = l
	}
}

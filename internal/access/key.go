package access

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Key is an API key without its secrets.
type Key struct {
	ID      string // is in the text of the key, and can be shown
	Name    string // for people
	Grants  []Grant
	Created time.Time
	Creator string    // id of the principal that created it
	Expires time.Time // the zero Time is never
	Secrets []Secret  // that are valid: one, or two while a rotation goes on
	Used    time.Time // when it was used last, to a minute; the zero Time is never
}

// Bounds of keys.
const (
	MaxKeys    = 20_000
	maxKeyName = 128
	maxSecrets = 2 // of a key at a time: rotation needs no more
	// DefaultOverlap is how long the old secret of a key is valid after a rotation, MaxOverlap how long it
	// can be.
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 90 * 24 * time.Hour
	// usedEvery is how often the last use of a key is stored.
	usedEvery = time.Minute
)

// stored is the note of a key.
type stored struct {
	Name    string    `json:"name"`
	Grants  []Grant   `json:"grants"`
	Created time.Time `json:"created"`
	Creator string    `json:"creator,omitempty"`
	Tenant  string    `json:"tenant,omitempty"` // if it is another than that of its grants
	Expires time.Time `json:"expires,omitzero"`
	Secrets []Secret  `json:"secrets"`         // newest first
	Asked   Tag       `json:"asked,omitempty"` // of the request that gave it its newest secret
}

// checkKey refuses a key that cannot be created.
func (k *Key) checkKey(now time.Time, hasRole func(string) bool) error {
	if k.Name == "" {
		return rouse.Refuse("name", "", "is missing", "say what the key is for, such as ci")
	}
	if err := rouse.CheckText("name", k.Name, maxKeyName); err != nil || strings.ContainsAny(k.Name, "\r\n\t") {
		return rouse.Refuse("name", k.Name, "is not printable text",
			fmt.Sprintf("use at most %d bytes in one line", maxKeyName))
	}
	if !k.Expires.IsZero() && !now.Before(k.Expires) {
		return rouse.Refuse("expires", k.Expires.UTC().Format(time.RFC3339), "has passed", "give a later time, or none")
	}
	return CheckGrants(k.Grants, hasRole)
}

// CheckGrants refuses grants that mean nothing.
func CheckGrants(grants []Grant, hasRole func(string) bool) error {
	if len(grants) == 0 {
		return rouse.Refuse("grants", "", "is missing", "give at least one role with a scope")
	}
	if len(grants) > MaxGrants {
		return rouse.Refuse("grants", strconv.Itoa(len(grants)), "are too many", fmt.Sprintf("give at most %d", MaxGrants))
	}
	for i := range grants {
		g := &grants[i]
		field := fmt.Sprintf("grants[%d]", i)
		if !hasRole(g.Role) {
			return rouse.Refuse(field+".role", g.Role, "is no role", "list them with rouse role list, or create it first")
		}
		if err := g.Scope.Check(); err != nil {
			return rouse.Under(field, err)
		}
	}
	return nil
}

package actor

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/state"
)

// Kinds of notes.
const (
	hostNote  = "actor||host||"
	liveNote  = "actor||live||"
	placeNote = "actor||place||"
	movesNote = "actor||moves||"
)

// patience bounds one call to the store.
const patience = 5 * time.Second

// hostBody is the note of a host.
type hostBody struct {
	App     string   `json:"app"`
	Address string   `json:"address"`
	Types   []string `json:"types"`

	At rouse.Instant `json:"at"` // when it was registered
}

// liveBody is the note that contains until when a host is ON.
type liveBody struct {
	App     string        `json:"app"`
	Address string        `json:"address"`
	Until   rouse.Instant `json:"until"`
	Life    string        `json:"life"`
}

// placeBody is the note that contains the host of an actor.
type placeBody struct {
	Actor   string `json:"actor"`
	Address string `json:"address"`
	Life    string `json:"life"` // of the host
}

// neither contains a space
func (k hostKey) noteName(kind string) string { return shortenNoteName(kind + k.app + " " + k.address) }

// actorName identifies an actor across apps: an app contains no space, and a type no "||".
func actorName(app string, a *reminderv1.Actor) string {
	return app + " " + a.GetActorType() + "||" + a.GetActorId()
}

// shortenNoteName returns the name, hashed if it is too long for a timer's name.
func shortenNoteName(name string) string {
	const most = rouse.MaxName - len(state.Prefix)
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:most-2*len(sum)-1], "") + "#" + hex.EncodeToString(sum[:])
}

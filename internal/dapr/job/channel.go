package job

import (
	"strings"

	"github.com/rousehq/rouse"
)

// Scheme is the prefix of job targets: "dapr:job/APP" and "dapr:actor/TYPE".
const Scheme = "dapr:"

// Channel identifies where triggers meet the streams that watch for them: an app or an actor type in a Dapr
// namespace.
type Channel struct {
	Namespace string
	Actor     bool
	Owner     string // the app, or the actor type
}

// Target returns the target of timers in the channel.
func (c Channel) Target() string {
	return Scheme + Ref{Actor: c.Actor}.refKind() + "/" + escapeChars(c.Owner)
}

// Channel returns the channel of the ref's triggers.
func (r Ref) Channel() Channel { return Channel{r.Namespace, r.Actor, r.ownerName()} }

// CheckTarget refuses a target that is not the target of a channel.
func CheckTarget(target string) error {
	kind, owner, ok := strings.Cut(strings.TrimPrefix(target, Scheme), "/")
	if !ok || !strings.HasPrefix(target, Scheme) || kind != "job" && kind != "actor" || strings.Contains(owner, "/") {
		return rouse.Refuse("target", target, "is no target of Dapr's", `give "dapr:job/APP" or "dapr:actor/TYPE"`)
	}
	return nil
}

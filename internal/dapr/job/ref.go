package job

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// Ref identifies a job or, with parts of it only, a set of jobs. Equal refs identify the same jobs.
//
// An actor's reminders belong to the actor, whatever app asks for them: then App is empty. Parts are any text
// without / \ # ? and control characters, as in the protocol. The timer's name joins them with slashes, so
// that no two refs have the same name:
//
//	job/APP/NAME
//	actor/TYPE/ID/NAME
type Ref struct {
	Namespace string
	Actor     bool
	App       string // of a job
	Type, ID  string // of an actor
	Name      string
}

// Bounds of names. MaxKey bounds the joined parts, as in the protocol's first server.
const (
	MaxKey    = 512
	separator = "||"
	forbidden = `/\#?`
)

// Of returns the ref of a name and its metadata, as in ScheduleJob, GetJob and DeleteJob.
func Of(name string, m *schedulerv1.JobMetadata) (Ref, error) {
	r, err := Within(m)
	if err != nil {
		return r, err
	}
	r.Name = name
	return r, r.checkRef("name", name)
}

// Within returns the ref of all jobs that metadata describe: without a name, and possibly without an actor
// id.
func Within(m *schedulerv1.JobMetadata) (r Ref, err error) {
	switch {
	case m == nil:
		return r, rouse.Refuse("metadata", "", "is missing", "say whose job it is, with namespace, app_id and target")
	case m.Namespace == "":
		return r, rouse.Refuse("metadata.namespace", "", "is missing", "give the namespace of the app")
	case m.AppId == "":
		return r, rouse.Refuse("metadata.app_id", "", "is missing", "give the id of the app that asks")
	}
	r.Namespace = m.Namespace
	switch t := m.GetTarget().GetType().(type) {
	case *schedulerv1.JobTargetMetadata_Job:
		r.App = m.AppId
	case *schedulerv1.JobTargetMetadata_Actor:
		r.Actor, r.Type, r.ID = true, t.Actor.GetType(), t.Actor.GetId()
	default:
		return r, rouse.Refuse("metadata.target", "", "is missing, so this is an unknown job type",
			"give job, or actor with its type and id")
	}
	return r, r.checkRef("metadata", strings.Join(r.nameParts(), separator))
}

func (r Ref) refKind() string {
	if r.Actor {
		return "actor"
	}
	return "job"
}

// nameParts are the parts of the name except the namespace and the kind.
func (r Ref) nameParts() []string {
	if r.Actor {
		return []string{r.Type, r.ID, r.Name}
	}
	return []string{r.App, r.Name}
}

// checkRef refuses characters that the protocol does not allow, and keys that are too long.
func (r Ref) checkRef(field, value string) error {
	parts := append([]string{"app", r.Namespace}, r.nameParts()...)
	if r.Actor {
		parts[0] = "actorreminder"
	}
	key := (len(parts) - 1) * len(separator)
	for _, p := range parts {
		key += len(p)
		if at := strings.IndexFunc(p, isForbidden); at >= 0 {
			c, _ := utf8.DecodeRuneInString(p[at:])
			wrong := fmt.Sprintf("contains %q", c)
			if unicode.IsControl(c) {
				wrong = fmt.Sprintf("contains the control character %U", c)
			}
			return rouse.Refuse(field, value, wrong, `use no / \ # ? and no control characters`)
		}
	}
	if key > MaxKey {
		return rouse.Refuse(field, value, fmt.Sprintf("makes a key of %d bytes, with its namespace and whose it is", key),
			fmt.Sprintf("use at most %d in all", MaxKey))
	}
	return nil
}

func isForbidden(c rune) bool { return strings.ContainsRune(forbidden, c) || unicode.IsControl(c) }

// Key returns the key of the job's timer.
func (r Ref) Key() rouse.Key {
	return rouse.Key{Namespace: Namespace(r.Namespace), Name: r.timerName()}
}

// Target returns the target of the job's triggers: the app, or the actor type.
func (r Ref) Target() string { return Channel{r.Namespace, r.Actor, r.ownerName()}.Target() }

func (r Ref) ownerName() string {
	if r.Actor {
		return r.Type
	}
	return r.App
}

// prefix of the namespaces of jobs. If the rest cannot be part of a rouse namespace, it is hashed.
const (
	plain  = "dapr."
	hashed = "dapr_"
)

// Namespace returns the rouse namespace of the jobs in a Dapr namespace.
func Namespace(dapr string) string {
	if ns := plain + dapr; dapr != "" && rouse.CheckNamespace(ns) == nil {
		return ns
	}
	return hashed + strings.ToLower(hashText(dapr))
}

// hashText returns a hash of a text as 52 letters and digits.
func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
}

// A name that is longer than a timer's may be is cut and continued with a mark that no other name has and the
// digest of all of it. A prefix to scan for is cut a little shorter, so that it is a prefix of such names
// too.
const (
	cutMark  = `\~`
	cutAt    = rouse.MaxName - len(cutMark) - 52
	scanMost = cutAt - utf8.UTFMax
)

// timerName returns the name of the job's timer.
func (r Ref) timerName() string {
	full := r.refKind()
	for _, p := range r.nameParts() {
		full += "/" + escapePart(p)
	}
	if len(full) <= rouse.MaxName {
		return full
	}
	return cutAtRune(full, cutAt) + cutMark + hashText(full)
}

// cutAtRune returns at most n bytes of a text, without splitting characters.
func cutAtRune(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// escapeChars writes characters that a part may have but a timer's name may not as \ and two digits per byte.
func escapeChars(part string) string {
	if strings.IndexFunc(part, needsEscape) < 0 {
		return part
	}
	var b strings.Builder
	for _, c := range part {
		if !needsEscape(c) {
			b.WriteRune(c)
			continue
		}
		for _, x := range []byte(string(c)) {
			fmt.Fprintf(&b, `\%02X`, x)
		}
	}
	return b.String()
}

// needsEscape reports whether a character may not be in a timer's name, or would depend there on the one
// before it. Each is escaped independently, so that the escaped prefix of a part is a prefix of the escaped
// part.
func needsEscape(c rune) bool {
	if c < utf8.RuneSelf {
		return c == ' '
	}
	return unicode.IsSpace(c) || rouse.CheckName("x"+string(c)+"x") != nil ||
		!norm.NFC.PropertiesString(string(c)).BoundaryBefore()
}

// isDotPart reports whether a part would be lost in paths; no timer's name has such a part.
func isDotPart(part string) bool { return part == "." || part == ".." }

// escapePart escapes a complete part.
func escapePart(part string) string {
	if isDotPart(part) {
		return strings.ReplaceAll(part, ".", `\2E`)
	}
	return escapeChars(part)
}

// escapePrefix escapes the prefix of a part. The parts "." and ".." do not begin with a dot when they are
// escaped.
func escapePrefix(prefix string) string {
	if isDotPart(prefix) {
		return ""
	}
	return escapeChars(prefix)
}

// Match selects which jobs a ref without a name identifies.
type Match uint8

const (
	All     Match = iota // of the app; of the actor, or of the type if there is no id
	Begins               // those whose name has the ref's name as a prefix
	Similar              // those whose app or actor id has the ref's as a prefix
)

// Scan returns the common prefix of the timer names of all matching jobs. Other jobs may have it too: see
// Meant.
func (r Ref) Scan(m Match) string {
	p := r.refKind() + "/"
	if !r.Actor && m == Similar {
		return cutAtRune(p+escapePrefix(r.ownerName()), scanMost)
	}
	p += escapePart(r.ownerName()) + "/"
	switch {
	case r.Actor && r.ID == "":
		return cutAtRune(p, scanMost)
	case r.Actor && m == Similar:
		return cutAtRune(p+escapePrefix(r.ID), scanMost)
	case r.Actor:
		p += escapePart(r.ID) + "/"
	}
	if m == Begins {
		p += escapePrefix(r.Name)
	}
	return cutAtRune(p, scanMost)
}

// Meant reports whether a job matches.
func (r Ref) Meant(m Match, o Ref) bool {
	if o.Namespace != r.Namespace || o.Actor != r.Actor {
		return false
	}
	if !r.Actor {
		switch m {
		case Similar:
			return strings.HasPrefix(o.App, r.App)
		case Begins:
			return o.App == r.App && strings.HasPrefix(o.Name, r.Name)
		}
		return o.App == r.App
	}
	id := r.ID == "" || o.ID == r.ID
	if m == Similar {
		id = strings.HasPrefix(o.ID, r.ID)
	}
	return o.Type == r.Type && id && (m != Begins || strings.HasPrefix(o.Name, r.Name))
}

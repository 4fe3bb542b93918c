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

// Ref says which job is meant, or with a part of it, which jobs. Two refs are equal if they mean the same.
//
// An actor's reminders belong to the actor, whatever app asks for them: then App is empty. Parts are any text without / \ # ? and
// control characters, which is the rule of the protocol. A timer's name is made of them with slashes between, so that no two refs
// have one name:
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

// Bounds of names. MaxKey counts the parts as the protocol's first server joined them.
const (
	MaxKey    = 512
	separator = "||"
	forbidden = `/\#?`
)

// Of returns the ref of a name and its metadata, as ScheduleJob, GetJob and DeleteJob have it.
func Of(name string, m *schedulerv1.JobMetadata) (Ref, error) {
	r, err := Within(m)
	if err != nil {
		return r, err
	}
	r.Name = name
	return r, r.check("name", name)
}

// Within returns the ref of everything that metadata mean: a ref without a name, and perhaps without an actor's id.
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
		return r, rouse.Refuse("metadata.target", "", "is missing, so this is an unknown job type", "give job, or actor with its type and id")
	}
	return r, r.check("metadata", strings.Join(r.parts(), separator))
}

func (r Ref) kind() string {
	if r.Actor {
		return "actor"
	}
	return "job"
}

// parts are what the name is made of, but for the namespace and the kind.
func (r Ref) parts() []string {
	if r.Actor {
		return []string{r.Type, r.ID, r.Name}
	}
	return []string{r.App, r.Name}
}

// check refuses what the protocol refuses: characters, and a key that is too long in all.
func (r Ref) check(field, value string) error {
	parts := append([]string{"app", r.Namespace}, r.parts()...)
	if r.Actor {
		parts[0] = "actorreminder"
	}
	key := (len(parts) - 1) * len(separator)
	for _, p := range parts {
		key += len(p)
		if at := strings.IndexFunc(p, refused); at >= 0 {
			c, _ := utf8.DecodeRuneInString(p[at:])
			wrong := fmt.Sprintf("contains %q", c)
			if unicode.IsControl(c) {
				wrong = fmt.Sprintf("contains the control character %U", c)
			}
			return rouse.Refuse(field, value, wrong, `use no / \ # ? and no control characters`)
		}
	}
	if key > MaxKey {
		return rouse.Refuse(field, value, fmt.Sprintf("makes a key of %d bytes, with its namespace and whose it is", key), fmt.Sprintf("use at most %d in all", MaxKey))
	}
	return nil
}

func refused(c rune) bool { return strings.ContainsRune(forbidden, c) || unicode.IsControl(c) }

// Key returns the key of the job's timer.
func (r Ref) Key() rouse.Key { return rouse.Key{Namespace: Namespace(r.Namespace), Name: r.name()} }

// Target returns where the job's triggers go: to who watches for the app, or for the actor type.
func (r Ref) Target() string { return Channel{r.Namespace, r.Actor, r.owner()}.Target() }

func (r Ref) owner() string {
	if r.Actor {
		return r.Type
	}
	return r.App
}

// prefix of the namespaces of jobs. A namespace that cannot be one of rouse's, behind it, is hashed.
const (
	plain  = "dapr."
	hashed = "dapr_"
)

// Namespace returns the namespace in which rouse keeps the jobs of one of Dapr's.
func Namespace(dapr string) string {
	if ns := plain + dapr; dapr != "" && rouse.CheckNamespace(ns) == nil {
		return ns
	}
	return hashed + strings.ToLower(digest(dapr))
}

// digest is 52 letters and digits that tell texts apart.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
}

// A name that is longer than a timer's may be is cut, and goes on with a mark that no other name has and the digest of all of it.
// What is scanned for is cut a little shorter, so that it is the beginning of such names too.
const (
	cutMark  = `\~`
	cutAt    = rouse.MaxName - len(cutMark) - 52
	scanMost = cutAt - utf8.UTFMax
)

// name returns the name of the job's timer.
func (r Ref) name() string {
	full := r.kind()
	for _, p := range r.parts() {
		full += "/" + whole(p)
	}
	if len(full) <= rouse.MaxName {
		return full
	}
	return cut(full, cutAt) + cutMark + digest(full)
}

// cut returns at most n bytes of a text, of whole characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// escape writes what may be in a part, but not in a timer's name, as \ and two digits for each byte.
func escape(part string) string {
	if strings.IndexFunc(part, escaped) < 0 {
		return part
	}
	var b strings.Builder
	for _, c := range part {
		if !escaped(c) {
			b.WriteRune(c)
			continue
		}
		for _, x := range []byte(string(c)) {
			fmt.Fprintf(&b, `\%02X`, x)
		}
	}
	return b.String()
}

// escaped reports whether a character may not be in a timer's name, or would depend there on the one before it: each is written by
// itself, so what a part begins with is what its escaped form begins with.
func escaped(c rune) bool {
	if c < utf8.RuneSelf {
		return c == ' '
	}
	return unicode.IsSpace(c) || rouse.CheckName("x"+string(c)+"x") != nil || !norm.NFC.PropertiesString(string(c)).BoundaryBefore()
}

// dots reports whether a part is one that paths lose, and no timer's name has.
func dots(part string) bool { return part == "." || part == ".." }

// whole is escape for all of a part.
func whole(part string) string {
	if dots(part) {
		return strings.ReplaceAll(part, ".", `\2E`)
	}
	return escape(part)
}

// beginning is escape for what a part begins with. The parts "." and ".." do not begin with a dot when they are escaped.
func beginning(prefix string) string {
	if dots(prefix) {
		return ""
	}
	return escape(prefix)
}

// Match says which jobs of a ref without a name are meant.
type Match uint8

const (
	All     Match = iota // of the app; of the actor, or of the type if there is no id
	Begins               // those whose name begins with the ref's
	Similar              // those whose app, or whose actor id, begins with the ref's
)

// Scan returns the beginning that the timers' names have of all jobs that are meant. Others may have it too: see Meant.
func (r Ref) Scan(m Match) string {
	p := r.kind() + "/"
	if !r.Actor && m == Similar {
		return cut(p+beginning(r.owner()), scanMost)
	}
	p += whole(r.owner()) + "/"
	switch {
	case r.Actor && r.ID == "":
		return cut(p, scanMost)
	case r.Actor && m == Similar:
		return cut(p+beginning(r.ID), scanMost)
	case r.Actor:
		p += whole(r.ID) + "/"
	}
	if m == Begins {
		p += beginning(r.Name)
	}
	return cut(p, scanMost)
}

// Meant says whether a job is one of those that are meant.
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

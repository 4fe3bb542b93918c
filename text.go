package rouse

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// CheckNamespace refuses invalid namespaces. A namespace has 1 to 64 characters of a-z, 0-9, '-', '_' and
// '.', and starts with a letter or digit.
func CheckNamespace(ns string) error {
	ok := ns != "" && len(ns) <= MaxNamespace
	for i, c := range []byte(ns) {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || i > 0 && (c == '-' || c == '_' || c == '.'))
	}
	if !ok {
		return Refuse("namespace", ns, "is no namespace",
			"use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first")
	}
	return nil
}

// CheckName refuses names that a new timer cannot have. A name has 1 to 256 bytes of printable UTF-8, without
// a space at either end; it must look different from all other names, and not change in a path.
func CheckName(name string) error {
	if err := checkOldName(name); err != nil {
		return err
	}
	if wrong, cure := nameFault(name); wrong != "" {
		return Refuse("name", name, wrong, cure)
	}
	return nil
}

// checkOldName refuses names that no timer can have. Earlier versions accepted names that CheckName refuses:
// existing timers with such names can be read, changed, deleted and imported.
func checkOldName(name string) error {
	wrong := ""
	switch {
	case name == "":
		wrong = "is missing"
	case strings.TrimSpace(name) != name && utf8.ValidString(name):
		wrong = "begins or ends with a space"
	default:
		wrong = textFault(name, MaxName)
	}
	if wrong != "" {
		return Refuse("name", name, wrong, fmt.Sprintf("use 1 to %d bytes of printable UTF-8, without a space at either end",
			MaxName))
	}
	return nil
}

// nameFault returns why a name could be confused with another one, or would change in the path of a URL, and
// the cure; or empty texts.
func nameFault(name string) (wrong, cure string) {
	if printableASCII(name) && !strings.Contains(name, ".") {
		return "", ""
	}
	for _, r := range name {
		switch {
		case r < utf8.RuneSelf:
		case unicode.Is(unicode.Noncharacter_Code_Point, r):
			return fmt.Sprintf("contains %U, which is no character", r), "leave it out"
		case isInvisible(r):
			return fmt.Sprintf("contains %U, which cannot be seen", r), "leave it out"
		}
	}
	if !norm.NFC.IsNormalString(name) {
		return "is not in Unicode's normal form NFC, so another name can look the same",
			fmt.Sprintf("write %q", norm.NFC.String(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." {
			return fmt.Sprintf("has the part %q, which paths lose", part), `leave out "." and ".." between slashes`
		}
	}
	return "", ""
}

// isInvisible reports whether a character shows nothing by itself, as a zero-width space.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// textFault returns why a text is not printable UTF-8 of at most limit bytes, or "".
func textFault(s string, limit int) string {
	if len(s) > limit {
		return fmt.Sprintf("has %d bytes, more than %d", len(s), limit)
	}
	if printableASCII(s) { // most are
		return ""
	}
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError ||
			unicode.Is(unicode.Bidi_Control, r) {
			return fmt.Sprintf("contains the control character %U", r)
		}
	}
	return ""
}

// CheckText refuses a text for people that is not printable UTF-8 of at most limit bytes. Line ends and tabs
// are printable.
func CheckText(field, s string, limit int) error {
	if wrong := textFault(s, limit); wrong != "" && (len(s) > limit || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, isUnfit)) {
		return Refuse(field, s, wrong, fmt.Sprintf("use at most %d bytes of printable UTF-8", limit))
	}
	return nil
}

// isUnfit reports whether a text for people must not contain a character. U+FFFD is allowed: CleanText
// replaces characters with it.
func isUnfit(r rune) bool {
	return !isSpacing(r) && r != utf8.RuneError && textFault(string(r), utf8.UTFMax) != ""
}

func isSpacing(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }

// CleanText turns an unchecked text, such as one from a target, into one that CheckText accepts: it replaces
// each refused character by U+FFFD, and shortens the text to limit bytes.
func CleanText(s string, limit int) string {
	if !printableASCII(s) {
		s = strings.Map(func(r rune) rune {
			if isUnfit(r) {
				return utf8.RuneError
			}
			return r
		}, s)
	}
	return Shorten(s, limit)
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// CheckFireID refuses a malformed fire id. It does not look the fire up.
func CheckFireID(id string) error {
	if id == "" {
		return Refuse("fire_id", "", "is missing", "give the 26 characters that the fire carried")
	}
	if len(id) != fireIDLength || strings.Trim(id, fireIDDigits) != "" {
		return Refuse("fire_id", id, "is no fire id", "give the 26 characters that the fire carried")
	}
	return nil
}

// Check refuses a key that no row can have, so that the error for a malformed name is not just that the timer
// does not exist.
func (k Key) Check() error {
	if err := CheckNamespace(k.Namespace); err != nil {
		return err
	}
	if err := checkOldName(k.Name); err != nil {
		return err
	}
	if k.Fire != "" {
		return CheckFireID(k.Fire)
	}
	return nil
}

// checkWhich refuses values that no timer can have.
func checkWhich(namespace, name, prefix string, labels map[string]string) error {
	if namespace != "" {
		if err := CheckNamespace(namespace); err != nil {
			return err
		}
	}
	if name != "" {
		if err := checkOldName(name); err != nil {
			return err
		}
	}
	if wrong := textFault(prefix, MaxName); wrong != "" {
		return Refuse("prefix", prefix, wrong, fmt.Sprintf("use at most %d bytes of printable UTF-8", MaxName))
	}
	if len(labels) > MaxLabels {
		return Refuse("label", fmt.Sprint(len(labels)), "are more than a timer can have",
			fmt.Sprintf("give at most %d", MaxLabels))
	}
	for k, v := range labels {
		if labelFault(k) || textFault(v, MaxLabelValue) != "" {
			return Refuse("label", k+"="+v, "is a label that no timer can have", "give NAME=VALUE")
		}
	}
	return nil
}

// Check refuses, with an *Invalid, a query that no timer can match, or that is too large to be meant.
func (q *Query) Check() error {
	if err := checkWhich(q.Namespace, q.Name, q.Prefix, q.Labels); err != nil {
		return err
	}
	for _, s := range q.States {
		if s == 0 || s == StateNote || s > StateOverdue {
			return Refuse("states", s.String(), "is no state of a timer",
				"give one of scheduled, retrying, accepted, paused, ended, firing, dead, overdue")
		}
		if s == StateOverdue && (len(q.States) > 1 || q.DueFrom != 0 || q.DueUntil != 0) {
			return Refuse("states", s.String(), "does not go with other states and with due times",
				"ask for it alone: timers are overdue in any state")
		}
	}
	if err := CheckInstant("due_from", q.DueFrom); err != nil {
		return err
	}
	if err := CheckInstant("due_until", q.DueUntil); err != nil {
		return err
	}
	if q.DueUntil != 0 && q.DueFrom > q.DueUntil {
		return Refuse("due_until", q.DueUntil.String(), "lies before due_from", "give a later time")
	}
	return cmp.Or(q.Sought.checkSought(), q.checkOrder())
}

// labelFault reports whether a text cannot be the name of a label.
func labelFault(name string) bool {
	return name == "" || textFault(name, MaxLabelKey) != "" || strings.ContainsAny(name, "=,! ")
}

// Check refuses, with an *Invalid, a query that no record can match.
func (q *RecordQuery) Check() error {
	if err := checkWhich(q.Namespace, q.Name, q.Prefix, q.Labels); err != nil {
		return err
	}
	for _, e := range q.Endings {
		if e == 0 || e > EndMissed {
			return Refuse("ending", e.String(), "is no ending", "give one of fired, dead, skipped, missed")
		}
	}
	for _, c := range q.Causes {
		if c > lastCause {
			return Refuse("cause", c.String(), "is no cause", "give one that docs/policies.md lists")
		}
	}
	if q.Until != (RecordCursor{}) && q.Until.Ended < q.From.Ended {
		return Refuse("until", q.Until.Ended.String(), "lies before from", "give a later time")
	}
	return q.Sought.checkSought()
}

// CheckRevision refuses, as the revision that a caller expects, the one that no row has and that would mean
// any.
func CheckRevision(expected uint64) error {
	if expected == AnyRevision {
		return Refuse("expected_revision", fmt.Sprint(expected), "is no revision",
			"give the one that you read, or leave it out")
	}
	return nil
}

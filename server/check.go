package server

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/rousehq/rouse"
)

// checkKey refuses what can be the key of no timer and no dead letter, so that a client with a wrong name hears what is wrong
// with it and not only that there is no such timer.
func checkKey(k rouse.Key) error {
	if err := rouse.CheckNamespace(k.Namespace); err != nil {
		return err
	}
	if err := rouse.CheckName(k.Name); err != nil {
		return err
	}
	if k.Fire != "" && !fireID(k.Fire) {
		return rouse.Refuse("fire_id", k.Fire, "is no fire id", "give the 26 characters that the fire carried")
	}
	return nil
}

// checkDead is checkKey for a dead letter.
func checkDead(k rouse.Key) error {
	if k.Fire == "" {
		return rouse.Refuse("fire_id", "", "is missing", "give the fire id of the dead letter")
	}
	return checkKey(k)
}

func fireID(s string) bool {
	for _, c := range []byte(s) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z') {
			return false
		}
	}
	return len(s) == 26
}

// checkText refuses a text that is not printable UTF-8 of at most limit bytes; line ends and tabs are printable enough.
func checkText(field, s string, limit int) error {
	if len(s) > limit {
		return rouse.Refuse(field, s, fmt.Sprintf("has %d bytes", len(s)), fmt.Sprintf("use at most %d", limit))
	}
	if !utf8.ValidString(s) {
		return rouse.Refuse(field, "", "is not UTF-8", "send UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return rouse.Refuse(field, s, fmt.Sprintf("contains the control character %U", r), "use printable characters")
		}
	}
	return nil
}

// checkQuery refuses a filter that no timer can pass, or that is too large to be meant.
func checkQuery(q *rouse.Query) error {
	if q.Namespace != "" {
		if err := rouse.CheckNamespace(q.Namespace); err != nil {
			return err
		}
	}
	if q.Name != "" {
		if err := rouse.CheckName(q.Name); err != nil {
			return err
		}
	}
	if err := checkText("prefix", q.Prefix, rouse.MaxName); err != nil {
		return err
	}
	if len(q.Labels) > rouse.MaxLabels {
		return rouse.Refuse("label", strconv.Itoa(len(q.Labels)), "are more than a timer can have", fmt.Sprintf("give at most %d", rouse.MaxLabels))
	}
	for k, v := range q.Labels {
		if k == "" || len(k) > rouse.MaxLabelKey || len(v) > rouse.MaxLabelValue {
			return rouse.Refuse("label", k+"="+v, "is a label that no timer can have", "give NAME=VALUE")
		}
	}
	if err := checkInstant("due_from", q.DueFrom); err != nil {
		return err
	}
	if err := checkInstant("due_until", q.DueUntil); err != nil {
		return err
	}
	if q.DueUntil != 0 && q.DueFrom > q.DueUntil {
		return rouse.Refuse("due_until", q.DueUntil.String(), "lies before due_from", "give a later time")
	}
	return nil
}

// checkInstant refuses a time that is set and that no schedule can have.
func checkInstant(field string, i rouse.Instant) error {
	if i != 0 && (i < rouse.MinInstant || i > rouse.MaxInstant) {
		return rouse.Refuse(field, strconv.FormatInt(int64(i), 10), "lies outside the years 2000 to 9998", "give a time between them")
	}
	return nil
}

// checkRange refuses a range of time that is not given, or is empty.
func checkRange(from, until rouse.Instant) error {
	for _, bound := range [...]struct {
		field string
		at    rouse.Instant
	}{{"from", from}, {"until", until}} {
		if bound.at == 0 {
			return rouse.Refuse(bound.field, "", "is missing", "give the range of time that is meant")
		}
		if err := checkInstant(bound.field, bound.at); err != nil {
			return err
		}
	}
	if until <= from {
		return rouse.Refuse("until", until.String(), "is not after from, "+from.String(), "give a later time")
	}
	return nil
}

// at is the field of a list's i-th item.
func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

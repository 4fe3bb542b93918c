package dapr

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/foreign"
)

// The entries of an actor state store that have to do with reminders:
//
//	actors||TYPE                          the list of all reminders of a type
//	actors||TYPE||metadata                or how many lists there are, and the id that is in their keys
//	actors||TYPE||ID||reminders||1        one of these
//	TYPE||ACTOR||NAME                     when a reminder fired last
//
// A list is JSON, or protobuf behind three bytes that JSON cannot begin with.

// State is the content of an export of an actor state store about reminders.
type State struct {
	Selection

	whole    map[string][]byte // by type
	metadata map[string]typeMetadata
	parts    []partition
	tracks   map[string]*track // by type, actor and name
	bad      []badList
}

type typeMetadata struct {
	key       string
	ID        string `json:"id"`
	Reminders struct {
		Count int `json:"partitionCount"`
	} `json:"actorRemindersMetadata"`
}

// partition is one of several lists of a type.
type partition struct {
	key, typ, id string
	number       int
	body         []byte
}

// badList is an invalid entry.
type badList struct {
	key, typ string
	err      error
}

// reminderList is a parsed list.
type reminderList struct {
	key       string
	stale     bool // another one replaced it
	reminders []reminder
}

// stateEntry is an entry of a file. Document stores use other names for the key.
type stateEntry struct {
	Key   string          `json:"key"`
	ID    string          `json:"id"`
	MID   string          `json:"_id"`
	Value json.RawMessage `json:"value"`
}

// ReadState reads an export: JSON Lines of entries, a list of entries, or one object of keys and values.
func ReadState(in io.Reader) (*State, error) {
	s := &State{whole: map[string][]byte{}, metadata: map[string]typeMetadata{}, tracks: map[string]*track{}}
	dec := json.NewDecoder(in)
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, rouse.Refuse("entry "+strconv.Itoa(n), "", "is no JSON: "+err.Error(),
				`give an object with "key" and "value" for each entry`)
		}
		if err := s.readStateValue(raw); err != nil {
			return nil, rouse.Under("entry "+strconv.Itoa(n), err)
		}
	}
}

// readStateValue handles one top-level value of a file.
func (s *State) readStateValue(raw json.RawMessage) error {
	if raw[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for n, e := range list {
			if err := s.readStateValue(e); err != nil {
				return rouse.Under(fmt.Sprintf("[%d]", n), err)
			}
		}
		return nil
	}
	var e stateEntry
	if raw[0] == '{' && json.Unmarshal(raw, &e) == nil && len(e.Value) > 0 {
		for _, key := range []string{e.Key, e.MID, e.ID} {
			if key != "" {
				s.readStateEntry(key, e.Value)
				return nil
			}
		}
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil || all["value"] != nil {
		return rouse.Refuse("", rouse.Shorten(string(raw), 60), "is no entry of a state store",
			`give an object with "key" and "value", or one with keys as its members`)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		s.readStateEntry(key, all[key])
	}
	return nil
}

var partKey = regexp.MustCompile(`^(.+)\|\|([^|]+)\|\|reminders\|\|(\d+)$`)

// readStateEntry handles one entry. Entries that do not concern reminders are skipped.
func (s *State) readStateEntry(key string, raw json.RawMessage) {
	rest, ours := strings.CutPrefix(key, "actors||")
	body, err := bytesOf(raw)
	if !ours {
		if t, ok := parseTrack(body); ok && err == nil {
			s.tracks[key] = t
		}
		return
	}
	typ, isMetadata := strings.CutSuffix(rest, "||metadata")
	part := partKey.FindStringSubmatch(rest)
	if part != nil {
		typ = part[1]
	}
	if err != nil {
		s.bad = append(s.bad, badList{key, typ, err})
		return
	}
	switch {
	case isMetadata:
		m := typeMetadata{key: key}
		if err := json.Unmarshal(body, &m); err != nil {
			s.bad = append(s.bad, badList{key, typ, rouse.Refuse("value", "", "is no metadata of an actor type: "+err.Error(),
				"export it again")})
			return
		}
		s.metadata[typ] = m
	case part != nil:
		n, _ := strconv.Atoi(part[3]) // digits; a number that is too large matches no partition
		s.parts = append(s.parts, partition{key: key, typ: typ, id: part[2], number: n, body: body})
	default:
		s.whole[typ] = body
	}
}

// Read calls add for each reminder, and for each list that cannot be read.
func (s *State) Read(_ context.Context, now rouse.Instant,
	add func(foreign.Resumed) error) (notes []string, err error) {
	lists, bad := s.reminderLists()
	for _, b := range bad {
		if s.selectsType(b.typ) {
			if err := add(foreign.Resumed{Origin: foreign.Origin{List: b.key, ActorType: b.typ}, Err: b.err}); err != nil {
				return nil, err
			}
		}
	}
	seen := map[string]bool{}
	for _, l := range lists {
		for n := range l.reminders {
			r := &l.reminders[n]
			if !s.selectsType(r.Type) {
				continue
			}
			e := foreign.Resumed{Origin: foreign.Origin{List: l.key, ActorType: r.Type, ActorID: r.ID, Name: r.Name}}
			switch {
			case l.stale:
				e.Outcome, e.Why = foreign.Stale, "the list was replaced by partitions"
			case seen[r.reminderKey()]:
				e.Outcome, e.Why = foreign.Stale, "it is there twice"
			default:
				seen[r.reminderKey()] = true
				r.resumeReminder(&e, s.tracks[r.reminderKey()], &s.Selection, now)
			}
			if err := add(e); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

func (s *State) selectsType(typ string) bool {
	return len(s.ActorTypes) == 0 || slices.Contains(s.ActorTypes, typ)
}

// reminderLists returns the lists ordered by key, and the invalid ones.
func (s *State) reminderLists() (lists []reminderList, bad []badList) {
	bad = s.bad
	add := func(key, typ string, body []byte, stale bool) {
		reminders, err := parseReminders(body, typ)
		if err != nil {
			if !stale {
				bad = append(bad, badList{key, typ, err})
			}
			return
		}
		lists = append(lists, reminderList{key, stale, reminders})
	}
	found := map[string]map[int]bool{}
	slices.SortFunc(s.parts, func(a, b partition) int { return strings.Compare(a.key, b.key) })
	for _, p := range s.parts {
		m, told := s.metadata[p.typ]
		if !told {
			bad = append(bad, badList{p.key, p.typ, rouse.Refuse("key", "actors||"+p.typ+"||metadata",
				"is not in the file, and tells which lists are current", "export it too")})
			continue
		}
		current := p.id == m.ID && p.number >= 1 && p.number <= m.Reminders.Count
		add(p.key, p.typ, p.body, !current)
		if current {
			if found[p.typ] == nil {
				found[p.typ] = map[int]bool{}
			}
			found[p.typ][p.number] = true
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(s.metadata)) {
		m := s.metadata[typ]
		for n := 1; n <= min(m.Reminders.Count, maxParts); n++ {
			if !found[typ][n] {
				key := fmt.Sprintf("actors||%s||%s||reminders||%d", typ, m.ID, n)
				bad = append(bad, badList{key, typ, rouse.Refuse("key", key, "is not in the file",
					"export it too, or if it is not in the store, take its reminders as lost")})
			}
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(s.whole)) {
		add("actors||"+typ, typ, s.whole[typ], s.metadata[typ].Reminders.Count > 0)
	}
	bad = slices.DeleteFunc(bad, func(b badList) bool { return b.err == nil })
	return lists, bad
}

// maxParts bounds how many missing partitions are listed.
const maxParts = 10_000

// protobufMark begins a list in protobuf.
var protobufMark = []byte{0, 'p', 'b'}

// bytesOf returns the bytes of a value, which stores write as JSON itself, as a JSON string, as base64 or
// hex, or as a hash of data and version.
func bytesOf(raw json.RawMessage) ([]byte, error) {
	var hash struct {
		Data    json.RawMessage `json:"data"`
		Version json.RawMessage `json:"version"`
	}
	if raw[0] == '{' && json.Unmarshal(raw, &hash) == nil && len(hash.Data) > 0 && len(hash.Version) > 0 &&
		hash.Data[0] == '"' {
		return bytesOf(hash.Data)
	}
	if raw[0] != '"' {
		return raw, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, err
	}
	whole := func(b []byte) bool {
		b = bytes.TrimSpace(b)
		return bytes.HasPrefix(b, protobufMark) || len(b) > 0 && (b[0] == '[' || b[0] == '{' || string(b) == "null")
	}
	if b, err := hex.DecodeString(text); err == nil && whole(b) {
		return b, nil
	}
	if b, err := base64.StdEncoding.DecodeString(text); err == nil && whole(b) {
		return b, nil
	}
	if strings.HasPrefix(text, string(protobufMark)) {
		return nil, rouse.Refuse("value", "", "is protobuf that was written as text, of which bytes are lost",
			"export it as hex or base64")
	}
	return []byte(text), nil
}

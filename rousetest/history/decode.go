package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// kind is how the lines of an op are read.
type kind struct {
	required []string // members that have to be there
	read     func(rd *reader, line []byte) error
}

var kinds = map[string]kind{
	"config":     newLineKind(settings{Defaults}, (*reader).addConfig),
	"create":     newLineKind(Put{Spec: noForm}, (*reader).addPut),
	"replace":    newLineKind(Put{Spec: noForm, Replace: true}, (*reader).addPut),
	"reschedule": newLineKind(Put{Spec: noForm, Reschedule: true}, (*reader).addPut),
	"delete":     newLineKind(Delete{}, (*reader).addDelete),
	"pause":      newLineKind(Pause{}, (*reader).addPause),
	"resume":     newLineKind(Resume{}, (*reader).addResume),
	"skip":       newLineKind(Skip{}, (*reader).addSkip),
	"run":        newLineKind(Run{}, (*reader).addRun),
	"backfill":   newLineKind(Backfill{}, (*reader).addBackfill),
	"redrive":    newLineKind(Redrive{}, (*reader).addRedrive),
	"limit":      newLineKind(Limit{}, (*reader).addLimit),
	"get":        newLineKind(Get{}, (*reader).addGet),
	"final":      newLineKind(Final{}, (*reader).addFinal),
	"fire":       newLineKind(Fire{}, (*reader).addFire),
	"ack":        newLineKind(Ack{}, (*reader).addAck),
	"dead":       newLineKind(Dead{}, (*reader).addDead),
	"record":     newLineKind(Record{}, (*reader).addRecord),
	"fault":      newLineKind(Fault{}, (*reader).addFault),
	"heal":       newLineKind(Heal{}, (*reader).addHeal),
	"end":        newLineKind(End{}, (*reader).addEnd),
}

// newLineKind reads lines over blank, which has the values that a line does not set.
func newLineKind[E any](blank E, add func(*reader, *E) error) kind {
	k := kind{required: []string{"op"}}
	for field := range reflect.TypeFor[E]().Fields() {
		if name, option, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" && option == "" {
			k.required = append(k.required, name)
		}
	}
	k.read = func(rd *reader, text []byte) error {
		e := blank
		l := line[E]{Event: &e}
		if err := json.Unmarshal(text, &l, decoding); err != nil {
			return shortenError(err)
		}
		return add(rd, &e)
	}
	return k
}

// readEventLine reads an object whose members are those of its op.
func (rd *reader) readEventLine(text []byte) error {
	op, err := rd.readMemberNames(text)
	if err != nil {
		return err
	}
	k, ok := kinds[op]
	if !ok {
		return fmt.Errorf("unknown op %q", op)
	}
	for _, name := range k.required {
		if !slices.Contains(rd.members, name) {
			return fmt.Errorf("%s without %s", op, name)
		}
	}
	return k.read(rd, text)
}

// readMemberNames reads the names of a line's members, and its op. No value is null.
func (rd *reader) readMemberNames(text []byte) (op string, err error) {
	rd.members = rd.members[:0]
	rd.src.Reset(text)
	rd.json.Reset(&rd.src)
	for {
		tok, err := rd.json.ReadToken()
		switch in, n := rd.json.StackIndex(min(rd.json.StackDepth(), 1)); {
		case err == io.EOF:
			return op, nil
		case err != nil:
			return "", err
		case tok.Kind() == 'n':
			return "", fmt.Errorf("%s is null", memberPath(rd.json.StackPointer()))
		case rd.json.StackDepth() != 1 || in != '{' || tok.Kind() != '"':
		case n%2 == 1:
			rd.members = append(rd.members, tok.String())
		case rd.members[len(rd.members)-1] == "op":
			op = tok.String()
		}
	}
}

// decoding is the inverse of encoding. A fault's id may be a number.
var decoding = json.JoinOptions(json.RejectUnknownMembers(true), json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, to *time.Duration) error {
		n, err := readWholeNumber(d, maxMillis)
		*to = time.Duration(n) * time.Millisecond
		return err
	}),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, to *int) error {
		n, err := readWholeNumber(d, math.MaxInt32)
		*to = int(n)
		return err
	}),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, to *string) error {
		if d.PeekKind() != '0' || d.StackPointer() != "/fid" {
			return errors.ErrUnsupported // by this function: texts are read as usual
		}
		n, err := readWholeNumber(d, math.MaxInt64)
		*to = strconv.FormatUint(n, 10)
		return err
	}))))

// maxMillis is 200 years: a time.Duration holds no more than 292.
const maxMillis = 200 * 366 * 24 * 60 * 60 * 1000

func readWholeNumber(d *jsontext.Decoder, limit uint64) (uint64, error) {
	v, err := d.ReadValue()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || n > limit {
		return 0, fmt.Errorf("%s is no whole number up to %d", bytes.TrimSpace(v), limit)
	}
	return n, nil
}

// shortenError is an error without the names of Go types.
func shortenError(err error) error {
	var e *json.SemanticError
	if !errors.As(err, &e) {
		return err
	}
	at := memberPath(e.JSONPointer)
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		return fmt.Errorf("unknown field %s", at)
	case e.Err == nil || len(e.JSONValue) > 0 && e.GoType.Kind() == reflect.Uint64:
		return fmt.Errorf("%s: %.40s is no %s", at, cmp.Or(string(e.JSONValue), e.JSONKind.String()), e.GoType.Kind())
	}
	return fmt.Errorf("%s: %w", at, e.Err)
}

// memberPath is the path of a member as text: "spec.at".
func memberPath(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

package api

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// SpecMembers returns the members that a spec in JSON can have, each with its kind as PostgreSQL names those
// of jsonb: string, number, array, object, boolean; "any" for the payload.
func SpecMembers() map[string]string {
	members := map[string]string{}
	membersOf(reflect.TypeFor[Spec](), members)
	return members
}

func membersOf(of reflect.Type, members map[string]string) {
	for f := range of.Fields() {
		if f.Anonymous {
			membersOf(f.Type, members)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch k := f.Type.Kind(); {
		case f.Type == reflect.TypeFor[jsontext.Value]():
			members[name] = "any"
		case k == reflect.String, k == reflect.Int64, f.Type == reflect.TypeFor[[]byte](): // times and durations are texts, bytes are base64
			members[name] = "string"
		case k == reflect.Uint32, k == reflect.Uint64, k == reflect.Float64:
			members[name] = "number"
		case k == reflect.Bool:
			members[name] = "boolean"
		case k == reflect.Slice:
			members[name] = "array"
		default:
			members[name] = "object"
		}
	}
}

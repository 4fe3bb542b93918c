package flags

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// TestEveryMemberOfASpecHasAFlag: each flag that names a member of a spec has a type that can become it, and
// each member has a flag.
func TestEveryMemberOfASpecHasAFlag(t *testing.T) {
	flags, named := reflect.TypeFor[SpecFlags](), map[string]bool{}
	for _, m := range specMembers(flags) {
		if m.member == "-" {
			continue
		}
		named[m.member] = true
		to, from := memberAtPath(reflect.ValueOf(&api.Spec{}).Elem(), m.member, true), flags.FieldByIndex(m.index).Type
		if !to.IsValid() {
			t.Errorf("--%s sets %s, which is no member of a spec", m.flag, m.member)
		} else if from != reflect.TypeFor[cli.Moment]() && !from.ConvertibleTo(to.Type()) {
			t.Errorf("--%s is a %v, %s a %v", m.flag, from, m.member, to.Type())
		}
	}
	own := []string{"payload", "payload_base64", "webhook.headers"} // --payload and --header have forms of their own
	for _, member := range membersOf(reflect.TypeFor[api.Spec](), "") {
		if !named[member] && !slices.Contains(own, member) {
			t.Errorf("the member %s of a spec has no flag", member)
		}
	}
}

// membersOf returns the paths of the members of a form.
func membersOf(form reflect.Type, under string) (paths []string) {
	for f := range form.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			paths = append(paths, membersOf(f.Type, under)...)
		case f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
			paths = append(paths, membersOf(f.Type.Elem(), under+name+".")...)
		default:
			paths = append(paths, under+name)
		}
	}
	return paths
}

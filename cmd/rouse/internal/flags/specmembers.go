package flags

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/setting"
)

// specMember is a flag that defines a part of a spec, as its tags describe it.
type specMember struct {
	flag   string
	member string // path in the JSON of the API; "-" is none
	label  string // under which "rouse get" shows it; "-" is none
	format string // of the text, with %s for the value
	index  []int  // of the flag, in the structure of flags
}

// specMembers returns the flags of a structure, in their order.
func specMembers(of reflect.Type) (list []specMember) {
	for f := range of.Fields() {
		if f.Anonymous {
			for _, m := range specMembers(f.Type) {
				m.flag = f.Tag.Get("prefix") + m.flag
				m.index = append([]int{f.Index[0]}, m.index...)
				list = append(list, m)
			}
			continue
		}
		flag := cmp.Or(f.Tag.Get("name"), kebabCase(f.Name))
		label, format, _ := strings.Cut(f.Tag.Get("show"), ",")
		list = append(list, specMember{flag: flag, member: cmp.Or(f.Tag.Get("member"), strings.ReplaceAll(flag, "-", "_")),
			label: cmp.Or(label, strings.ReplaceAll(flag, "-", " ")), format: cmp.Or(format, "%s"), index: f.Index})
	}
	return list
}

// kebabCase returns the name of a flag as the parser makes it of a field's.
func kebabCase(field string) string {
	var b strings.Builder
	for i, r := range field {
		if r >= 'A' && r <= 'Z' && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// setMembers sets the members of a form of the API, a pointer to an api.Spec or api.When, to the flags that
// were given.
func setMembers(flags, form any) {
	from := reflect.ValueOf(flags).Elem()
	for _, m := range specMembers(from.Type()) {
		v := from.FieldByIndex(m.index)
		if m.member == "-" || v.IsZero() {
			continue
		}
		to := memberAtPath(reflect.ValueOf(form).Elem(), m.member, true)
		if at, ok := v.Interface().(cli.Moment); ok {
			v = reflect.ValueOf(at.ToInstant())
		}
		to.Set(v.Convert(to.Type()))
	}
}

// memberAtPath returns the member of a form with a path such as "retry.attempts". Objects on the way that are
// not there are made, or, without make, the member is the zero Value.
func memberAtPath(form reflect.Value, path string, make bool) reflect.Value {
	name, rest, deeper := strings.Cut(path, ".")
	for f, v := range form.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			if found := memberAtPath(v, path, make); found.IsValid() {
				return found
			}
		}
		if tag != name {
			continue
		}
		if !deeper {
			return v
		}
		if v.IsNil() {
			if !make {
				break
			}
			v.Set(reflect.New(v.Type().Elem()))
		}
		return memberAtPath(v.Elem(), rest, make)
	}
	return reflect.Value{}
}

// ShownMembers returns the labels and values of the flags of a structure, as they are shown of a form; own
// has the values of those that are shown in another way, by flag.
func ShownMembers(flags reflect.Type, form any, own map[string]string) (pairs []string) {
	for _, m := range specMembers(flags) {
		if m.label == "-" {
			continue
		}
		text, ok := own[m.flag]
		if v := memberAtPath(reflect.ValueOf(form).Elem(), m.member, false); !ok && v.IsValid() {
			text = shownMember(v)
		}
		if text != "" {
			pairs = append(pairs, m.label, strings.Replace(m.format, "%s", text, 1))
		}
	}
	return pairs
}

// shownMember is a member as text; "" is its default.
func shownMember(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	switch v := v.Interface().(type) {
	case api.Time:
		return cli.FormatRFC3339(v.Instant())
	case api.Duration:
		return setting.Short(time.Duration(v))
	case api.Keep:
		if v < 0 {
			return "forever"
		}
		return setting.Short(time.Duration(v))
	case []string:
		return strings.Join(v, " · ")
	case map[string]string:
		return cli.LabelText(v)
	case bool:
		return "yes"
	}
	return fmt.Sprint(v.Interface())
}

// memberNames returns the names of members that flags have other names for, each with the flag's.
func memberNames() (pairs []string) {
	for _, m := range specMembers(reflect.TypeFor[SpecFlags]()) {
		if strings.ContainsAny(m.member, "._") {
			pairs = append(pairs, m.member, m.flag)
		}
	}
	return pairs
}

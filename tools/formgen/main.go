// Formgen generates the code that translates specs between package rouse and their two forms: the messages of
// api/rouse/v1 and the JSON of api. It matches the fields of structs by their names and translates each by
// its two types, so a new field of a spec needs no code there. The few fields whose forms differ in more than
// their type are left to functions next to the generated file, which are named after the struct.
//
//	go -C tools run ./formgen -root ..
//
// With -check it writes nothing, and fails if a committed file differs from the generated one.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// form is a package that has a form of specs.
type form struct {
	dir   string
	types []string          // of the form: structs to translate
	made  string            // "&" if a form is made as a pointer, as messages are
	own   map[string]string // by type: the fields that its methods setOwnFields and applyOwnFields translate
	rules func(word, form string) (to, from string)
}

var forms = []form{
	{
		dir: "api/rouse/v1", made: "&", types: []string{"Spec", "When", "CalendarRule", "Retry", "Webhook", "Expect", "Notify"},
		own: map[string]string{"Spec": "Misfire Keep", "Retry": "Jitter"},
		rules: func(word, form string) (to, from string) {
			switch word + " " + form {
			case "rouse.Instant int64":
				return "int64({s})", "rouse.Instant({o})"
			case "time.Duration *durationpb.Duration":
				return "DurationToProto({s})", "readDuration(f, {path}, {o})"
			}
			return "", ""
		},
	},
	{
		dir: "api", types: []string{"When", "Spec", "CalendarRule", "Retry", "Webhook", "Expect", "Notify"},
		own: map[string]string{"Spec": "Misfire Payload PayloadBase64 ContentType", "Retry": "Jitter"},
		rules: func(word, form string) (to, from string) {
			switch word + " " + form {
			case "rouse.Instant Time":
				return "TimeOf({s})", "{o}.Instant()"
			case "time.Duration Duration", "time.Duration Keep":
				return form + "({s})", "time.Duration({o})"
			}
			return "", ""
		},
	},
}

// wordOf are the structs of package rouse that forms with other names have, and their fields.
var wordOf = map[string]string{"When": "Spec", "MaxInterval": "Max"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("formgen: ")
	root := flag.String("root", "..", "the module's directory")
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	words := readStructs(*root, "rouse.")
	var hand strings.Builder
	for _, path := range handwrittenFiles(filepath.Join(*root, "internal/server")) {
		text, err := os.ReadFile(path)
		if err != nil {
			log.Fatal(err)
		}
		hand.Write(text)
	}
	files := generateDoors(readMethods(filepath.Join(*root, "api")), readStructs(filepath.Join(*root, "api"), "api."),
		hand.String())
	for _, f := range forms {
		files[f.dir+"/forms.gen.go"] = f.generateForm(words, readStructs(filepath.Join(*root, f.dir), ""))
	}
	for path, code := range files {
		path = filepath.Join(*root, path)
		if !*check {
			if err := os.WriteFile(path, code, 0o644); err != nil {
				log.Fatal(err)
			}
		} else if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, code) {
			log.Fatalf("%s differs from what its source gives (%v); run make generate", path, err)
		}
	}
}

// field is a field of a struct; its type has the package's prefix.
type field struct {
	name, typ, tag string
	embedded       bool
}

// handwrittenFiles returns the files of a package that are written by hand, without tests.
func handwrittenFiles(dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		log.Fatal(err)
	}
	return slices.DeleteFunc(files, func(path string) bool {
		return strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".gen.go")
	})
}

// readStructs returns the fields of the structs of a package, in their order.
func readStructs(dir, prefix string) map[string][]field {
	out := map[string][]field{}
	for _, path := range handwrittenFiles(dir) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			log.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				out[spec.Name.Name] = structFields(s, prefix)
			}
			return false
		})
	}
	return out
}

func structFields(s *ast.StructType, prefix string) (list []field) {
	for _, f := range s.Fields.List {
		typ, tag := typeName(f.Type, prefix), ""
		if f.Tag != nil {
			tag, _ = strconv.Unquote(f.Tag.Value)
		}
		if len(f.Names) == 0 {
			list = append(list, field{name: typ, typ: typ, embedded: true})
		}
		for _, name := range f.Names {
			if name.IsExported() {
				list = append(list, field{name: name.Name, typ: typ, tag: tag})
			}
		}
	}
	return list
}

func typeName(t ast.Expr, prefix string) string {
	switch t := t.(type) {
	case *ast.Ident:
		if t.IsExported() {
			return prefix + t.Name
		}
		return t.Name
	case *ast.SelectorExpr:
		return typeName(t.X, "") + "." + t.Sel.Name
	case *ast.StarExpr:
		return "*" + typeName(t.X, prefix)
	case *ast.ArrayType:
		return "[]" + typeName(t.Elt, prefix)
	case *ast.MapType:
		return "map[" + typeName(t.Key, prefix) + "]" + typeName(t.Value, prefix)
	}
	return "?"
}

func (f *form) generateForm(words, forms map[string][]field) []byte {
	var b bytes.Buffer
	imports, name := []string{`"time"`, `"github.com/rousehq/rouse"`}, filepath.Base(f.dir)
	if name == "v1" {
		imports, name = imports[1:], "rousev1"
	}
	fmt.Fprintf(&b, "// Code generated by tools/formgen. DO NOT EDIT.\n\npackage %s\n\nimport (\n%s\n)\n", name,
		strings.Join(imports, "\n\n"))
	for _, name := range f.types {
		word := words[cmp.Or(wordOf[name], name)]
		of := "rouse." + cmp.Or(wordOf[name], name)
		var literal, to, from strings.Builder
		for _, ff := range forms[name] {
			if slices.Contains(strings.Fields(f.own[name]), ff.name) {
				continue
			}
			if ff.embedded {
				fmt.Fprintf(&literal, "%s: new%s(s),\n", ff.name, ff.name)
				fmt.Fprintf(&from, "o.%s.to(s, f)\n", ff.name)
				continue
			}
			wf := findField(word, ff.name)
			if wf == nil {
				log.Fatalf("%s: %s.%s is no field of %s; add it there, or to the fields that a function of its own translates",
					f.dir, name, ff.name, of)
			}
			if bare := strings.TrimPrefix(wf.typ, "rouse."); ff.typ == "*"+bare {
				fmt.Fprintf(&to, "if s := &s.%s; %s {\n", wf.name, nonZeroCondition(words[bare]))
				if f.made == "" {
					fmt.Fprintf(&to, "o.%s = new(%s)\n*", ff.name, bare)
				}
				fmt.Fprintf(&to, "o.%s = new%s(s)\n}\n", ff.name, bare)
				fmt.Fprintf(&from, "if o.%s != nil {\no.%s.to(&s.%s, f)\n}\n", ff.name, ff.name, wf.name)
				continue
			}
			path := ff.jsonName()
			if of != "rouse.Spec" {
				path = strings.ToLower(strings.TrimSuffix(name, "Rule")) + "." + path
			}
			names := strings.NewReplacer("{o}", "o."+ff.name, "{s}", "s."+wf.name, "{path}", strconv.Quote(path))
			t, r := f.translateForms(*wf, ff)
			if expression, ok := strings.CutPrefix(t, "{o} = "); ok {
				names.WriteString(&literal, ff.name+": "+expression+",\n")
			} else {
				names.WriteString(&to, t+"\n")
			}
			names.WriteString(&from, r+"\n")
		}
		if f.own[name] != "" {
			to.WriteString("o.setOwnFields(s)\n")
			from.WriteString("o.applyOwnFields(s, f)\n")
		}
		vars := ""
		if strings.Contains(from.String(), "err = ") {
			vars = "var err error\n"
		}
		result := strings.ReplaceAll(f.made, "&", "*") + name
		fmt.Fprintf(&b, "\n// new%s returns the form of s.\nfunc new%s(s *%s) %s {\no := %s%s{\n%s}\n%sreturn o\n}\n", name,
			name, of, result, f.made, name, literal.String(), to.String())
		fmt.Fprintf(&b,
			"\n// to sets the fields of s, and adds to f what has no meaning.\nfunc (o *%s) to(s *%s, f *rouse.Invalid) {\n%s%s}\n", name, of, vars, from.String())
	}
	code, err := format.Source(b.Bytes())
	if err != nil {
		log.Fatalf("%v in\n%s", err, b.String())
	}
	return code
}

// translateForms returns the statements that translate a field into its form, {o}, and back, {s}; {path} is
// its name for clients.
func (f *form) translateForms(word, ff field) (to, from string) {
	if word.typ == ff.typ {
		return "{o} = {s}", "{s} = {o}"
	}
	if to, from = f.rules(word.typ, ff.typ); to != "" {
		return "{o} = " + to, "{s} = " + from
	}
	bare := strings.TrimPrefix(word.typ, "rouse.")
	switch {
	case word.typ == "uint8" && ff.typ == "uint32":
		return "{o} = uint32({s})", "{s}, err = rouse.Parse" + word.name + "(uint64({o}))\nf.Add(err)"
	case ff.typ == "string" && bare != word.typ:
		return "if {s} != 0 {\n{o} = {s}.String()\n}", "{s}, err = rouse.Parse" + bare + "({o})\nf.Add(err)"
	}
	log.Fatalf("%s: no rule for %s %s as %s", f.dir, word.name, word.typ, ff.typ)
	return "", ""
}

// nonZeroCondition returns the condition that a field of s has not its zero value.
func nonZeroCondition(list []field) string {
	var any []string
	for _, f := range list {
		switch {
		case strings.HasPrefix(f.typ, "[]"), strings.HasPrefix(f.typ, "map["), f.typ == "string":
			any = append(any, "len(s."+f.name+") > 0")
		case f.typ == "bool":
			any = append(any, "s."+f.name)
		default:
			any = append(any, "s."+f.name+" != 0")
		}
	}
	return strings.Join(any, " || ")
}

// findField returns the field with the name of a form's field, whatever the case of its letters; milliseconds
// have a suffix.
func findField(list []field, name string) *field {
	name = strings.TrimSuffix(cmp.Or(wordOf[name], name), "Ms")
	for i := range list {
		if strings.EqualFold(list[i].name, name) {
			return &list[i]
		}
	}
	return nil
}

// jsonName is the name of a field in JSON and protobuf.
func (f field) jsonName() string {
	name, _, _ := strings.Cut(reflect.StructTag(f.tag).Get("json"), ",")
	return name
}

package rouse_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// closed are exported parts of public packages that programs cannot use, with the reason.
var closed = map[string]string{
	"node.Config.Pools": "drivers have no public interface: rouse serve reads pools from a file",
}

// TestProgramsCanCallWhatTheySee: what a public package exports takes nothing that only this module can make.
// Results may be of internal types: programs can read them.
func TestProgramsCanCallWhatTheySee(t *testing.T) {
	found := map[string]bool{}
	for _, file := range strings.Fields(output(t, "git", "ls-files", "*.go")) {
		if dir, _, _ := strings.Cut(file, "/"); strings.HasSuffix(file, "_test.go") || slices.Contains(private, dir) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // deleted, and not committed yet
		}
		internal := map[string]bool{} // names of imports
		for _, imp := range f.Imports {
			if p, _ := strconv.Unquote(imp.Path.Value); strings.HasPrefix(p, module+"/internal/") {
				internal[path.Base(p)] = true
				if imp.Name != nil {
					internal[imp.Name.Name] = true
				}
			}
		}
		for name, typ := range taken(f) {
			name = f.Name.Name + "." + name
			ast.Inspect(typ, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && internal[pkg.Name] {
					if found[name] = true; closed[name] == "" {
						t.Errorf("%s: %s takes %s.%s, which programs cannot make: move it to internal, or give it a public type",
							fset.Position(n.Pos()), name, pkg.Name, sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
	for name := range closed {
		if !found[name] {
			t.Errorf("programs can use %s: remove it from the list", name)
		}
	}
}

// taken returns the types of the parameters of exported functions and methods and of the exported fields of a
// file, by their names.
func taken(f *ast.File) map[string]ast.Expr {
	types := map[string]ast.Expr{}
	add := func(name string, fields *ast.FieldList) {
		for i, field := range fields.List {
			types[fmt.Sprint(name, " ", i)] = field.Type
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := receiver(d.Recv.List[0].Type)
				if !ast.IsExported(of) {
					continue
				}
				name = of + "." + name
			}
			if d.Name.IsExported() {
				add(name, d.Type.Params)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok || !spec.Name.IsExported() {
					continue
				}
				var fields *ast.FieldList
				switch typ := spec.Type.(type) {
				case *ast.StructType:
					fields = typ.Fields
				case *ast.InterfaceType:
					fields = typ.Methods
				case *ast.FuncType:
					add(spec.Name.Name, typ.Params)
					continue
				default:
					continue
				}
				for _, field := range fields.List {
					for _, n := range field.Names {
						if n.IsExported() {
							types[spec.Name.Name+"."+n.Name] = field.Type
						}
					}
				}
			}
		}
	}
	return types
}

// receiver returns the name of the type that has a method.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

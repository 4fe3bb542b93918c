package rouse_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// maxMethods bounds the methods of a type: one with more does several jobs, and each of them may touch the state of all.
const maxMethods = 60

// tooMany are the types that have more, and how many. They may only get fewer.
var tooMany = map[string]int{}

// TestTypesAreSmall counts the methods of each type, except in tests.
func TestTypesAreSmall(t *testing.T) {
	methods := map[string]int{}
	for _, file := range strings.Fields(output(t, "git", "ls-files", "*.go")) {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".pb.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // deleted, and not committed yet
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[path.Dir(file)+"/"+receiver(fn.Recv.List[0].Type)]++
			}
		}
	}
	for typ, n := range methods {
		if n > max(maxMethods, tooMany[typ]) {
			t.Errorf("%s has %d methods, more than %d: split it by what it does", typ, n, max(maxMethods, tooMany[typ]))
		}
	}
	for typ, n := range tooMany {
		if methods[typ] < n {
			t.Errorf("%s has %d methods: lower the exception of %d", typ, methods[typ], n)
		}
	}
}

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

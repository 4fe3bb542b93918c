package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecretsAreComparedInConstantTime: a caller cannot guess a key byte by byte, or find out which ids
// exist, from how long its refusal takes. Hashes are compared in one place, by a function that takes the same
// time wherever they differ; the sources have no other comparison of them. Unknown ids are compared with as
// many secrets as a key can have.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	files := token.NewFileSet()
	sources, err := filepath.Glob("*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	secret := regexp.MustCompile(`(?i)hash|secret\b`)
	constant := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		body, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(files, source, body, 0)
		if err != nil {
			t.Fatal(err)
		}
		text := func(n ast.Node) string {
			return string(body[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op != token.EQL && n.Op != token.NEQ {
					return true
				}
				for _, side := range []ast.Expr{n.X, n.Y} {
					if call, ok := side.(*ast.CallExpr); ok && text(call.Fun) == "subtle.ConstantTimeCompare" {
						constant++
						return false
					}
					if _, counted := side.(*ast.BasicLit); !counted && secret.MatchString(text(side)) && !strings.HasPrefix(text(side), "len(") {
						t.Errorf("%v: %s", files.Position(n.Pos()), text(n))
					}
				}
			case *ast.CallExpr:
				if name := text(n.Fun); strings.HasPrefix(name, "bytes.") || strings.HasPrefix(name, "slices.") || name == "strings.Compare" || name == "strings.EqualFold" {
					for _, a := range n.Args {
						if secret.MatchString(text(a)) && (strings.HasSuffix(name, "Equal") || strings.HasSuffix(name, "Compare") || strings.HasSuffix(name, "Contains") || strings.HasSuffix(name, "EqualFold")) {
							t.Errorf("%v: %s", files.Position(n.Pos()), text(n))
						}
					}
				}
			}
			return true
		})
	}
	if constant != 1 {
		t.Errorf("secrets are compared in constant time in %d places, not in one", constant)
	}
	if len(nothing) != maxSecrets {
		t.Errorf("unknown keys are compared with %d secrets, others with up to %d", len(nothing), maxSecrets)
	}
}

// TestAuthenticationIsCheapWithManyKeys: a call costs as much with ten thousand keys as with one, and keeps
// nothing.
func TestAuthenticationIsCheapWithManyKeys(t *testing.T) {
	m, text := manyKeys(t, 10_000)
	for what, bearer := range map[string]string{"known": text, "unknown": GenerateKey()} {
		c := &Credentials{Bearer: bearer}
		if n := testing.AllocsPerRun(100, func() { _, _ = m.Enter(t.Context(), getMethod, c) }); n > 4 {
			t.Errorf("a call with a key that is %s allocates %v times", what, n)
		}
	}
	for range 1000 { // what is refused is not remembered
		_, _ = m.enter(GenerateKey(), getMethod)
	}
	if n := m.Keys.Len(); n != 10_000 {
		t.Errorf("%d keys are in memory", n)
	}
}

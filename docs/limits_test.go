package docs_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// limitRow finds the value and the constant of a row of limits.md: | … | VALUE | … | `file.go` `name` |
var limitRow = regexp.MustCompile("(?m)^\\| [^|]* \\| ([^|]*) \\|.* `([a-z0-9_/]+\\.go)` `([A-Za-z0-9]+)` \\|$")

// TestLimitsAreThoseOfTheCode compares the values in limits.md with the constants that they name.
func TestLimitsAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("limits.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := limitRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 5 {
		t.Fatalf("limits.md has %d rows with constants", len(rows))
	}
	for _, row := range rows {
		said, file, name := row[1], row[2], row[3]
		value, ok := constantIn(t, filepath.Join("..", file), name)
		if !ok {
			t.Errorf("limits.md names the constant %s of %s, which is not there, or no number", name, file)
			continue
		}
		if want, ok := limitValue(said); !ok || want != value {
			t.Errorf("limits.md has %q for %s of %s, which is %d", said, name, file, value)
		}
	}
}

// limitValue reads 2,000 or 16 MiB or 10 s, the first number of a cell; durations are in nanoseconds.
func limitValue(said string) (int64, bool) {
	said, _, _ = strings.Cut(said, " (")
	number, unit, _ := strings.Cut(strings.TrimSpace(said), " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	if err != nil {
		return 0, false
	}
	factor, ok := map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "days": 24 * 3600e9}[unit]
	if !ok {
		factor = 1
	}
	return n * factor, true
}

// constantIn evaluates a constant of a file that is made of numbers, durations and constants of the same file.
func constantIn(t *testing.T, file, name string) (int64, bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Error(err)
		return 0, false
	}
	values := map[string]ast.Expr{"time.Millisecond": number("1000000"), "time.Second": number("1000000000"), "time.Minute": number("60000000000"),
		"time.Hour": number("3600000000000"), "rouse.MaxScheduleSteps": number("2000")}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, id := range spec.Names {
				if i < len(spec.Values) {
					values[id.Name] = spec.Values[i]
				}
			}
		}
		return true
	})
	v := evaluated(values[name], values, 0)
	if v == nil || v.Kind() != constant.Int {
		return 0, false
	}
	return constant.Int64Val(v)
}

func number(text string) ast.Expr { return &ast.BasicLit{Kind: token.INT, Value: text} }

func evaluated(e ast.Expr, values map[string]ast.Expr, depth int) constant.Value {
	if depth > 20 {
		return nil
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.ToInt(constant.MakeFromLiteral(e.Value, e.Kind, 0))
	case *ast.ParenExpr:
		return evaluated(e.X, values, depth+1)
	case *ast.Ident:
		return evaluated(values[e.Name], values, depth+1)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return evaluated(values[x.Name+"."+e.Sel.Name], values, depth+1)
		}
	case *ast.BinaryExpr:
		x, y := evaluated(e.X, values, depth+1), evaluated(e.Y, values, depth+1)
		switch {
		case x == nil || y == nil:
		case e.Op == token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n))
		default:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	return nil
}

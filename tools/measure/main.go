// Command measure prints how large a tree of Go code is, and how well its parts can be found and changed:
// distributions, of which nothing fails.
//
//	measure [DIR]
//
// Generated files, testdata and what git ignores are left out. Figures are of code that is no test, unless a
// row names them.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tree is what was counted.
type tree struct {
	lines, testLines  int
	functions, files  []int          // lines of each
	names             map[string]int // how many functions bear it
	methods           map[string]int // by type
	interfaces        int
	what, comments    int // lines of comments with the word, and all
	wide, wider, code int // lines of more than 120 and 160 columns, and all
	imports           map[string][]string
	features          map[string]bool // "secret internal/access": folders of files named for one
	folders           map[string]int  // their files
}

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	oneWord   = regexp.MustCompile(`^[a-z]+$`)
	nouns     = []string{"secret", "audit", "namespace", "status", "quota", "calendar"}
)

const module = "github.com/rousehq/rouse"

func main() {
	if err := measure(append(os.Args, ".")[1]); err != nil {
		log.Fatalln("measure:", err)
	}
}

func measure(dir string) error {
	list, err := exec.Command("git", "-C", dir, "ls-files", "*.go", ":!*testdata*").Output()
	if err != nil {
		return err
	}
	t := tree{names: map[string]int{}, methods: map[string]int{}, imports: map[string][]string{}, features: map[string]bool{}, folders: map[string]int{}}
	for path := range strings.FieldsSeq(string(list)) {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if generated.Match(text) {
			continue
		}
		if err := t.addFile(path, text); err != nil {
			return err
		}
	}
	t.print()
	return nil
}

// addFile counts a file.
func (t *tree) addFile(path string, text []byte) error {
	lines := bytes.Count(text, []byte("\n"))
	if strings.HasSuffix(path, "_test.go") {
		t.testLines += lines
		return nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	t.lines += lines
	t.files = append(t.files, lines)
	t.folders[folder]++
	t.addLines(string(text))
	for _, i := range f.Imports {
		if p := strings.Trim(i.Path.Value, `"`); p == module || strings.HasPrefix(p, module+"/") {
			from := filepath.ToSlash(filepath.Join(module, folder))
			t.imports[from] = append(t.imports[from], p)
		}
	}
	for _, noun := range nouns {
		if strings.Contains(filepath.Base(path), noun) {
			t.features[noun+" "+folder] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.InterfaceType:
			t.interfaces++
		case *ast.FuncDecl:
			t.functions = append(t.functions, files.Position(n.End()).Line-files.Position(n.Pos()).Line+1)
			if n.Name.Name != "main" && n.Name.Name != "init" {
				t.names[n.Name.Name]++
			}
			if n.Recv != nil {
				name, _, _ := strings.Cut(strings.TrimLeft(types.ExprString(n.Recv.List[0].Type), "*"), "[")
				t.methods[folder+"."+name]++
			}
		}
		return true
	})
	return nil
}

// addLines counts what single lines show.
func (t *tree) addLines(text string) {
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "//") {
			t.comments++
			if slices.Contains(strings.FieldsFunc(strings.ToLower(trimmed), func(r rune) bool { return r < 'a' || r > 'z' }), "what") {
				t.what++
			}
			continue
		}
		t.code++
		columns := len([]rune(strings.TrimRight(line, "\n")))
		if columns > 120 {
			t.wide++
		}
		if columns > 160 {
			t.wider++
		}
	}
}

// chain returns how many packages of the tree a package imports one through the other, itself counted.
func (t *tree) chain(pkg string, known map[string]int) int {
	if known[pkg] > 0 {
		return known[pkg]
	}
	most := 0
	for _, p := range t.imports[pkg] {
		most = max(most, t.chain(p, known))
	}
	known[pkg] = most + 1
	return known[pkg]
}

func (t *tree) print() {
	row := func(what string, format string, args ...any) {
		fmt.Printf("%-52s %s\n", what, fmt.Sprintf(format, args...))
	}
	functions, words, unexported, shared := 0, 0, 0, 0
	for name, n := range t.names {
		functions += n
		if oneWord.MatchString(name) {
			words += n
		}
		if ast.IsExported(name) {
			continue
		}
		if unexported += n; n >= 3 {
			shared += n
		}
	}
	longest, known := 0, map[string]int{}
	for pkg := range t.imports {
		longest = max(longest, t.chain(pkg, known))
	}
	row("lines by hand: code, tests", "%d, %d", t.lines, t.testLines)
	row("lines of a function: median, p90, p99, most", "%s", spread(t.functions))
	row("lines of a file: median, p90, p99, most", "%s", spread(t.files))
	row("functions named by one lower-case word", "%s", percent(words, functions))
	row("unexported functions whose name three or more bear", "%s", percent(shared, unexported))
	row("  the most common names", "%s", largest(t.names, 8))
	row("\"what\" in 1,000 lines of comments", "%d", 1000*t.what/max(1, t.comments))
	row("lines of code over 120, 160 columns", "%s, %d", percent(t.wide, t.code), t.wider)
	row("interfaces", "%d", t.interfaces)
	row("types with the most methods", "%s", largest(t.methods, 5))
	row("longest chain of imports, programs counted", "%d", longest)
	row("folders with the most files", "%s", largest(t.folders, 5))
	features := map[string]int{}
	for noun := range t.features {
		features[strings.Fields(noun)[0]]++
	}
	row("folders with files named for one feature", "%s", largest(features, len(features)))
}

// spread returns the median, two percentiles and the largest of some numbers.
func spread(list []int) string {
	slices.Sort(list)
	at := func(p int) int { return list[min(len(list)-1, len(list)*p/100)] }
	return fmt.Sprintf("%d, %d, %d, %d", at(50), at(90), at(99), list[len(list)-1])
}

func percent(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, of))) }

// largest returns the names with the largest numbers.
func largest(counts map[string]int, n int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var texts []string
	for _, name := range names[:min(n, len(names))] {
		texts = append(texts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(texts, ", ")
}

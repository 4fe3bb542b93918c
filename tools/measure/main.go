// Command measure prints how large the module in a directory is, and how well its parts can be found and
// changed: distributions, of which nothing fails.
//
//	measure [DIR]
//
// Generated files, testdata and files that git ignores are left out. Figures are of code that is no test,
// unless a row names them.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
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

	"golang.org/x/tools/go/packages"
)

const module = "github.com/rousehq/rouse"

var (
	generated   = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	comment     = regexp.MustCompile(`(?m)//.*$`)
	hasWhat     = regexp.MustCompile(`(?i)\bwhat\b`)
	anInterface = regexp.MustCompile(`\binterface ?\{ *($|[^} ])`)
	apart       = regexp.MustCompile(
		`^(store/storetest|sink/sinktest|rousetest|test|bench|examples|docs|tools)/|_test\.go$`)
	feature    = regexp.MustCompile(`secret|audit|namespace`)
	operations = []string{"Backfill", "Explain", "Reschedule", "Skip", "Simulate"} // written by hand in every form
)

// counts has a number for pairs of names: a measure and its subject, or the ends of an arrow. An arrow runs
// from a file to one that declares a name that it uses, from a function to one that it names, and from a
// package to one that it imports.
type counts map[string]map[string]int

func (c counts) addCount(from, to string, n int) {
	if c[from] == nil {
		c[from] = map[string]int{}
	}
	c[from][to] += n
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatalln("measure:", err)
	}
	return v
}

func main() {
	dir := append(os.Args, ".")[1]
	measures, files, functions, imports := counts{}, counts{}, counts{}, counts{}
	list := exec.Command("git", "-C", dir, "ls-files", "*.go", "*.proto", ":!*testdata*")
	for path := range strings.FieldsSeq(string(must(list.Output()))) {
		if text := must(os.ReadFile(filepath.Join(dir, path))); !generated.Match(text) {
			measures.addText(path, string(text))
		}
	}
	for _, pkg := range must(packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir}, "./...")) {
		for imported := range pkg.Imports {
			imports.addCount(pkg.PkgPath, imported, 1)
		}
		for _, f := range pkg.Syntax {
			addSyntax(pkg, f, measures, files, functions)
		}
	}
	printMeasures(measures, files, functions, imports)
}

// addText counts the lines and operations in the text of a file.
func (c counts) addText(path, text string) {
	for _, op := range operations {
		names := fmt.Sprintf(`\b(%[1]s|%[1]sRequest|%[1]sCmd|%[2]sCmd|%[2]sTimers?)\b`, op, strings.ToLower(op))
		if !apart.MatchString(path) && regexp.MustCompile(names).MatchString(comment.ReplaceAllString(text, "")) {
			c.addCount("operation", op, 1)
		}
	}
	if lines := strings.Count(text, "\n"); strings.HasSuffix(path, "_test.go") {
		c.addCount("lines", "test", lines)
	} else if strings.HasSuffix(path, ".go") {
		c.addCount("lines", "code", lines)
		c.addCount("file", path, lines)
		c.addCount(feature.FindString(filepath.Base(path)), filepath.Dir(path), 1)
		for line := range strings.Lines(text) {
			of := []string{"code", "comment"}[oneIf(strings.HasPrefix(strings.TrimSpace(line), "//"))]
			columns := len([]rune(strings.TrimRight(line, "\n")))
			c.addCount(of, "", 1)
			c.addCount(of, "what", oneIf(hasWhat.MatchString(line)))
			c.addCount(of, "interface", oneIf(anInterface.MatchString(line)))
			c.addCount(of, "wide", oneIf(columns > 120))
			c.addCount(of, "wider", oneIf(columns > 160))
		}
	}
}

// addSyntax counts the declarations and arrows of a file.
func addSyntax(pkg *packages.Package, f *ast.File, measures, files, functions counts) {
	fileOf := func(of *types.Package, pos token.Pos) string {
		return of.Path() + "/" + filepath.Base(pkg.Fset.Position(pos).Filename)
	}
	file := fileOf(pkg.Types, f.Pos())
	files.addCount(file, file, 0)
	if ast.IsGenerated(f) {
		measures = counts{} // its arrows count, it does not
	}
	for _, d := range f.Decls {
		inside := ""
		if fn, ok := d.(*ast.FuncDecl); ok {
			obj := pkg.TypesInfo.Defs[fn.Name].(*types.Func)
			inside = obj.FullName() + " " + file
			functions.addCount(inside, inside, 0)
			if recv := obj.Signature().Recv(); recv != nil {
				measures.addCount("method", strings.TrimLeft(types.TypeString(recv.Type(), nil), "*"), 1)
			}
			measures.addCount("name", fn.Name.Name, 1)
			measures.addCount("function", inside, pkg.Fset.Position(fn.End()).Line-pkg.Fset.Position(fn.Pos()).Line+1)
		}
		ast.Inspect(d, func(n ast.Node) bool {
			id, _ := n.(*ast.Ident)
			used := pkg.TypesInfo.Uses[id]
			if used == nil || used.Pkg() == nil || !strings.HasPrefix(used.Pkg().Path()+"/", module+"/") {
				return true
			}
			to := fileOf(used.Pkg(), used.Pos())
			files.addCount(file, to, 1)
			if fn, ok := used.(*types.Func); ok {
				functions.addCount(inside, fn.Origin().FullName()+" "+to, 1)
			}
			return true
		})
	}
}

func printMeasures(c, files, functions, imports counts) {
	all, words, unexported, shared := 0, 0, 0, 0
	for name, n := range c["name"] {
		all += n
		words += n * oneIf(name == strings.ToLower(name))
		unexported += n * oneIf(!ast.IsExported(name))
		shared += n * oneIf(!ast.IsExported(name) && n >= 3)
	}
	printRow("hand-written lines of Go", largestNames(c["lines"], 2))
	printRow("lines of a function: median, p90, p99, most", formatSpread(c["function"]))
	printRow("lines of a file: median, p90, p99, most", formatSpread(c["file"]))
	printRow("hand-written files with an operation", largestNames(c["operation"], 9))
	printRow("folders with files named secret, audit, namespace", len(c["secret"]), len(c["audit"]), len(c["namespace"]))
	printRow("functions named by one lower-case word", formatPercent(words, all))
	printRow("unexported functions, name borne by three or more", formatPercent(shared, unexported))
	printRow("  the most common names", largestNames(c["name"], 8))
	printRow("\"what\" per 1,000 lines of comments", 1000*c["comment"]["what"]/max(1, c["comment"][""]))
	printRow("lines of code over 120, 160 columns", formatPercent(c["code"]["wide"], c["code"][""]), c["code"]["wider"])
	printRow("interfaces", c["code"]["interface"])
	printRow("types with the most methods", largestNames(c["method"], 5))
	printRow("arrows between files back up: internal/server", upwardShare(files, module+"/internal/server/"))
	printRow("  the whole module", upwardShare(files, module))
	reached, inFiles, known, longest := map[string]int{}, map[string]bool{}, map[string]int{}, 0
	functions.longestChain("(*"+module+"/internal/timers.Timers).Put "+module+"/internal/timers/put.go", reached)
	for fn := range reached {
		inFiles[strings.Fields(fn)[1]] = true
	}
	printRow("functions, files that Timers.Put may call", len(reached), len(inFiles))
	for pkg := range imports {
		longest = max(longest, imports.longestChain(pkg, known))
	}
	printRow("longest chain of imports, programs counted", longest)
}

// longestChain returns how many names in a row arrows join, from one down, and adds those that it passes to
// known. Names without arrows, such as packages of others and the methods of an interface, end it.
func (c counts) longestChain(from string, known map[string]int) int {
	if known[from] == 0 {
		known[from] = oneIf(c[from] != nil)
		for to := range c[from] {
			known[from] = max(known[from], 1+c.longestChain(to, known))
		}
	}
	return known[from]
}

// upwardShare returns the share of the arrows between the files under a path that run back up. Files are laid
// from the top down: next is always one that none of the rest uses, or else the one that uses most more of
// them than use it. Arrows to it from the rest then run back up. An order with fewer may exist.
func upwardShare(arrows counts, under string) string {
	rest, all, up := maps.Clone(arrows), 0, 0
	maps.DeleteFunc(rest, func(file string, _ map[string]int) bool { return !strings.HasPrefix(file, under) })
	for len(rest) > 0 {
		users, balance := map[string]int{}, map[string]int{}
		for from, uses := range rest {
			for to := range uses {
				if from != to && rest[to] != nil {
					users[to]++
					balance[to]--
					balance[from]++
				}
			}
		}
		next := slices.MaxFunc(slices.Sorted(maps.Keys(rest)), func(a, b string) int {
			return cmp.Or(oneIf(users[a] == 0)-oneIf(users[b] == 0), balance[a]-balance[b])
		})
		up += users[next]
		all += balance[next] + 2*users[next]
		delete(rest, next)
	}
	return formatPercent(up, all) + fmt.Sprintf(" of %d", all)
}

func printRow(label string, values ...any) { fmt.Printf("%-53s %s", label, fmt.Sprintln(values...)) }

func oneIf(b bool) int { return map[bool]int{true: 1}[b] }

// formatSpread returns the median, two percentiles and the largest of some numbers.
func formatSpread(counts map[string]int) string {
	list, n := slices.Sorted(maps.Values(counts)), len(counts)
	return fmt.Sprint(list[n/2], list[n*9/10], list[n*99/100], list[n-1])
}

func formatPercent(n, of int) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, of)))
}

// largestNames returns the names with the largest numbers.
func largestNames(counts map[string]int, n int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", strings.TrimPrefix(name, module+"/"), counts[name])
	}
	return strings.Join(names[:min(n, len(names))], ", ")
}

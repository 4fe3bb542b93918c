// Reflow wraps the comments of Go files that are wider than 110 columns, with tabs of 4:
//
//	go -C tools run ./reflow -root ..            # all files that git knows, except generated ones
//	go -C tools run ./reflow -root .. after.go   # these
//
// It changes only paragraphs and list items of full-line comments that have such a line; the root's
// TestCommentsAreNarrow finds them.
package main

import (
	"flag"
	"go/scanner"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const columns = 110

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	files := flag.Args()
	if len(files) == 0 {
		out, err := exec.Command("git", "-C", *root, "ls-files", "*.go").Output()
		if err != nil {
			log.Fatal(err)
		}
		files = strings.Fields(string(out))
	}
	for _, file := range files {
		path := filepath.Join(*root, file)
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) || generated.Match(text) {
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		if wrapped := reflowComments(string(text)); wrapped != string(text) {
			if err := os.WriteFile(path, []byte(wrapped), 0o644); err != nil {
				log.Fatal(err)
			}
			log.Print(file)
		}
	}
}

var (
	// comment matches a line of a paragraph, or the first line of a list item: its indentation, the space
	// behind the slashes, the mark of the item, and the words.
	comment = regexp.MustCompile(`^(\s*)//( +)([-*] |\d+\. )?(\S.*)$`)
	// separate matches lines that are no text: pictures and directives.
	separate  = regexp.MustCompile(`[─│┌└►◄▼▲]|^\s*//(go:|nolint|export )|^\s*// (Deprecated:|#)`)
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	output    = regexp.MustCompile(`^\s*// (Unordered o|O)utput:`)
)

func reflowComments(text string) string {
	lines, comments := strings.Split(text, "\n"), commentLines([]byte(text))
	var out []string
	for i := 0; i < len(lines); {
		if output.MatchString(lines[i]) { // the output of an example is compared line by line
			for ; i < len(lines) && comments[i+1]; i++ {
				out = append(out, lines[i])
			}
			continue
		}
		m := comment.FindStringSubmatch(lines[i])
		// an indented line is code, unless it is a list item
		if m == nil || !comments[i+1] || m[3] == "" && m[2] != " " || separate.MatchString(lines[i]) {
			out = append(out, lines[i])
			i++
			continue
		}
		further := m[2] + strings.Repeat(" ", len(m[3])) // before the words of the other lines
		words, end := strings.Fields(m[4]), i+1
		for ; end < len(lines) && !separate.MatchString(lines[end]) && !output.MatchString(lines[end]); end++ {
			n := comment.FindStringSubmatch(lines[end])
			if n == nil || n[1] != m[1] || n[2] != further || n[3] != "" {
				break
			}
			words = append(words, strings.Fields(n[4])...)
		}
		block := lines[i:end]
		if hasWideLine(block) {
			if b := wrapWords(m[1]+"//"+m[2]+m[3], m[1]+"//"+further, words); b != nil {
				block = b
			}
		}
		out, i = append(out, block...), end
	}
	return strings.Join(out, "\n")
}

// commentLines returns the lines in which a comment begins, and not only look like it.
func commentLines(text []byte) map[int]bool {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, func(token.Position, string) {}, scanner.ScanComments)
	lines := map[int]bool{}
	for {
		pos, tok, _ := s.Scan()
		switch tok {
		case token.EOF:
			return lines
		case token.COMMENT:
			lines[file.Line(pos)] = true
		}
	}
}

func hasWideLine(lines []string) bool {
	for _, l := range lines {
		if lineWidth(l) > columns {
			return true
		}
	}
	return false
}

func lineWidth(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }

// wrapWords returns nil if a line would begin as a list item does.
func wrapWords(first, further string, words []string) (lines []string) {
	line := first
	for i, w := range words {
		switch {
		case i == 0:
			line += w
		case lineWidth(line)+1+utf8.RuneCountInString(w) > columns:
			if lines = append(lines, line); comment.FindStringSubmatch(further + w + " x")[3] != "" {
				return nil
			}
			line = further + w
		default:
			line += " " + w
		}
	}
	return append(lines, line)
}

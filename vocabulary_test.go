package rouse_test

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"
)

// terms are words that hide what a reader looks for, each with what to write instead. A reader who searches
// for the standard term has to find the place.
var terms = map[string]string{
	"says":       "returns, reports, means, contains",
	"said":       "reported, given",
	"nobody":     "no client, no node, nothing",
	"somebody":   "a client, another node",
	"whoever":    "the caller, a client that",
	"beside":     "next to, in addition to",
	"anew":       "again",
	"meanwhile":  "in the meantime, during",
	"unwell":     "unhealthy",
	"goes by":    "uses",
	"go by":      "use",
	"forget":     "delete",
	"forgets":    "deletes",
	"forgotten":  "deleted",
	"mend":       "repair, fix",
	"mended":     "repaired, fixed",
	"amiss":      "wrong",
	"lest":       "so that … not",
	"keeper":     "what it keeps",
	"house":      "a harness: harness; the code: the code",
	"world":      "a harness: harness; a simulation: simulation",
	"face":       "server, handler",
	"likewise":   "the same",
	"wherefore":  "why",
	"thereafter": "after that",
}

// given are names that are not ours to choose, or that users rely on: a user of Unix, and a metric.
var given = strings.NewReplacer(`"nobody"`, `""`, "rouse_index_mended_total", "")

// TestVocabulary checks the words of identifiers, comments, texts and pages: none of the terms above is among
// them.
func TestVocabulary(t *testing.T) {
	for _, file := range strings.Fields(output(t, "git", "ls-files", "*.go", "*.md", "*.proto", "*.sql", "*.lua")) {
		if strings.HasSuffix(file, ".pb.go") || file == "vocabulary_test.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue // deleted, and not committed yet
		}
		text = []byte(given.Replace(string(text)))
		words := string(text)
		if strings.HasSuffix(file, ".go") {
			words = wordsOf(text)
		}
		for i, line := range strings.Split(words, "\n") {
			before := ""
			for _, word := range strings.FieldsFunc(strings.ReplaceAll(line, ";", " ; "), func(r rune) bool { return !unicode.IsLetter(r) && r != ';' }) {
				word = strings.ToLower(word)
				for _, term := range [...]string{word, before + " " + word} {
					if terms[term] != "" {
						t.Errorf("%s:%d: %q: write %s", file, i+1, term, terms[term])
					}
				}
				before = word
			}
		}
	}
}

// wordsOf returns the comments, identifiers and texts of a Go file, identifiers cut into words, in their
// lines.
func wordsOf(text []byte) string {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	var b strings.Builder
	line := 1
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return b.String()
		}
		for ; line < file.Line(pos); line++ {
			b.WriteByte('\n')
		}
		switch tok {
		case token.IDENT:
			for i, r := range lit {
				if i > 0 && unicode.IsUpper(r) {
					b.WriteByte(' ')
				}
				b.WriteRune(r)
			}
			b.WriteString(" ; ") // two identifiers are no sentence
		case token.COMMENT, token.STRING:
			b.WriteString(lit + " ; ")
			line += strings.Count(lit, "\n")
		}
	}
}

func output(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := exec.Command(command, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

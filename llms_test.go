package rouse_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageTitle = regexp.MustCompile(`(?m)^# (.+)$`)
	pageLink  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentence  = regexp.MustCompile(`^.*?\.(\s|$)`)
)

// TestPagesAreListed compares llms.txt, a list of the documentation for programs that read text, with the
// pages: each has its title and its first sentence. With ROUSE_UPDATE=1, as in make generate, it writes the
// list instead.
func TestPagesAreListed(t *testing.T) {
	list, err := filepath.Glob("docs/*.md")
	if err != nil || len(list) == 0 {
		t.Fatal("no pages", err)
	}
	_, about := pageAbout(t, "README.md")
	want := "# rouse\n\n> " + about + "\n\n## Documentation\n\n"
	for _, page := range append([]string{"README.md"}, list...) {
		title, about := pageAbout(t, page)
		want += "- [" + title + "](" + filepath.ToSlash(page) + "): " + about + "\n"
	}
	want += "\n## Reference\n\n- [OpenAPI](api/openapi.yaml): the HTTP API\n- [Protocol buffers](api/rouse/v1/rouse.proto): the gRPC API\n"
	if os.Getenv("ROUSE_UPDATE") != "" {
		if err := os.WriteFile("llms.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("llms.txt")
	if err != nil || string(have) != want {
		t.Errorf("llms.txt is not the list of the pages: run make generate, or ROUSE_UPDATE=1 go test -run TestPagesAreListed . (%v)", err)
	}
}

// pageAbout returns the title of a page, and the first sentence of its first paragraph without links.
func pageAbout(t *testing.T, page string) (title, about string) {
	body, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	at := pageTitle.FindSubmatchIndex(body)
	if at == nil {
		t.Fatalf("%s has no title", page)
	}
	paragraph, _, _ := strings.Cut(strings.TrimSpace(string(body[at[1]:])), "\n\n")
	paragraph = pageLink.ReplaceAllString(strings.Join(strings.Fields(paragraph), " "), "$1")
	if first := sentence.FindString(paragraph); first != "" {
		paragraph = first
	}
	return string(body[at[2]:at[3]]), strings.TrimRight(strings.NewReplacer("*", "").Replace(paragraph), " :")
}

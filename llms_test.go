package rouse_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rousehq/rouse/docs"
	"github.com/rousehq/rouse/internal/book"
)

// TestPagesAreListed compares llms.txt, a list of the documentation for programs that read text, with the
// pages: each has its title and its first sentence. With ROUSE_UPDATE=1, as in make generate, it writes the
// list instead.
func TestPagesAreListed(t *testing.T) {
	chapters, err := book.Read(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	want := "# rouse\n\n> " + readmeAbout(t) + "\n"
	for _, c := range chapters {
		want += "\n" + c.ListPages("docs/")
	}
	want += "\n## Forms\n\n- [OpenAPI](api/openapi.yaml): the HTTP API\n- [Protocol buffers](api/rouse/v1/rouse.proto): the gRPC API\n"
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

// readmeAbout is what the README begins with.
func readmeAbout(t *testing.T) string {
	body, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(body), "**")
	about, _, _ := strings.Cut(after, "**")
	return strings.TrimRight(about, ".")
}

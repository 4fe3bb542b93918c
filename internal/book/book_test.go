package book_test

import (
	"bytes"
	"io/fs"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rousehq/rouse/docs"
	"github.com/rousehq/rouse/internal/book"
)

func written(t *testing.T) fs.FS {
	t.Helper()
	b, err := book.New(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := b.Write(dir); err != nil {
		t.Fatal(err)
	}
	return os.DirFS(dir)
}

// TestTextsOfTheBook: programs that read text find each page in a list, and all of them in one file.
func TestTextsOfTheBook(t *testing.T) {
	files := written(t)
	list, err := fs.ReadFile(files, "llms.txt")
	whole, failed := fs.ReadFile(files, "llms-full.txt")
	pages, _ := fs.Glob(docs.Files, "*.md")
	if err != nil || failed != nil || len(pages) < 40 {
		t.Fatalf("%d pages, %v, %v", len(pages), err, failed)
	}
	for _, page := range pages {
		source, err := fs.ReadFile(docs.Files, page)
		if err != nil || !bytes.Contains(whole, source) || bytes.Count(list, []byte("]("+page+"): ")) != 1 {
			t.Errorf("%s is not in the texts, or twice in the list (%v)", page, err)
		}
	}
}

// TestLinksOfTheBook: each link and each picture leads to what the book has, without a server.
func TestLinksOfTheBook(t *testing.T) {
	files := written(t)
	link, id := regexp.MustCompile(`(?:href|src)="([^"]*)"`), regexp.MustCompile(`\bid="([^"]*)"`)
	ids := map[string]map[string]bool{}
	pages, err := fs.Glob(files, "*.html")
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	bodies := map[string]string{}
	for _, page := range pages {
		body, err := fs.ReadFile(files, page)
		if err != nil {
			t.Fatal(err)
		}
		bodies[page] = string(body)
		ids[page] = map[string]bool{"": true}
		for _, m := range id.FindAllStringSubmatch(string(body), -1) {
			ids[page][m[1]] = true
		}
	}
	for page, body := range bodies {
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			name, anchor, _ := strings.Cut(m[1], "#")
			if name == "" {
				name = page
			}
			if _, err := fs.Stat(files, path.Clean(name)); err != nil {
				t.Errorf("%s: %s leads to nothing", page, m[1])
			} else if strings.HasSuffix(name, ".html") && !ids[name][anchor] {
				t.Errorf("%s: %s has no such place", page, m[1])
			}
		}
	}
}

// TestTheSearchFindsSections: the index has the text of pages by their headings, without their form.
func TestTheSearchFindsSections(t *testing.T) {
	index, err := fs.ReadFile(written(t), "sections.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`["policies.html#one-outage-misfire","Policies","One outage: misfire","The server is down from 9:55 to 10:34.`, `["start.html","Five minutes to the first fire","",`} {
		if !bytes.Contains(index, []byte(want)) {
			t.Errorf("the index has no %s", want)
		}
	}
	for _, form := range []string{"](", "| ---", "```"} {
		if bytes.Contains(index, []byte(form)) {
			t.Errorf("the index has %q", form)
		}
	}
}

func TestServe(t *testing.T) {
	b, err := book.New(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"/": {"200", "text/html", "durable timers"}, "/schedules.html": {"200", "text/html", "<h1>"}, "/schedules.md": {"200", "text/markdown", "# "},
		"/pictures/path.svg": {"200", "image/svg+xml", "<svg"}, "/book.js": {"200", "text/javascript", "search"}, "/../docs.go": {"404", "", ""}, "/pictures": {"404", "", ""},
	} {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequest("GET", name, nil))
		if got := w.Result().Status; !strings.HasPrefix(got, want[0]) || !strings.HasPrefix(w.Header().Get("Content-Type"), want[1]) || !strings.Contains(w.Body.String(), want[2]) {
			t.Errorf("%s: %s, %s", name, got, w.Header().Get("Content-Type"))
		}
		if want[0] == "200" && !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s has no policy", name)
		}
	}
}

// TestPagesThatAreRefused: every page has a title and a chapter.
func TestPagesThatAreRefused(t *testing.T) {
	all := fstest.MapFS{}
	names, err := fs.Glob(docs.Files, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all[name] = &fstest.MapFile{Data: []byte("# " + name + "\n\nText.\n")}
	}
	if _, err := book.Read(all); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(fstest.MapFS){
		"unlisted is in no chapter": func(m fstest.MapFS) { m["unlisted.md"] = &fstest.MapFile{Data: []byte("# x\n")} },
		"tour.md":                   func(m fstest.MapFS) { delete(m, "tour.md") },
		"does not begin with its title": func(m fstest.MapFS) {
			m["tour.md"] = &fstest.MapFile{Data: []byte("Text.\n")}
		},
	} {
		changed := fstest.MapFS{}
		for name, file := range all {
			changed[name] = file
		}
		change(changed)
		if _, err := book.Read(changed); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPicturesFollowTheTheme: each is readable on light and on dark pages, and loads nothing.
func TestPicturesFollowTheTheme(t *testing.T) {
	pictures, err := filepath.Glob("../../docs/pictures/*.svg")
	if err != nil || len(pictures) == 0 {
		t.Fatal(pictures, err)
	}
	for _, name := range pictures {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"prefers-color-scheme:dark", "<title>"} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
		if strings.Contains(strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", ""), "://") {
			t.Errorf("%s names something elsewhere", name)
		}
	}
}

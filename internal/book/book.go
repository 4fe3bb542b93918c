// Package book makes a web site of the documentation's pages: HTML with a table of contents, and a search
// that needs no server.
package book

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

//go:embed book.css
var style []byte

//go:embed book.js
var script []byte

// policy permits the pages to load files of the book only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Book is a web site: contents of files by their names.
type Book struct{ files map[string][]byte }

// Chapter is a part of the table of contents.
type Chapter struct {
	Title string
	Pages []*Page
}

// ListPages returns the chapter's pages as a list in Markdown, with links to their files in a directory.
func (c *Chapter) ListPages(dir string) string {
	list := "## " + c.Title + "\n\n"
	for _, p := range c.Pages {
		list += "- [" + p.Title + "](" + dir + p.Name + ".md): " + strings.TrimRight(p.About, ".:") + "\n"
	}
	return list
}

// Read reads the pages, which are the files *.md, in the order of the table of contents. A page that is not
// in the table is an error, as is one that is in it and does not exist.
func Read(files fs.FS) ([]Chapter, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	for _, name := range names {
		missing[strings.TrimSuffix(name, ".md")] = true
	}
	var list []Chapter
	for _, c := range chapters {
		one := Chapter{Title: c.title}
		for _, name := range c.pages {
			source, err := fs.ReadFile(files, name+".md")
			if err != nil {
				return nil, err
			}
			p, err := parsePage(name, source)
			if err != nil {
				return nil, err
			}
			one.Pages = append(one.Pages, p)
			delete(missing, name)
		}
		list = append(list, one)
	}
	for name := range missing {
		return nil, fmt.Errorf("page %s is in no chapter of the book", name)
	}
	return list, nil
}

// New makes the book of the pages and pictures in files.
func New(files fs.FS) (*Book, error) {
	list, err := Read(files)
	if err != nil {
		return nil, err
	}
	b := &Book{map[string][]byte{"book.css": style, "book.js": script}}
	var all []*Page
	listed, whole := "# rouse\n", ""
	for _, c := range list {
		all = append(all, c.Pages...)
		listed += "\n" + c.ListPages("")
		for _, p := range c.Pages {
			whole += string(p.source) + "\n"
		}
	}
	b.files["llms.txt"], b.files["llms-full.txt"] = []byte(listed), []byte(whole)
	var found [][4]string
	for i, p := range all {
		b.files[p.Name+".md"] = p.source
		b.files[p.Name+".html"] = framePage(list, p, p.renderArticle(adjacentPages(all, i)))
		for _, s := range p.sections {
			found = append(found, [4]string{p.Name + ".html" + anchorFragment(s.anchor), p.Title, s.heading, s.text})
		}
	}
	b.files["index.html"] = framePage(list, nil, contentsPage(list))
	index, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	b.files["sections.js"] = append(append([]byte("window.sections = "), index...), ";\n"...)
	for _, pattern := range []string{"*/*.png", "*/*.svg"} {
		pictures, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range pictures {
			if b.files[name], err = fs.ReadFile(files, name); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// ServeHTTP implements http.Handler.
func (b *Book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}
	body, ok := b.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if strings.HasSuffix(name, ".md") {
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// Write writes the book into a directory.
func (b *Book) Write(dir string) error {
	for name, body := range b.files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, body, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// framePage puts an article into a page with the table of contents and the search. The page is nil for the
// first page of the book.
func framePage(list []Chapter, p *Page, article string) []byte {
	title, source := "rouse", ""
	if p != nil {
		title, source = p.Title+" – rouse", fmt.Sprintf(`<link rel="alternate" type="text/markdown" href="%s.md">`, p.Name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<link rel="stylesheet" href="book.css">
%s
<script src="book.js" defer></script>
</head>
<body>
<a class="skip" href="#content">To the page</a>
<header class="top">
<a class="brand" href="index.html">rouse</a>
<search><input type="search" placeholder="Search" aria-label="Search" autocomplete="off" spellcheck="false"><kbd>/</kbd><ol hidden></ol></search>
</header>
<details class="menu"><summary>Contents</summary></details>
<nav aria-label="Contents">
`, html.EscapeString(title), source)
	for _, c := range list {
		fmt.Fprintf(&b, "<h2>%s</h2>\n<ul>\n", html.EscapeString(c.Title))
		for _, of := range c.Pages {
			here := ""
			if of == p {
				here = ` aria-current="page"`
			}
			fmt.Fprintf(&b, `<li><a href="%s.html"%s>%s</a></li>`+"\n", of.Name, here, html.EscapeString(of.Title))
		}
		b.WriteString("</ul>\n")
	}
	fmt.Fprintf(&b, "</nav>\n<main id=\"content\">\n%s</main>\n</body>\n</html>\n", article)
	return []byte(b.String())
}

// contentsPage is the first page of the book.
func contentsPage(list []Chapter) string {
	var b strings.Builder
	b.WriteString(`<article>
<h1>rouse: durable timers that wake your code</h1>
<p>A timer has a schedule, a payload and a target. rouse stores it durably, and delivers each occurrence on time, at least once, and never early.
Begin with <a href="start.html">the first five minutes</a>, or <a href="concepts.html">the concepts on one page</a>.</p>
`)
	for _, c := range list {
		fmt.Fprintf(&b, "<h2>%s</h2>\n<dl class=\"pages\">\n", html.EscapeString(c.Title))
		for _, p := range c.Pages {
			fmt.Fprintf(&b, `<dt><a href="%s.html">%s</a></dt><dd>%s</dd>`+"\n", p.Name, html.EscapeString(p.Title),
				html.EscapeString(p.About))
		}
		b.WriteString("</dl>\n")
	}
	return b.String() + "</article>\n"
}

// renderArticle returns the HTML of a page, with links to the pages before and after it.
func (p *Page) renderArticle(before, after *Page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<article>\n<h1>%s</h1>\n%s", html.EscapeString(p.Title), p.body)
	b.WriteString("<footer>")
	for _, end := range []struct {
		p   *Page
		rel string
	}{{before, "prev"}, {after, "next"}} {
		if end.p != nil {
			fmt.Fprintf(&b, `<a rel="%s" href="%s.html">%s</a>`, end.rel, end.p.Name, html.EscapeString(end.p.Title))
		}
	}
	fmt.Fprintf(&b, "<a class=\"source\" href=\"%s.md\">Markdown</a></footer>\n</article>\n", p.Name)
	b.WriteString("<aside aria-label=\"On this page\"><ul>\n")
	for _, s := range p.sections {
		if s.level == 2 || s.level == 3 {
			fmt.Fprintf(&b, `<li class="l%d"><a href="#%s">%s</a></li>`+"\n", s.level, s.anchor, html.EscapeString(s.heading))
		}
	}
	return b.String() + "</ul></aside>\n"
}

func adjacentPages(all []*Page, i int) (before, after *Page) {
	if i > 0 {
		before = all[i-1]
	}
	if i+1 < len(all) {
		after = all[i+1]
	}
	return before, after
}

func anchorFragment(anchor string) string {
	if anchor == "" {
		return ""
	}
	return "#" + anchor
}

package book

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	markdown "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// repository is where links to files that are no pages lead.
const repository = "https://github.com/rousehq/rouse/blob/main/"

// Page is a page of the documentation.
type Page struct {
	Name  string // of its file, without .md
	Title string
	About string // its first sentence

	source   []byte // Markdown
	body     string // HTML, without the title
	sections []section
}

// section is a heading of a page with its text, as the search finds it.
type section struct {
	anchor  string // empty: the beginning of the page
	heading string
	level   int
	text    string
}

var converter = goldmark.New(
	goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(markdown.WithUnsafe()), // the pages are part of the program
)

// parsePage converts a page. Its first heading is its title.
func parsePage(name string, source []byte) (*Page, error) {
	doc := converter.Parser().Parse(text.NewReader(source),
		parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	p := &Page{Name: name, source: source, sections: []section{{}}}
	title, is := doc.FirstChild().(*ast.Heading)
	if !is || title.Level != 1 {
		return p, fmt.Errorf("page %s does not begin with its title", name)
	}
	p.Title = plainText(title, source)
	doc.RemoveChild(doc, title)
	level := title.Level
	for block := doc.FirstChild(); block != nil; block = block.NextSibling() {
		last := &p.sections[len(p.sections)-1]
		if h, is := block.(*ast.Heading); is {
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			if h.Level > level+1 {
				return p, fmt.Errorf("page %s: heading %s skips a level", name, anchor)
			}
			level = h.Level
			p.sections = append(p.sections, section{anchor: string(anchor), heading: plainText(h, source), level: h.Level})
			continue
		}
		words := plainText(block, source)
		if p.About == "" && block.Kind() == ast.KindParagraph {
			p.About = firstSentence(words)
		}
		last.text = strings.TrimSpace(last.text + " " + words)
	}
	if err := rewriteLinks(doc); err != nil {
		return p, err
	}
	var out bytes.Buffer
	if err := converter.Renderer().Render(&out, source, doc); err != nil {
		return p, err
	}
	p.body = accessible.Replace(out.String())
	return p, nil
}

// accessible lets the keyboard scroll tables and code wider than the screen, and leaves out headings without
// text.
var accessible = strings.NewReplacer("<table>", `<div class="table" tabindex="0"><table>`, "</table>", "</table></div>",
	"<th></th>", "<td></td>", "<pre>", `<pre tabindex="0">`)

// anchors gives headings the names that links to them have on the pages.
type anchors struct{}

var symbols = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// Generate implements parser.IDs.
func (anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	return []byte(strings.ReplaceAll(symbols.ReplaceAllString(strings.ToLower(string(heading)), ""), " ", "-"))
}

// Put implements parser.IDs.
func (anchors) Put([]byte) {}

// rewriteLinks changes the links between pages to those of the book, and links to other files to those of the
// repository.
func rewriteLinks(doc ast.Node) error {
	return ast.Walk(doc, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		if l, is := n.(*ast.Link); is && enter {
			l.Destination = []byte(linkDestination(string(l.Destination)))
		}
		return ast.WalkContinue, nil
	})
}

func linkDestination(link string) string {
	name, anchor, _ := strings.Cut(link, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	switch {
	case name == "" || strings.Contains(name, "://"):
		return link
	case strings.HasPrefix(name, "../"):
		return repository + path.Clean(strings.TrimPrefix(name, "../")) + anchor
	case strings.HasSuffix(name, ".md"):
		return strings.TrimSuffix(name, ".md") + ".html" + anchor
	default:
		return link
	}
}

// plainText returns the text of a node, without its form.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, enter bool) (ast.WalkStatus, error) { // the function returns no error
		switch {
		case !enter:
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		case n.Kind() == ast.KindText:
			t := n.(*ast.Text)
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() || t.HardLineBreak() {
				b.WriteByte(' ')
			}
		case n.Kind() == ast.KindAutoLink:
			b.Write(n.(*ast.AutoLink).Label(source))
		case n.Kind() == ast.KindFencedCodeBlock:
			b.Write(n.(*ast.FencedCodeBlock).Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

func firstSentence(words string) string {
	if i := strings.Index(words, ". "); i >= 0 {
		return words[:i+1]
	}
	return words
}

package server

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Table is a table of the status page.
type Table struct {
	Title string
	Note  string   // one sentence about it
	Head  []string // column titles
	Rows  []Row
}

// Row is a row of a table.
type Row struct {
	Cells []string
	Warn  bool // needs an operator's attention
}

//go:embed page.html
var pageText string

// pageView is what the page shows.
type pageView struct {
	version string
	now     time.Time
	trouble []string
	tables  []Table
}

// write writes the page. It is no html/template: a program that links one keeps every exported method of
// every type that it links, which makes programs that embed rouse several MB larger.
func (v *pageView) write(w io.Writer) error {
	var b strings.Builder
	tag := func(open, text, end string) { b.WriteString(open + html.EscapeString(text) + end) }
	if len(v.trouble) > 0 {
		b.WriteString("<ul>")
		for _, t := range v.trouble {
			tag("<li>", t, "</li>")
		}
		b.WriteString("</ul>\n")
	}
	for _, t := range v.tables {
		tag("<h2>", t.Title, "</h2>\n")
		tag("<p>", t.Note, "</p>\n")
		if len(t.Rows) == 0 {
			b.WriteString("<p>None.</p>\n")
			continue
		}
		b.WriteString("<div class=\"wide\"><table>\n<thead><tr>")
		for _, h := range t.Head {
			tag(`<th scope="col">`, h, "</th>")
		}
		b.WriteString("</tr></thead>\n<tbody>\n")
		for _, row := range t.Rows {
			b.WriteString(map[bool]string{false: "<tr>", true: `<tr class="warn">`}[row.Warn])
			for _, cell := range row.Cells {
				tag("<td>", cell, "</td>")
			}
			b.WriteString("</tr>\n")
		}
		b.WriteString("</tbody>\n</table></div>\n")
	}
	_, err := strings.NewReplacer("{{version}}", html.EscapeString(v.version), "{{now}}", v.now.UTC().Format(time.RFC3339), "{{body}}", b.String()).
		WriteString(w, pageText)
	return err
}

// page is a status page for people. It refreshes itself, has no scripts, and changes nothing.
func (s *service) page(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), nodesWithin)
	defer cancel()
	view := pageView{version: s.opts.Version, now: time.Now()}
	if s.timers != nil {
		view.now = s.timers.Now().Time()
	}
	add := func(t Table, err error) {
		if err != nil {
			view.trouble = append(view.trouble, err.Error())
			return
		}
		view.tables = append(view.tables, t)
	}
	for _, check := range []func() error{s.opts.Live, s.opts.Ready, s.opts.Degraded} {
		if err := check(); err != nil {
			view.trouble = append(view.trouble, err.Error())
			break // a node that is not alive is not ready either
		}
	}
	if s.timers != nil {
		add(s.timersTable(ctx))
		add(s.nodesTable(ctx))
	}
	for _, more := range s.opts.Tables {
		add(more(ctx))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = view.write(w) // an error means that the reader is gone
}

func (s *service) timersTable(ctx context.Context) (Table, error) {
	t := Table{Title: "Timers", Note: "Of the whole store, by what they are doing.", Head: []string{"state", "timers"}}
	for _, state := range []rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused, rouse.StateEnded, rouse.StateFiring, rouse.StateDead} {
		n, err := s.timers.Count(ctx, rouse.Query{States: []rouse.State{state}})
		if err != nil {
			return t, fmt.Errorf("the timers cannot be counted: %w", err)
		}
		t.Rows = append(t.Rows, Row{[]string{state.String(), strconv.FormatInt(n, 10)}, state == rouse.StateDead && n > 0})
	}
	return t, nil
}

func (s *service) nodesTable(ctx context.Context) (Table, error) {
	t := Table{Title: "Nodes", Note: "Processes that serve the store.", Head: []string{"node", "address", "version", "started", "shares", "roles", ""}}
	list, err := s.nodes(ctx)
	if err != nil {
		return t, fmt.Errorf("the nodes cannot be listed: %w", err)
	}
	for _, n := range list {
		var what []string
		if n.Self {
			what = append(what, "this one")
		}
		if n.Leader {
			what = append(what, "leader")
		}
		roles := strings.Join(n.Roles, ", ")
		roles = cmp.Or(roles, "all")
		t.Rows = append(t.Rows, Row{Cells: []string{n.ID, n.Address, n.Version, n.Started.Time().UTC().Format(time.RFC3339), strconv.Itoa(n.Buckets), roles,
			strings.Join(what, ", ")}})
	}
	return t, nil
}

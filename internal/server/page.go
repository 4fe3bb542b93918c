package server

import (
	"context"
	_ "embed" // the page
	"fmt"
	"html/template"
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

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is a status page for people. It refreshes itself, has no scripts, and changes nothing.
func (s *service) page(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), nodesWithin)
	defer cancel()
	view := struct {
		Version string
		Now     string
		Trouble []string
		Tables  []Table
	}{Version: s.opts.Version, Now: s.timers.Now().Time().UTC().Format(time.RFC3339)}
	add := func(t Table, err error) {
		if err != nil {
			view.Trouble = append(view.Trouble, err.Error())
			return
		}
		view.Tables = append(view.Tables, t)
	}
	for _, check := range []func() error{s.opts.Live, s.opts.Ready} {
		if err := check(); err != nil {
			view.Trouble = append(view.Trouble, err.Error())
			break // a node that is not alive is not ready either
		}
	}
	add(s.timersTable(ctx))
	add(s.nodesTable(ctx))
	for _, more := range s.opts.Tables {
		add(more(ctx))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = pageTemplate.Execute(w, view) // an error means that the reader is gone
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
		if roles == "" {
			roles = "all"
		}
		t.Rows = append(t.Rows, Row{Cells: []string{n.ID, n.Address, n.Version, n.Started.Time().UTC().Format(time.RFC3339), strconv.Itoa(n.Buckets), roles,
			strings.Join(what, ", ")}})
	}
	return t, nil
}

package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table prints rows in columns as wide as their widest cell. It buffers one block of rows, so that a list
// of any length is printed as it arrives, in bounded memory. Each block has its own column widths, which
// never shrink.
type table struct {
	out    io.Writer
	style  style
	header []string
	widths []int
	rows   [][]string
	begun  bool
	paint  map[int]func(string) string // columns with colours
}

const tableBlock = 500

func newTable(a *app, header ...string) *table {
	return &table{out: a.out, style: a.style, header: header, widths: make([]int, len(header)),
		paint: map[int]func(string) string{}}
}

// addTableRow adds a row; it is printed with its block.
func (t *table) addTableRow(cells ...string) error {
	for i := range cells {
		cells[i] = cleanText(cells[i])
	}
	if t.rows = append(t.rows, cells); len(t.rows) < tableBlock {
		return nil
	}
	return t.flushTable()
}

// flushTable prints the buffered rows.
func (t *table) flushTable() error {
	if len(t.rows) == 0 {
		return nil
	}
	first := !t.begun
	if t.begun = true; first {
		t.rows = append([][]string{t.header}, t.rows...)
	}
	return t.printTableRows(first)
}

func (t *table) printTableRows(header bool) error {
	for _, cells := range t.rows {
		for i, c := range cells {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for n, cells := range t.rows {
		for i, c := range cells {
			pad := t.widths[i] - utf8.RuneCountInString(c)
			switch paint := t.paint[i]; {
			case header && n == 0:
				c = t.style.faint(c)
			case paint != nil:
				c = paint(c)
			}
			b.WriteString(c)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", pad+2))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = t.rows[:0]
	_, err := io.WriteString(t.out, b.String())
	return err
}

// printFacts prints names and values in two columns; empty values are left out.
func printFacts(w io.Writer, s style, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			value := cleanText(pairs[i+1])
			if pairs[i] == "state" || pairs[i] == "ending" {
				value = s.paintWord(value)
			}
			fmt.Fprintf(w, "%s%s  %s\n", s.faint(pairs[i]), strings.Repeat(" ", width-len(pairs[i])), value)
		}
	}
}

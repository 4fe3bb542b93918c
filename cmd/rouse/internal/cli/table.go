package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table prints rows in columns as wide as their widest cell. It buffers one block of rows, so that a list
// of any length is printed as it arrives, in bounded memory. Each block has its own column widths, which
// never shrink.
type Table struct {
	out    io.Writer
	style  style
	header []string
	Widths []int
	rows   [][]string
	begun  bool
	Paint  map[int]func(string) string // columns with colours
}

const tableBlock = 500

func NewTable(a *App, header ...string) *Table {
	return &Table{out: a.Out, style: a.Style, header: header, Widths: make([]int, len(header)),
		Paint: map[int]func(string) string{}}
}

// AddTableRow adds a row; it is printed with its block.
func (t *Table) AddTableRow(cells ...string) error {
	for i := range cells {
		cells[i] = CleanText(cells[i])
	}
	if t.rows = append(t.rows, cells); len(t.rows) < tableBlock {
		return nil
	}
	return t.FlushTable()
}

// FlushTable prints the buffered rows.
func (t *Table) FlushTable() error {
	if len(t.rows) == 0 {
		return nil
	}
	first := !t.begun
	if t.begun = true; first {
		t.rows = append([][]string{t.header}, t.rows...)
	}
	return t.printTableRows(first)
}

func (t *Table) printTableRows(header bool) error {
	for _, cells := range t.rows {
		for i, c := range cells {
			t.Widths[i] = max(t.Widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for n, cells := range t.rows {
		for i, c := range cells {
			pad := t.Widths[i] - utf8.RuneCountInString(c)
			switch paint := t.Paint[i]; {
			case header && n == 0:
				c = t.style.Faint(c)
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

// PrintFacts prints names and values in two columns; empty values are left out.
func PrintFacts(w io.Writer, s style, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			value := CleanText(pairs[i+1])
			if pairs[i] == "state" || pairs[i] == "ending" {
				value = s.PaintWord(value)
			}
			fmt.Fprintf(w, "%s%s  %s\n", s.Faint(pairs[i]), strings.Repeat(" ", width-len(pairs[i])), value)
		}
	}
}

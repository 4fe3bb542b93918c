package allocation

import (
	"cmp"
	"slices"
	"sort"
)

// Table is an immutable index of a book and its seats.
type Table struct {
	Generation uint64
	Rows       []Row // in order of creation

	byID  map[string]*Row
	byApp map[string][]*Row
	gives map[client][]*Row // rows with tokens to issue
	lines map[line][]*Row   // by their first token
}

// client is an app's sidecar.
type client struct{ app, address string }

// Row is a bucket with its assignment.
type Row struct {
	Bucket
	Seat
}

// line is one iteration through an app's tokens.
type line struct{ prefix, vector string }

// NewTable returns the table of a book. A bucket without a seat has no client and no instance.
func NewTable(b *Book, seats map[string]Seat) *Table {
	t := &Table{Generation: b.Generation, Rows: make([]Row, len(b.Buckets)), byID: map[string]*Row{},
		byApp: map[string][]*Row{},
		gives: map[client][]*Row{}, lines: map[line][]*Row{}}
	for i := range b.Buckets {
		r := &t.Rows[i]
		r.Bucket, r.Seat = b.Buckets[i], seats[b.Buckets[i].ID]
		t.byID[r.ID] = r
		t.byApp[r.App] = append(t.byApp[r.App], r)
		if c := (client{r.App, r.Client}); r.Client != "" && r.Instance != "" && r.State.Gives() {
			t.gives[c] = append(t.gives[c], r)
		}
		l := line{r.Prefix, r.Vector}
		t.lines[l] = append(t.lines[l], r)
	}
	for _, rows := range t.lines {
		slices.SortFunc(rows, func(a, b *Row) int { return cmp.Compare(a.From, b.From) })
	}
	return t
}

// Bucket returns the row of a bucket, nil if it does not exist.
func (t *Table) Bucket(id string) *Row { return t.byID[id] }

// App returns the rows of an app.
func (t *Table) App(name string) []*Row { return t.byApp[name] }

// Giving returns the rows of a sidecar's buckets with tokens to issue, in order of creation.
func (t *Table) Giving(app, address string) []*Row { return t.gives[client{app, address}] }

// Of returns the row of the bucket of an id's token. It returns nil if the bucket was collected or is not
// known yet.
func (t *Table) Of(id ID) *Row {
	rows := t.lines[line{id.Prefix, id.Vector}]
	i := sort.Search(len(rows), func(i int) bool { return rows[i].To >= id.Token })
	if i < len(rows) && rows[i].Has(id) {
		return rows[i]
	}
	return nil
}

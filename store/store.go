// Package store opens stores by their URLs:
//
//	import _ "github.com/rousehq/rouse/store/postgres"
//
//	s, err := store.Open(ctx, "postgres://rouse@db.internal/rouse", store.Options{})
//
// Each kind of store is a package below this one. It registers itself when a program imports it, like
// drivers of database/sql, so that a program links only the kinds that it uses. Package node imports
// store/pebble and store/mem; package node/all imports every kind.
package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Options configure a store. A kind ignores the options that it does not use. Zero fields have the defaults
// of the kind.
type Options struct {
	Clock      func() time.Time // of a store in files or in memory; default time.Now
	AcceptLoss bool             // open a store in files although it has lost acknowledged writes, without these
	Report     func(error)      // is called when a store in files finds damage

	Client      string // name of the client's connections, as the server of the store shows it
	Direct      string // URL of the server itself, if the URL of the store is that of a pooler
	AllowUnsafe bool   // accept a server whose settings can lose acknowledged writes

	Index       string // URL of an index of due times in front of the store; "" is none
	Criticality uint8  // least criticality of timers that fire while the index is unavailable

	Log *slog.Logger
}

// Kind is one kind of store.
type Kind struct {
	Name    string
	Shared  bool // several nodes may use a store at a time
	schemes []string
	form    string // of URLs, as errors show it
	driver  *Driver
}

// Driver is the registration of a kind by its package.
type Driver struct {
	Open  func(ctx context.Context, url string, o Options) (rouse.Store, error)
	Files *Files // nil: there are no backups of these stores
}

// Files describes the files of a store that one process has to itself. Its URLs are the kind's name, a colon
// and a path.
type Files struct {
	// Checkpoint is the file of a checkpoint that is the store; "" if its directory is.
	Checkpoint string

	// Absent are endings of the path of a restored store. No file with one of them may exist, as the store
	// would use it.
	Absent []string

	// Count counts the rows by state, and the records, of a store that no process has open.
	Count func(ctx context.Context, path string) (rows map[rouse.State]int64, records int64, err error)

	// Prefix returns how the paths of directories begin that only the process with this open store makes, on
	// the file system of the store; false if the store is of another kind.
	Prefix func(s rouse.Store) (string, bool)
}

// kinds are all kinds, in the order in which errors show them. The package of a kind has its name.
var kinds = []*Kind{
	{Name: "pebble", schemes: []string{"pebble"}, form: "pebble:DIR"},
	{Name: "sqlite", schemes: []string{"sqlite"}, form: "sqlite:FILE"},
	{Name: "mem", schemes: []string{"mem"}, form: "mem:"},
	{Name: "postgres", Shared: true, schemes: []string{"postgres", "postgresql"}, form: "postgres://HOST/DATABASE"},
	{Name: "redis", Shared: true, schemes: []string{"redis", "rediss", "redis+sentinel", "rediss+sentinel",
		"redis+cluster", "rediss+cluster"},
		form: "redis://HOST:PORT"},
	{Name: index, Shared: true}, // has no URL of its own: it is a store with Options.Index
}

// index is the kind of a store with an index in front of it.
const index = "front"

// Register makes a kind available. The package of the kind calls it when the program starts.
func Register(name string, d Driver) {
	k := findKind(name)
	if k == nil || k.driver != nil {
		panic("store: " + name + " is registered twice, or is not in the table of kinds")
	}
	k.driver = &d
}

func findKind(name string) *Kind {
	i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// KindOf returns the kind of the store at a URL. The program need not link it.
func KindOf(url string) (*Kind, error) {
	scheme, rest, cut := strings.Cut(url, ":")
	for _, k := range kinds {
		if slices.Contains(k.schemes, scheme) && k.acceptsForm(rest, cut) {
			return k, nil
		}
	}
	return nil, errUnknown(url)
}

// acceptsForm reports whether the rest of a URL, behind the scheme, has the form of the kind.
func (k *Kind) acceptsForm(rest string, cut bool) bool {
	switch {
	case !cut:
		return false
	case k.Shared:
		return strings.HasPrefix(rest, "//")
	case strings.HasSuffix(k.form, ":"):
		return rest == ""
	}
	return rest != ""
}

// errUnknown names the kinds, and shows no password. Of a path alone it has the URL.
func errUnknown(url string) error {
	shown, _, cut := strings.Cut(url, ":")
	if cut {
		shown += ":…"
	} else if strings.ContainsAny(url, `/\\.`) {
		return refuseStore("%q is a path: give pebble:%[1]s for a directory, or sqlite:%[1]s for a file", url)
	}
	var forms []string
	for _, k := range kinds {
		if k.form != "" {
			forms = append(forms, k.form)
		}
	}
	last := len(forms) - 1
	return refuseStore("%q is not offered: give %s or %s, or nothing for pebble in the data directory", shown,
		strings.Join(forms[:last], ", "), forms[last])
}

func refuseStore(format string, args ...any) error {
	return &rouse.Invalid{Problems: []rouse.Problem{{Field: "store", Wrong: fmt.Sprintf(format, args...)}}}
}

// Linked returns an error that names the package to import, if the program does not link the kind.
func (k *Kind) Linked() error {
	if k.driver == nil {
		return refuseStore("is of the kind %s, which this program does not link: import _ %q", k.Name,
			"github.com/rousehq/rouse/store/"+k.Name)
	}
	return nil
}

// Open opens the store at a URL: pebble:DIR, sqlite:FILE, mem:, or the URL of a PostgreSQL (postgres://…) or
// of one or several Redis (redis://…, rediss://…, redis+sentinel://…, redis+cluster://…).
func Open(ctx context.Context, url string, o Options) (rouse.Store, error) {
	k, err := KindOf(url)
	if err != nil {
		return nil, err
	}
	if o.Index != "" {
		k = findKind(index)
	}
	if err := k.Linked(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s, err := k.driver.Open(ctx, url, o)
	if err != nil {
		return nil, err // not s, which may hold a nil pointer
	}
	return s, nil
}

// FilesOf describes the files of stores of a kind; nil if there are no backups of such stores, or the program
// does not link the kind.
func FilesOf(name string) *Files {
	if k := findKind(name); k != nil && k.driver != nil {
		return k.driver.Files
	}
	return nil
}

// WithFiles returns the names of the kinds that have files and that the program links.
func WithFiles() (names []string) {
	for _, k := range kinds {
		if k.driver != nil && k.driver.Files != nil {
			names = append(names, k.Name)
		}
	}
	return names
}

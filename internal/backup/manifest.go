package backup

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// format is the version of the archive. It increases when an older rouse could no longer read it.
const format = 1

// Manifest describes an archive.
type Manifest struct {
	Format  int              `json:"format"`
	Rouse   string           `json:"rouse"`   // version of the rouse that wrote it
	Store   string           `json:"store"`   // kind of the store: pebble or sqlite
	Taken   time.Time        `json:"taken"`   // by the store's clock: everything acknowledged before is in it
	Rows    map[string]int64 `json:"rows"`    // by state, of all namespaces; states without rows are left out
	Records int64            `json:"records"` // of ended occurrences
	Files   []File           `json:"files"`   // sorted by name
}

// File is a file of the store.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // in bytes
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Limits of an archive: far beyond the size of a store, and far below a size that harms a reader.
const (
	maxManifest = 32 << 20
	maxFiles    = 1 << 17
	maxBytes    = 1 << 46
)

// fileName matches the names of a store's files: no such name leads out of a directory.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// readManifest reads and checks a manifest.
func readManifest(text []byte) (m Manifest, err error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return m, damagedError(manifestName, "is no JSON object: "+err.Error())
	}
	if version.Format > format {
		return m, rouse.Refuse("archive", manifestName, fmt.Sprintf("has format %d, this rouse reads formats up to %d",
			version.Format, format),
			"use the newer rouse that wrote it")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, damagedError(manifestName, "is unreadable: "+err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return m, damagedError(manifestName, "goes on behind its end")
	}
	k, known := kindNamed(m.Store)
	switch {
	case m.Format != format:
		return m, damagedError(manifestName, "has format "+strconv.Itoa(m.Format)+", which there is not")
	case !known:
		return m, damagedError(manifestName, "is of a store "+strconv.Quote(m.Store)+", which this rouse does not know")
	case len(m.Files) == 0 || len(m.Files) > maxFiles:
		return m, damagedError(manifestName, fmt.Sprintf("has %d files", len(m.Files)))
	case k.Checkpoint != "" && (len(m.Files) != 1 || m.Files[0].Name != k.Checkpoint):
		return m, damagedError(manifestName, "has other files than "+k.Checkpoint)
	case m.Records < 0:
		return m, damagedError(manifestName, "has a negative number of records")
	}
	for state, n := range m.Rows {
		if n <= 0 || !slices.ContainsFunc(states, func(s rouse.State) bool { return s.String() == state }) {
			return m, damagedError(manifestName, fmt.Sprintf("has %d rows in state %q", n, state))
		}
	}
	return m, m.checkFiles()
}

func (m *Manifest) checkFiles() error {
	total, last := int64(0), ""
	for _, f := range m.Files {
		hash, err := hex.DecodeString(f.SHA256)
		switch {
		case !fileName.MatchString(f.Name):
			return damagedError(f.Name, "is no name of a file of a store")
		case f.Name <= last:
			return damagedError(f.Name, "is there twice, or out of order")
		case f.Size < 0 || f.Size > maxBytes || total+f.Size > maxBytes:
			return damagedError(f.Name, fmt.Sprintf("has an absurd size, %d bytes", f.Size))
		case err != nil || len(hash) != 32 || strings.ToLower(f.SHA256) != f.SHA256:
			return damagedError(f.Name, "has no SHA-256")
		}
		last, total = f.Name, total+f.Size
	}
	return nil
}

// states contains the states of rows.
var states = rouse.EveryState

// describeDifference describes how a store's counts differ from the manifest's; "" if they do not.
func (m *Manifest) describeDifference(rows map[string]int64, records int64) string {
	switch {
	case !maps.Equal(rows, m.Rows):
		return fmt.Sprintf("has rows %v, the manifest has %v", rows, m.Rows)
	case records != m.Records:
		return fmt.Sprintf("has %d records, the manifest has %d", records, m.Records)
	}
	return ""
}

// damagedError returns the error that a part of an archive is wrong.
func damagedError(part, wrong string) error {
	return rouse.Refuse("archive", part, wrong, "the archive is no backup, or damaged: use another one")
}

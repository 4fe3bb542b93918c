package crash

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/harness"
)

// damages are what a start must refuse: with an error that names the place and the cure, and without changing
// anything.
var damages = []struct {
	name  string
	store string // "pebble" or "sqlite"
	do    func(t testing.TB, data string)
	want  []string

	opens bool // what is wrong shows only when Pebble opens the store, which is prepared by then
}{
	{"another program's directory", "pebble", func(t testing.TB, data string) {
		remove(t, data, "pebble")
		write(t, filepath.Join(data, "pebble", "diary.txt"), "dear diary")
	}, []string{"pebble", "no store of rouse", "name a directory that is empty"}, false},
	{"a file", "pebble", func(t testing.TB, data string) {
		remove(t, data, "pebble")
		write(t, filepath.Join(data, "pebble"), "a file")
	}, []string{"pebble", "no directory", "name one"}, false},
	{"a store of a later version", "pebble", func(t testing.TB, data string) {
		change(t, one(t, data, "pebble/ROUSE"), func(b []byte) []byte { return regexp.MustCompile(`format \d+`).ReplaceAll(b, []byte("format 99")) })
	}, []string{"pebble", "format 99", "run the newer rouse"}, false},
	{"a garbled marker", "pebble", func(t testing.TB, data string) {
		garble(t, one(t, data, "pebble/ROUSE"), 0)
	}, []string{"pebble", "damaged", "restore"}, false},
	{"no manifest", "pebble", func(t testing.TB, data string) {
		remove(t, data, "pebble/MANIFEST-*")
	}, []string{"pebble", "damaged", "restore"}, false},
	{"a garbled manifest", "pebble", func(t testing.TB, data string) {
		garble(t, one(t, data, "pebble/MANIFEST-*"), 0)
	}, []string{"pebble", "damaged", "restore"}, false},
	{"a lost table", "pebble", func(t testing.TB, data string) {
		remove(t, data, "pebble/*.sst")
	}, []string{"pebble", "damaged", "restore"}, true},
	{"a table cut short", "pebble", func(t testing.TB, data string) {
		change(t, one(t, data, "pebble/*.sst"), half)
	}, []string{"pebble", "damaged", "restore"}, true},
	{"all files lost but the marker", "pebble", func(t testing.TB, data string) {
		remove(t, data, "pebble/[^RL]*")
	}, []string{"pebble", "damaged", "restore"}, false},

	{"a text", "sqlite", func(t testing.TB, data string) {
		remove(t, data, "timers.db.witness")
		change(t, one(t, data, "timers.db"), diary)
	}, []string{"timers.db", "no SQLite file", "name a file that does not exist yet"}, false},
	{"an empty file", "sqlite", func(t testing.TB, data string) {
		remove(t, data, "timers.db.witness")
		change(t, one(t, data, "timers.db"), func([]byte) []byte { return nil })
	}, []string{"timers.db", "is empty", "remove this one"}, false},
	{"another application's file", "sqlite", func(t testing.TB, data string) {
		remove(t, data, "timers.db.witness")
		change(t, one(t, data, "timers.db"), func(b []byte) []byte {
			clear(b[68:72])
			clear(b[4088:4096]) // where a page of rouse has its checksum
			return b
		})
	}, []string{"timers.db", "another application", "name a file"}, false},
	{"a text in place of a store", "sqlite", func(t testing.TB, data string) { // which its witness tells
		change(t, one(t, data, "timers.db"), diary)
	}, []string{"timers.db", "damaged", "no SQLite file", "restore"}, false},
	{"an empty file in place of a store", "sqlite", func(t testing.TB, data string) {
		change(t, one(t, data, "timers.db"), func([]byte) []byte { return nil })
	}, []string{"timers.db", "damaged", "is empty", "restore"}, false},
	{"another application's file in place of a store", "sqlite", func(t testing.TB, data string) {
		change(t, one(t, data, "timers.db"), func(b []byte) []byte { clear(b[68:72]); return b })
	}, []string{"timers.db", "damaged", "another application", "restore"}, false},
	{"a store of a later version", "sqlite", func(t testing.TB, data string) {
		change(t, one(t, data, "timers.db"), func(b []byte) []byte { b[63] = 99; return b })
	}, []string{"timers.db", "format 99", "run the newer rouse"}, false},
	{"a file cut short", "sqlite", func(t testing.TB, data string) {
		change(t, one(t, data, "timers.db"), half)
	}, []string{"timers.db", "damaged", "restore"}, false},
	{"a garbled schema", "sqlite", func(t testing.TB, data string) {
		garble(t, one(t, data, "timers.db"), 100)
	}, []string{"timers.db", "damaged", "restore"}, false},
	{"a directory", "sqlite", func(t testing.TB, data string) {
		remove(t, data, "timers.db")
		write(t, filepath.Join(data, "timers.db", "diary.txt"), "dear diary")
	}, []string{"timers.db", "is no file", "name one"}, false},
}

func diary([]byte) []byte { return bytes.Repeat([]byte("dear diary\n"), 100) }

// TestDamage starts the server on what is not, or no longer, a store of its own.
func TestDamage(t *testing.T) {
	whole := map[string]string{}
	for _, st := range stores {
		whole[st.name] = filled(t, st.place)
	}
	for _, d := range damages {
		t.Run(d.store+"/"+strings.ReplaceAll(d.name, "'", ""), func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(harness.TempDir(t), "data")
			if err := os.CopyFS(data, os.DirFS(whole[d.store])); err != nil {
				t.Fatal(err)
			}
			d.do(t, data)
			s := newServer(t, data, placeOf(d.store, data))
			if !d.opens {
				s.refuses(d.want...)
				return
			}
			s.refusesWith(contents, d.want...)
		})
	}
}

// TestDamageAtUse garbles what no start looks at. The server may start, but it must not take what it cannot
// read for gone.
func TestDamageAtUse(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			data := filled(t, st.place)
			pattern := "pebble/*.sst"
			if st.name == "sqlite" {
				pattern = "timers.db"
			}
			change(t, one(t, data, pattern), func(b []byte) []byte { // every other piece
				for at := 8 << 10; at+4096 < len(b)-8<<10; at += 8 << 10 {
					noise(b[at : at+4096])
				}
				return b
			})
			s := newServer(t, data, st.place(data))
			s.Launch()
			select {
			case <-s.Exited:
				if code := s.Cmd.ProcessState.ExitCode(); code <= 0 || !strings.Contains(s.Output(), "damaged") {
					t.Errorf("it ends with %v, and does not say that the store is damaged:\n%s", s.Cmd.ProcessState, s.Output())
				}
				return
			case <-s.Listen:
			}
			ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
			defer cancel()
			c := s.Dial(time.Nanosecond)
			for range c.List(ctx, rouse.Query{}) {
			}
			for i := 0; i < filling; i += filling / 50 {
				if _, err := c.Get(ctx, "", fillName(i)); errors.Is(err, rouse.ErrNotFound) {
					t.Fatalf("%s, which was acknowledged, does not exist", fillName(i))
				}
			}
		})
	}
}

// TestSecondProcess starts a second server on the data of a running one. It is refused, and the first one
// does not mind.
func TestSecondProcess(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(harness.TempDir(t), "data")
			first := newServer(t, data, st.place(data))
			first.Start()
			second := newServer(t, data, st.place(data))
			second.Launch()
			if code := second.Wait(); code <= 0 {
				t.Errorf("the second ends with %v", second.Cmd.ProcessState)
			}
			second.wantOutput("in use by another rouse", "stop the other one")
			ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
			defer cancel()
			if _, err := first.Dial(0).Create(ctx, "", "after", rouse.Spec{Schedule: "@after 1h", Target: "stream:"}); err != nil {
				t.Errorf("the first one is not well any more: %v", err)
			}
			first.Stop()
			second.Start() // the way is free
			second.Stop()
		})
	}
}

package certs

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// watchEvery is how often files are checked for changes.
const watchEvery = 2 * time.Second

// Watch reads files again when they change.
type Watch struct {
	Names []string
	What  string        // they are, for the log
	Log   *slog.Logger  // default none
	Every time.Duration // how often the files are checked; default 2 s

	texts [][]byte // of the last successful use
	stale atomic.Bool
}

// Read reads the files for the first time.
func (w *Watch) Read() ([][]byte, error) {
	texts, err := w.readAllFiles()
	w.texts = texts
	return texts, err
}

// Run calls use with the contents whenever they have changed, until ctx ends. If use returns an error, it is
// called again at the next check: files that are written one after another do not match for a moment. Each
// error is logged once, until the error changes.
func (w *Watch) Run(ctx context.Context, use func(texts [][]byte) error) {
	log := w.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	tick := time.NewTicker(cmp.Or(w.Every, watchEvery))
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := w.useIfChanged(use)
		w.stale.Store(err != nil)
		switch {
		case err != nil && err.Error() != logged:
			log.Warn("not read again; the old ones stay in force", "what", w.What, "error", err)
			logged = err.Error()
		case err == nil:
			if logged = ""; changed {
				log.Info("read again", "what", w.What)
			}
		}
	}
}

func (w *Watch) useIfChanged(use func(texts [][]byte) error) (changed bool, err error) {
	texts, err := w.readAllFiles()
	if err != nil || equalTexts(texts, w.texts) {
		return false, err
	}
	if err := use(texts); err != nil {
		return false, err
	}
	w.texts = texts
	return true, nil
}

// Stale reports whether the files cannot be used at present, so that their previous contents are in use.
func (w *Watch) Stale() bool { return w.stale.Load() }

// readAllFiles reads the files one after another.
func (w *Watch) readAllFiles() (texts [][]byte, err error) {
	for _, name := range w.Names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func equalTexts(a, b [][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// profiles are the files of pprof that are being written while something is measured.
type profiles struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

// startProfiles writes profiles of the servers over a time, in whole seconds, into the directory of the
// options: CPU time and allocations, a file of each for every server. It returns at once.
func (t *target) startProfiles(ctx context.Context, during time.Duration) *profiles {
	w := &profiles{}
	if t.o.Profile == "" {
		return w
	}
	seconds := max(1, int(during/time.Second))
	for _, p := range t.processes {
		for what, page := range map[string]string{"cpu": "profile", "allocs": "allocs"} {
			file := filepath.Join(t.o.Profile, p.name+"-"+what+".pprof")
			w.wg.Go(func() {
				if err := downloadProfile(ctx, fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", p.admin, page, seconds),
					file); err != nil {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.errs = append(w.errs, fmt.Errorf("profile %s: %w", what, err))
				}
			})
		}
	}
	return w
}

// waitForProfiles returns when all files are written.
func (w *profiles) waitForProfiles() error {
	w.wg.Wait()
	return errors.Join(w.errs...)
}

func downloadProfile(ctx context.Context, url, file string) (err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, resp.Body)
	return err
}

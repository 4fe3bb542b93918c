package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/server"
)

// Ports are those of a program that answer for its health and its metrics.
type Ports struct {
	servers []*http.Server
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

// ServePort answers requests on a port of their own.
func (p *Ports) ServePort(what, address string, answer http.HandlerFunc, patterns ...string) (addr string, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen for %s: %w", what, err)
	}
	mux := http.NewServeMux()
	for _, pattern := range patterns {
		mux.HandleFunc(pattern, answer)
	}
	s := &http.Server{Handler: server.Guard(mux, l.Addr(), nil), ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	p.servers = append(p.servers, s)
	p.running.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.mu.Lock()
			p.errs = append(p.errs, fmt.Errorf("serve %s: %w", what, err))
			p.mu.Unlock()
		}
	})
	return l.Addr().String(), nil
}

// ClosePorts closes the ports and returns their errors.
func (p *Ports) ClosePorts() error {
	for _, s := range p.servers {
		_ = s.Close() // responses in progress do not matter any more
	}
	p.running.Wait()
	return errors.Join(p.errs...)
}

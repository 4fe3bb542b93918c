package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// ServeOn serves on a listener until a signal, and prints where.
func ServeOn(a *cli.App, l net.Listener, addressFile, what string, h http.Handler) error {
	if addressFile != "" {
		if err := WriteWhole(addressFile, l.Addr().String()+"\n"); err != nil {
			l.Close()
			return err
		}
	}
	a.PrintNote("%s: http://%s/", what, l.Addr())
	return ServeUntil(a.Ctx, l, h)
}

// ServeUntil answers requests on a listener until ctx ends. That is the intended end, not an error.
func ServeUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10}
	ctx, enough := context.WithCancel(ctx)
	var ending sync.WaitGroup
	ending.Go(func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	enough()
	ending.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

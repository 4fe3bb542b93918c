package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/docs"
	"github.com/rousehq/rouse/internal/book"
)

// docsCmd serves the documentation of this version.
type docsCmd struct {
	Page        string `arg:"" optional:"" help:"Print this page as Markdown, instead of serving all." placeholder:"PAGE"`
	Address     string `help:"Where to serve." default:"127.0.0.1:7414" placeholder:"HOST:PORT"`
	AddressFile string `help:"Write the address to this file once it listens." placeholder:"FILE"`
	Out         string `help:"Write the book into this directory instead." placeholder:"DIR"`
}

func (docsCmd) Help() string {
	return `The documentation of this version is part of the program, with a search. It loads nothing from elsewhere.

Examples:

    rouse docs
    rouse docs schedules
    rouse docs --out /var/www/rouse`
}

// Run serves until a signal, prints a page, or writes all of them.
func (c *docsCmd) Run(a *app) error {
	if c.Page != "" {
		return c.printPage(a)
	}
	b, err := book.New(docs.Files)
	if err != nil {
		return err
	}
	if c.Out != "" {
		return b.Write(c.Out)
	}
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return serveOn(a, l, c.AddressFile, "the documentation", b)
}

// serveOn serves on a listener until a signal, and prints where.
func serveOn(a *app, l net.Listener, addressFile, what string, h http.Handler) error {
	if addressFile != "" {
		if err := writeWhole(addressFile, l.Addr().String()+"\n"); err != nil {
			l.Close()
			return err
		}
	}
	a.printNote("%s: http://%s/", what, l.Addr())
	return serveUntil(a.ctx, l, h)
}

func (c *docsCmd) printPage(a *app) error {
	name := strings.TrimSuffix(c.Page, ".md")
	body, err := docs.Files.ReadFile(name + ".md")
	if err != nil {
		chapters, err := book.Read(docs.Files)
		if err != nil {
			return err
		}
		var names []string
		for _, chapter := range chapters {
			for _, p := range chapter.Pages {
				names = append(names, p.Name)
			}
		}
		slices.Sort(names)
		return rouse.Refuse("page", c.Page, "does not exist", "use "+strings.Join(names, ", "))
	}
	_, err = a.out.Write(body)
	return err
}

// serveUntil answers requests on a listener until ctx ends. That is the intended end, not an error.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
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

// Package tool has the commands that help to work with rouse: a receiver of callbacks, a benchmark, the check
// of a history, the documentation.
package tool

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/daemon"
	"github.com/rousehq/rouse/docs"
	"github.com/rousehq/rouse/internal/book"
)

// DocsCmd serves the documentation of this version.
type DocsCmd struct {
	Page        string `arg:"" optional:"" help:"Print this page as Markdown, instead of serving all." placeholder:"PAGE"`
	Address     string `help:"Where to serve." default:"127.0.0.1:7414" placeholder:"HOST:PORT"`
	AddressFile string `help:"Write the address to this file once it listens." placeholder:"FILE"`
	Out         string `help:"Write the book into this directory instead." placeholder:"DIR"`
}

func (DocsCmd) Help() string {
	return `The documentation of this version is part of the program, with a search. It loads nothing from elsewhere. Programs that read text find a list of the
pages in /llms.txt, and all of them in /llms-full.txt.

Examples:

    rouse docs
    rouse docs schedules
    rouse docs --out /var/www/rouse`
}

// Run serves until a signal, prints a page, or writes all of them.
func (c *DocsCmd) Run(a *cli.App) error {
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
	return daemon.ServeOn(a, l, c.AddressFile, "the documentation", b)
}

func (c *DocsCmd) printPage(a *cli.App) error {
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
	_, err = a.Out.Write(body)
	return err
}

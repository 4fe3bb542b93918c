package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/grpclink"
	"github.com/rousehq/rouse/internal/pool"
)

// poolAddress is the address of a pool manager.
type poolAddress struct {
	Address string `help:"Address of the manager: listen of its pools file; with https:// or --ca it has TLS." default:"127.0.0.1:7414" placeholder:"HOST:PORT"`
}

// poolPort is the port of managers by default.
const poolPort = "7414"

// dialManager returns the address of the manager as a URL, and a client for it, by the rules of --server.
func (p *poolAddress) dialManager(a *cli.App) (base string, client *http.Client, err error) {
	files := grpclink.Files(a.Flags.CA, a.Flags.ClientCert, a.Flags.ClientKey)
	address := p.Address
	if !strings.Contains(address, "://") {
		if address, err = grpclink.CompleteHost(address, poolPort); err != nil {
			return "", nil, err
		}
	}
	at, err := grpclink.Options{Files: files, Insecure: true}.Parse(address)
	if err != nil {
		return "", nil, err
	}
	host := strings.TrimPrefix(at.Target, grpclink.NamesHost)
	if base = "https://" + host; at.Plain {
		base = "http://" + host
	}
	t := &http.Transport{DisableKeepAlives: true}
	if strings.HasPrefix(base, "https://") {
		if t.TLSClientConfig, err = files.Client(); err != nil {
			return "", nil, err
		}
	}
	// A redirect could take the key elsewhere.
	return strings.TrimSuffix(base, "/"), &http.Client{Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// callManager asks the manager; path has escaped parts.
func (p *poolAddress) callManager(a *cli.App, method, path string, out any) error {
	ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
	defer cancel()
	base, client, err := p.dialManager(a)
	if err != nil {
		return err
	}
	token, err := a.Flags.ReadToken(a, os.Getenv)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, nil)
	if err != nil {
		return rouse.Refuse("address", p.Address, "is no address", "give one such as 127.0.0.1:7414")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if refused, ok := errors.AsType[*url.Error](err); ok {
			err = refused.Err
		}
		return reportedError{fmt.Sprintf("the manager of pools at %s: %v; is rouse pool running there?", p.Address, err),
			rouse.ErrUnavailable}
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<30))
	if err != nil {
		return fmt.Errorf("the manager of pools at %s: %w", p.Address, err)
	}
	if answer.StatusCode == http.StatusOK {
		if json.Unmarshal(body, out) != nil {
			return p.noManager(answer)
		}
		return nil
	}
	var failure struct{ Error, Detail string }
	if json.Unmarshal(body, &failure) != nil || failure.Error == "" {
		if failure.Detail == "" || answer.StatusCode == http.StatusNotFound ||
			answer.StatusCode == http.StatusMethodNotAllowed {
			return p.noManager(answer)
		}
		failure.Error = failure.Detail
	}
	kind := map[int]error{http.StatusUnauthorized: rouse.ErrUnauthenticated, http.StatusForbidden: rouse.ErrForbidden,
		http.StatusNotFound: rouse.ErrNotFound, http.StatusServiceUnavailable: rouse.ErrUnavailable,
		http.StatusGatewayTimeout: context.DeadlineExceeded}[answer.StatusCode]
	if kind != nil {
		return reportedError{failure.Error, kind}
	}
	return fmt.Errorf("the manager of pools at %s: %s", p.Address, failure.Error)
}

// noManager is the error of an address at which something else answers.
func (p *poolAddress) noManager(answer *http.Response) error {
	return reportedError{fmt.Sprintf(
		"there is no manager of pools at %s, which answers %s: give listen of its pools file, whose port is %s by default, or the admin port of a node that serves pools",
		p.Address, answer.Status, poolPort), rousev1.ErrUnimplemented}
}

// reportedError is an error that another process has reported, as text and kind.
type reportedError struct {
	text string
	kind error
}

func (t reportedError) Error() string { return t.text }
func (t reportedError) Unwrap() error { return t.kind }

// poolStatusCmd shows pools.
type poolStatusCmd struct {
	poolAddress `embed:""`
	Pool        string `arg:"" optional:"" help:"Name of the pool; default all."`
}

func (poolStatusCmd) Help() string {
	return `Examples:

    rouse pool status
    rouse pool status core
    rouse pool status core --json --address 10.0.0.5:7414`
}

// Run shows them.
func (c *poolStatusCmd) Run(a *cli.App) error {
	if c.Pool == "" {
		var list []pool.Summary
		if err := c.callManager(a, http.MethodGet, "/pools", &list); err != nil {
			return err
		}
		t := cli.NewTable(a, "POOL", "STATE", "SINCE", "GROUPS", "WORKERS", "WAITING", "LEADER")
		for _, p := range list {
			if a.Flags.JSON {
				if err := a.PrintJSON(p); err != nil {
					return err
				}
				continue
			}
			if err := t.AddTableRow(p.Pool, p.State, momentText(p.Since), strconv.Itoa(p.Groups), strconv.Itoa(p.Workers),
				strconv.Itoa(p.Waiting), p.Leader); err != nil {
				return err
			}
		}
		return t.FlushTable()
	}
	var v pool.View
	if err := c.callManager(a, http.MethodGet, "/pools/"+url.PathEscape(c.Pool), &v); err != nil {
		return err
	}
	return a.ShowValue(v, func() error {
		if !v.Leads {
			if v.Leader != "" {
				a.PrintNote("this manager does not lead the pool; %s does", v.Leader)
			} else {
				a.PrintNote("this manager does not lead the pool")
			}
			return nil
		}
		t := cli.NewTable(a, poolGroupHead...)
		for _, g := range v.Groups {
			group := g.Group()
			if err := t.AddTableRow(poolGroupRow(&group)...); err != nil {
				return err
			}
		}
		if len(v.Groups) == 0 {
			a.PrintNote("no groups")
		}
		if err := t.FlushTable(); err != nil || v.Waits == 0 {
			return err
		}
		a.PrintNote("%d keys wait for room; the first is %q since %s, for %s", v.Waits, v.Waiting[0].Key,
			momentText(v.Waiting[0].Since), v.Waiting[0].Limit)
		return nil
	})
}

// momentText prints a time, or nothing if it is zero.
func momentText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// poolPoisonCmd groups the commands for poison requests.
type poolPoisonCmd struct {
	List   poolPoisonListCmd   `cmd:"" default:"withargs" help:"List poison requests, oldest first."`
	Show   poolPoisonShowCmd   `cmd:"" help:"Print the body of a poison request."`
	Replay poolPoisonReplayCmd `cmd:"" help:"Send poison requests to workers again."`
	Purge  poolPoisonPurgeCmd  `cmd:"" help:"Delete poison requests."`
}

func (poolPoisonCmd) Help() string {
	return `A request that its workers gave back, or died with, more often than the delivery limit is kept in {pool}-poison.

Examples:

    rouse pool poison list core
    rouse pool poison show core 4f1kx2m9q7c3b8zd
    rouse pool poison replay core --all`
}

type poolPoisonListCmd struct {
	poolAddress `embed:""`
	Pool        string `arg:"" help:"Name of the pool."`
	Limit       int    `help:"Maximum number, up to 1000." default:"100" placeholder:"N"`
}

func (poolPoisonListCmd) Help() string {
	return `Examples:

    rouse pool poison list core
    rouse pool poison list core --limit 10 --json`
}

// Run lists them.
func (c *poolPoisonListCmd) Run(a *cli.App) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is out of range", "give 1 to 1000")
	}
	var list []pool.Poison
	if err := c.callManager(a, http.MethodGet, fmt.Sprintf("/pools/%s/poison?limit=%d", url.PathEscape(c.Pool), c.Limit),
		&list); err != nil {
		return err
	}
	t := cli.NewTable(a, "ID", "KEY", "WHEN", "REASON", "SIZE", "CORRELATION ID")
	for _, p := range list {
		if a.Flags.JSON {
			if err := a.PrintJSON(p); err != nil {
				return err
			}
			continue
		}
		if err := t.AddTableRow(p.ID, strconv.Quote(p.Key), momentText(p.When), p.Reason, strconv.Itoa(p.Size),
			p.CorrelationID); err != nil {
			return err
		}
	}
	if len(list) == 0 && !a.Flags.JSON {
		a.PrintNote("no poison requests")
	}
	return t.FlushTable()
}

type poolPoisonShowCmd struct {
	poolAddress `embed:""`
	Pool        string `arg:"" help:"Name of the pool."`
	ID          string `arg:"" help:"Id of the request, as list prints it."`
	Raw         bool   `help:"Print the body as it is on a terminal, too."`
}

func (poolPoisonShowCmd) Help() string {
	return `Its body is printed as it is; a terminal gets its control characters quoted, unless --raw is given; with --json, in base64 and with the rest.

Examples:

    rouse pool poison show core 4f1kx2m9q7c3b8zd
    rouse pool poison show core 4f1kx2m9q7c3b8zd --json`
}

// Run shows it.
func (c *poolPoisonShowCmd) Run(a *cli.App) error {
	var p pool.Poison
	if err := c.callManager(a, http.MethodGet, "/pools/"+url.PathEscape(c.Pool)+"/poison/"+url.PathEscape(c.ID),
		&p); err != nil {
		return err
	}
	return a.ShowValue(p, func() error {
		a.Raw = c.Raw
		return a.PrintBytes(p.Body)
	})
}

// poolPoisonChoice selects poison requests.
type poolPoisonChoice struct {
	poolAddress `embed:""`
	Pool        string `arg:"" help:"Name of the pool."`
	ID          string `arg:"" optional:"" help:"Id of the request, as list prints it."`
	All         bool   `help:"All of them."`
}

// changePoison asks the manager to do something with them.
func (c *poolPoisonChoice) changePoison(a *cli.App, method, suffix, did string) error {
	if (c.ID == "") != c.All {
		return &cli.Usage{Text: "name the id of one poison request, or give --all", Help: a.Command + " --help"}
	}
	path := "/pools/" + url.PathEscape(c.Pool) + "/poison"
	if c.ID != "" {
		path += "/" + url.PathEscape(c.ID)
	}
	var done pool.Changed
	if err := c.callManager(a, method, path+suffix, &done); err != nil {
		return err
	}
	return a.ShowValue(done, func() error {
		a.PrintLine("%s %d", did, done.Requests)
		return nil
	})
}

type poolPoisonReplayCmd struct {
	poolPoisonChoice `embed:""`
}

func (poolPoisonReplayCmd) Help() string {
	return `The request goes to its key again, with its correlation id and reply queue. One that no worker answers, for
whatever reason, comes back under another id.

Examples:

    rouse pool poison replay core 4f1kx2m9q7c3b8zd
    rouse pool poison replay core --all`
}

// Run replays them.
func (c *poolPoisonReplayCmd) Run(a *cli.App) error {
	return c.changePoison(a, http.MethodPost, "/replay", "replayed")
}

type poolPoisonPurgeCmd struct {
	poolPoisonChoice `embed:""`
}

func (poolPoisonPurgeCmd) Help() string {
	return `Examples:

    rouse pool poison purge core 4f1kx2m9q7c3b8zd
    rouse pool poison purge core --all`
}

// Run deletes them.
func (c *poolPoisonPurgeCmd) Run(a *cli.App) error {
	return c.changePoison(a, http.MethodDelete, "", "purged")
}

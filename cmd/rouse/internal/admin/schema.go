package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/config"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/postgres"
)

// SchemaCmd groups the commands for the PostgreSQL schema in which rouse stores timers.
type SchemaCmd struct {
	Show  schemaShowCmd  `cmd:"" help:"Show the version of the schema, and the version that this rouse needs."`
	Up    schemaUpCmd    `cmd:"" help:"Create the schema, or migrate it to the version that this rouse needs."`
	Down  schemaDownCmd  `cmd:"" help:"Migrate the schema down to an older version, or remove it."`
	Roles schemaRolesCmd `cmd:"" help:"Print or apply the SQL that gives roles their rights on the schema."`
}

// schemaStore is the PostgreSQL database of the commands.
type schemaStore struct {
	Store string `arg:"" optional:"" help:"URL of the PostgreSQL, as in --store of serve; default $$ROUSE_STORE."`
}

// schemaStoreURL returns the URL, and refuses other URLs than those of PostgreSQL.
func (s *schemaStore) schemaStoreURL() (string, error) {
	url := s.Store
	if url == "" {
		url = os.Getenv(config.EnvName("store"))
	}
	const cure = "give postgres://USER@HOST/DATABASE"
	if url == "" {
		return "", rouse.Refuse("store", "", "is missing", cure+", here or in ROUSE_STORE")
	}
	if scheme, _, ok := strings.Cut(url, "://"); !ok || scheme != "postgres" && scheme != "postgresql" {
		return "", rouse.Refuse("store", cli.RedactPasswords(url), "is no PostgreSQL, and only there is a schema", cure)
	}
	return url, nil
}

// schemaOptions open the schema without migrating it.
var schemaOptions = postgres.Options{Name: "rouse schema", NoMigrate: true, AllowUnsafe: true}

// storedSchemaVersion returns the store's URL and the version of its schema.
func (s *schemaStore) storedSchemaVersion(a *cli.App) (url string, version int, err error) {
	if url, err = s.schemaStoreURL(); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
	defer cancel()
	version, err = postgres.SchemaVersion(ctx, url, schemaOptions)
	return url, version, markUnavailable(err)
}

// migrateSchema migrates to a version, which may take arbitrarily long.
func (s *schemaStore) migrateSchema(a *cli.App, url string, have, to int) error {
	if have != to {
		if err := postgres.Migrate(a.Ctx, url, schemaOptions, to); err != nil {
			return markUnavailable(err)
		}
	}
	return a.ShowValue(struct {
		Store string `json:"store"`
		From  int    `json:"from"`
		To    int    `json:"to"`
	}{cli.RedactPasswords(url), have, to}, func() error {
		switch {
		case have == to:
			a.PrintLine("the schema has version %d already", to)
		case to == 0:
			a.PrintLine("the schema is gone")
		default:
			a.PrintLine("the schema had version %d, and has version %d now", have, to)
		}
		return nil
	})
}

// markUnavailable marks an error that did not come from the server as unavailability.
func markUnavailable(err error) error {
	if errors.As(err, new(*pgconn.ConnectError)) && !errors.As(err, new(*pgconn.PgError)) {
		return fmt.Errorf("%w (%w)", err, rouse.ErrUnavailable)
	}
	return err
}

// schemaShowCmd shows the version.
type schemaShowCmd struct{ schemaStore }

func (schemaShowCmd) Help() string {
	return `It changes nothing. A schema that is older is migrated by the next node that may, or by rouse schema up; with one that is newer
this rouse may be able to work or not: a node that cannot does not start, and reports why.

Examples:

    rouse schema show postgres://rouse@127.0.0.1:5432/rouse
    rouse schema show --json`
}

// Run shows it.
func (c *schemaShowCmd) Run(a *cli.App) error {
	url, have, err := c.storedSchemaVersion(a)
	if err != nil {
		return err
	}
	latest := postgres.Latest()
	state := "current"
	switch {
	case have == 0:
		state = "missing"
	case have < latest:
		state = "older"
	case have > latest:
		state = "newer"
	}
	return a.ShowValue(struct {
		Store   string `json:"store"`
		Version int    `json:"version"`
		Latest  int    `json:"latest"`
		State   string `json:"state"`
	}{cli.RedactPasswords(url), have, latest, state}, func() error {
		a.PrintLine("%s: version %d, %s", cli.RedactPasswords(url), have,
			map[string]string{"current": "which this rouse needs",
				"missing": fmt.Sprintf("which is none; this rouse needs %d: rouse schema up makes it", latest),
				"older":   fmt.Sprintf("older than %d, which this rouse needs: rouse schema up brings it there", latest),
				"newer":   fmt.Sprintf("newer than %d, which this rouse knows", latest)}[state])
		return nil
	})
}

// schemaUpCmd upgrades the schema.
type schemaUpCmd struct {
	schemaStore
	To int `help:"Version of the schema; default the version that this rouse needs." placeholder:"N" default:"0"`
}

func (schemaUpCmd) Help() string {
	return `Run it as the role that shall own the schema, or owns it. Each step is one transaction; several that do it at a time do each
step once. Nodes of the old version go on, unless the new schema excludes them: then those do not start again.

Examples:

    rouse schema up postgres://rouse@127.0.0.1:5432/rouse
    ROUSE_STORE=postgres://rouse@127.0.0.1:5432/rouse rouse schema up --to 2`
}

// Run brings it up.
func (c *schemaUpCmd) Run(a *cli.App) error {
	latest := postgres.Latest()
	to := c.To
	switch {
	case !a.Given["to"]:
		to = latest
	case to < 1 || to > latest:
		return rouse.Refuse("to", fmt.Sprint(to), "is no version that this rouse knows",
			fmt.Sprintf("give 1 to %d, or nothing", latest))
	}
	url, have, err := c.storedSchemaVersion(a)
	switch {
	case err != nil:
		return err
	case have > to && a.Given["to"]:
		return rouse.Refuse("to", fmt.Sprint(to), fmt.Sprintf("is older than the schema, which has version %d", have),
			"rouse schema down goes back")
	case have > to:
		to = have // a newer rouse has migrated it
	}
	return c.migrateSchema(a, url, have, to)
}

// schemaDownCmd downgrades the schema.
type schemaDownCmd struct {
	schemaStore
	To  int  `help:"The version; 0 takes the schema away, with all timers." placeholder:"N" required:""`
	Yes bool `help:"Do not ask for confirmation."`
}

func (schemaDownCmd) Help() string {
	return `Run it as the role that owns the schema, with the rouse that brought it up: only that one knows the steps back. What an older
version does not know is lost; with version 0 everything is, all timers and records. Stop all nodes before: while one lives, it
is refused. A node that was killed lives for its lease, which is 10 s if nothing else was set.

Examples:

    rouse schema down postgres://rouse@127.0.0.1:5432/rouse --to 2
    rouse schema down postgres://rouse@127.0.0.1:5432/rouse --to 0 --yes`
}

// Run brings it back.
func (c *schemaDownCmd) Run(a *cli.App) error {
	if c.To < 0 {
		return rouse.Refuse("to", fmt.Sprint(c.To), "is no version", "give 0 or more")
	}
	url, have, err := c.storedSchemaVersion(a)
	switch {
	case err != nil:
		return err
	case c.To > have:
		return rouse.Refuse("to", fmt.Sprint(c.To), fmt.Sprintf("is newer than the schema, which has version %d", have),
			"rouse schema up goes there")
	case have > postgres.Latest():
		return rouse.Refuse("store", cli.RedactPasswords(url),
			fmt.Sprintf("has version %d of the schema, and this rouse knows steps up to %d", have, postgres.Latest()),
			"use the rouse that brought it there")
	case c.To == have:
		return c.migrateSchema(a, url, have, have)
	}
	if err := c.checkUnused(a, url, have); err != nil {
		return err
	}
	if !c.Yes {
		question := fmt.Sprintf("Bring the schema of %s from version %d back to %d? What version %d does not know is lost.",
			cli.RedactPasswords(url), have, c.To, c.To)
		if c.To == 0 {
			question = fmt.Sprintf("Take away the schema of %s, with all timers and records?", cli.RedactPasswords(url))
		}
		if err := a.AskConfirmation(question); err != nil {
			return err
		}
	}
	return c.migrateSchema(a, url, have, c.To)
}

// checkUnused refuses a schema that live nodes use. For a schema older than this rouse that cannot be
// determined.
func (c *schemaDownCmd) checkUnused(a *cli.App, url string, have int) error {
	if have < postgres.Latest() {
		a.PrintNote("which nodes live on a schema of version %d this rouse cannot see: see that there are none", have)
		return nil
	}
	ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
	defer cancel()
	store, err := postgres.Open(ctx, url, schemaOptions)
	if err != nil {
		return markUnavailable(err)
	}
	names, err := node.Living(ctx, store)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("nodes live on the schema: %s; stop them first: %w", strings.Join(names, ", "), rouse.ErrConflict)
	}
	return nil
}

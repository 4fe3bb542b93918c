package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/store/postgres"
)

// schemaName is the schema that nodes use.
const schemaName = "rouse"

// schemaRolesCmd gives roles their rights.
type schemaRolesCmd struct {
	schemaStore
	App    string   `help:"Role of nodes: it reads and writes rows, and nothing else." placeholder:"NAME" required:""`
	Reader string   `help:"Role that reads everything but the data of leases, such as webhook secrets, and changes nothing." placeholder:"NAME"`
	Caller []string `help:"Role that creates and deletes timers in its own transactions, and nothing else; several separated by commas." placeholder:"NAME"`
	Apply  bool     `help:"Execute the SQL, as the owner of the schema, instead of printing it."`
}

func (schemaRolesCmd) Help() string {
	return `The SQL takes what rights everybody has on the schema, and gives these roles what they need; it holds for what later versions of the
schema make, too. It does not make the roles. Run it as the role that owns the schema, once, after the schema was made, and again
for other roles. To print it, no server is needed.

Examples:

    rouse schema roles --app rouse_app --reader rouse_reader
    rouse schema roles postgres://rouse@127.0.0.1:5432/rouse --app rouse_app --reader rouse_reader --apply
    rouse schema roles --app rouse_app --caller shop,billing > roles.sql`
}

// Run prints the SQL, or runs it.
func (c *schemaRolesCmd) Run(a *cli.App) error {
	for _, r := range c.roleNames() {
		if r[1] == "" || len(r[1]) > 63 || strings.ContainsRune(r[1], 0) {
			return rouse.Refuse(r[0], r[1], "is no name of a role", "give 1 to 63 bytes")
		}
	}
	sql := postgres.Roles(schemaName, c.App, c.Reader)
	for _, caller := range c.Caller {
		sql += postgres.CallerRole(schemaName, caller)
	}
	if c.Apply {
		if err := c.applyRoles(a, sql); err != nil {
			return err
		}
	}
	return a.ShowValue(struct {
		SQL     string `json:"sql"`
		Applied bool   `json:"applied"`
	}{sql, c.Apply}, func() error {
		if c.Apply {
			a.PrintLine("the roles have their rights")
			return nil
		}
		_, err := fmt.Fprint(a.Out, sql)
		return err
	})
}

// roleNames are the flags, and the roles that they name.
func (c *schemaRolesCmd) roleNames() (list [][2]string) {
	list = append(list, [2]string{"app", c.App})
	if c.Reader != "" {
		list = append(list, [2]string{"reader", c.Reader})
	}
	for _, caller := range c.Caller {
		list = append(list, [2]string{"caller", caller})
	}
	return list
}

// applyRoles runs the SQL as a whole or not at all. For a role other than the owner, parts of it would
// silently have no effect.
func (c *schemaRolesCmd) applyRoles(a *cli.App, sql string) (err error) {
	url, have, err := c.storedSchemaVersion(a)
	switch {
	case err != nil:
		return err
	case have == 0:
		return rouse.Refuse("store", cli.RedactPasswords(url), "has no schema yet", "rouse schema up makes it")
	}
	ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
	defer cancel()
	on, err := pgx.Connect(ctx, url)
	if err != nil {
		return markUnavailable(err)
	}
	defer func() { err = errors.Join(err, on.Close(context.WithoutCancel(ctx))) }()
	var me, owner string
	if err := on.QueryRow(ctx, `SELECT current_user, pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = $1`,
		schemaName).Scan(&me, &owner); err != nil {
		return err
	}
	if me != owner {
		return rouse.Refuse("store", cli.RedactPasswords(url),
			fmt.Sprintf("is opened as %s, and the schema belongs to %s", me, owner), "name a URL with that role")
	}
	rows, err := on.Query(ctx, `SELECT rolname FROM pg_roles`)
	if err != nil {
		return err
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, r := range c.roleNames() {
		if !slices.Contains(there, r[1]) {
			return rouse.Refuse(r[0], r[1], "is no role of the server",
				"make it first: CREATE ROLE "+pgx.Identifier{r[1]}.Sanitize()+" LOGIN")
		}
	}
	_, err = on.PgConn().Exec(ctx, sql).ReadAll() // one transaction
	return err
}

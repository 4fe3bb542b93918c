package postgres

import (
	_ "embed"
	"strings"
)

// Roles returns the SQL that gives roles the rights that they need on the schema, and all other roles none.
// Three roles are enough, plus those of applications that create timers in their own transactions:
//
//   - The owner creates and migrates the schema (Migrate, or Open without NoMigrate). Run the SQL as this
//     role, once, after the first migration: it includes objects of later migrations.
//   - Nodes run as app, with NoMigrate set or not: it reads and writes rows, and calls the schema's
//     functions. It cannot create, change or remove anything else, in this schema or elsewhere.
//   - reader can read everything but the data of leases, such as webhook secrets, and change nothing, for
//     people and their tools; empty for none.
//   - Callers may execute create_timer and delete_timer, and nothing else: see CallerRole.
//
// None of them is a superuser, and outside the schema they need only the right to connect. The result quotes
// the names.
func Roles(schema, app, reader string) string {
	text, readers, _ := strings.Cut(rolesText, "-- reader\n")
	if reader != "" {
		text += readers
	}
	return strings.NewReplacer("{schema}", quoteName(schema), "{app}", quoteName(app), "{reader}",
		quoteName(reader)).Replace(text)
}

// CallerRole returns the SQL that lets a role create and delete timers in its own transactions, with the
// functions create_timer and delete_timer, in any namespace. The role can read and write nothing else in the
// schema. Run it as the schema's owner, after that of Roles, for each such role.
//
// To limit a role to one namespace, grant it a function of your own instead, which is SECURITY DEFINER,
// belongs to a caller's role, and calls these with that namespace.
func CallerRole(schema, caller string) string {
	return strings.NewReplacer("{schema}", quoteName(schema), "{caller}", quoteName(caller)).Replace(callerText)
}

const callerText = `GRANT USAGE ON SCHEMA {schema} TO {caller};
GRANT EXECUTE ON FUNCTION {schema}.create_timer(text, text, jsonb, text, boolean), {schema}.delete_timer(text, text) TO {caller};
`

//go:embed roles.sql
var rolesText string

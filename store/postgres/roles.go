package postgres

import (
	_ "embed"
	"strings"
)

// Roles returns the SQL that gives roles the rights that they need on the schema, and nobody else any. Three roles are enough, and those
// of programs that make timers in their own transactions:
//
//   - the owner makes and migrates the schema (Migrate, or Open without NoMigrate). Run the SQL as this role, once, after the first
//     migration: it holds for what later migrations make, too.
//   - app is what nodes run as, with NoMigrate set or not: it reads and writes rows, and calls the schema's functions. It can make, change
//     and remove nothing else, in this schema or elsewhere.
//   - reader sees all and changes nothing, for people and their tools; empty for none.
//   - callers may execute create_timer and delete_timer, and nothing else: see CallerRole.
//
// None of them is a superuser, and none needs a right on anything outside the schema but to connect. The names are quoted here.
func Roles(schema, app, reader string) string {
	text, readers, _ := strings.Cut(rolesText, "-- reader\n")
	if reader != "" {
		text += readers
	}
	return strings.NewReplacer("{schema}", quote(schema), "{app}", quote(app), "{reader}", quote(reader)).Replace(text)
}

// CallerRole returns the SQL that lets a role make and delete timers in its own transactions, with the functions create_timer and
// delete_timer, in any namespace. It can read and write nothing of the schema otherwise. Run it as the schema's owner, after that of
// Roles, for each such role.
//
// To let a role have timers of one namespace only, grant it a function of your own instead, which is SECURITY DEFINER, belongs to a
// caller's role, and calls these with that namespace.
func CallerRole(schema, caller string) string {
	return strings.NewReplacer("{schema}", quote(schema), "{caller}", quote(caller)).Replace(callerText)
}

const callerText = `GRANT USAGE ON SCHEMA {schema} TO {caller};
GRANT EXECUTE ON FUNCTION {schema}.create_timer(text, text, jsonb, text, boolean), {schema}.delete_timer(text, text) TO {caller};
`

//go:embed roles.sql
var rolesText string

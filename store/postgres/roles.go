package postgres

import (
	_ "embed"
	"strings"
)

// Roles returns the SQL that gives roles the rights that they need on the schema, and nobody else any. Three roles are enough:
//
//   - the owner makes and migrates the schema (Migrate, or Open without NoMigrate). Run the SQL as this role, once, after the first
//     migration: it holds for what later migrations make, too.
//   - app is what nodes run as, with NoMigrate set or not: it reads and writes rows, and calls the schema's functions. It can make, change
//     and remove nothing else, in this schema or elsewhere.
//   - reader sees all and changes nothing, for people and their tools; empty for none.
//
// None of them is a superuser, and none needs a right on anything outside the schema but to connect. The names are quoted here.
func Roles(schema, app, reader string) string {
	text, readers, _ := strings.Cut(rolesText, "-- reader\n")
	if reader != "" {
		text += readers
	}
	return strings.NewReplacer("{schema}", quote(schema), "{app}", quote(app), "{reader}", quote(reader)).Replace(text)
}

//go:embed roles.sql
var rolesText string

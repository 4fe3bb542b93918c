//go:build unix

package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/internal/servers"
)

// Where the PostgreSQL and the Redis of the pages are.
const (
	postgresPlace = "127.0.0.1:5432"
	redisPlace    = "127.0.0.1:6379"
)

// stores starts what the commands of a page take for granted, a PostgreSQL with the database rouse that belongs to the role rouse, and
// an empty Redis, and returns pairs of what the page says and where it is.
func stores(t *testing.T, list []block) (places []string) {
	t.Helper()
	name := func(what string) bool {
		return slices.ContainsFunc(list, func(b block) bool { return b.lang == "sh" && strings.Contains(b.text, what) })
	}
	if name(postgresPlace) {
		s := servers.StartPostgres(t)
		on, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{`CREATE ROLE rouse LOGIN`, `CREATE DATABASE rouse OWNER rouse ENCODING 'UTF8' TEMPLATE template0`} {
			if _, err := on.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		if err := on.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		places = append(places, postgresPlace, s.Addr())
	}
	if name(redisPlace) {
		places = append(places, redisPlace, servers.StartRedis(t).Addr())
	}
	return places
}

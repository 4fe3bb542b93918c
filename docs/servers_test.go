//go:build unix

package docs_test

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/test/servers"
)

// Where the PostgreSQL, the Redis and the RabbitMQ of the pages are.
const (
	postgresPlace   = "127.0.0.1:5432"
	redisPlace      = "127.0.0.1:6379"
	rabbitPlace     = "127.0.0.1:5672/" // with the virtual host /
	managementPlace = "127.0.0.1:15672"
	rabbitHost      = "/%2F/" // the virtual host in a path
)

// buildsExample are commands of the pages that need rouse's sources.
var buildsExample = regexp.MustCompile(`(?m)^go build -o bin/(\w+) \./examples/\w+$`)

// taken starts what the commands of a page take for granted, a PostgreSQL, with the database rouse that
// belongs to the role rouse unless they create it, an empty Redis, and a RabbitMQ with its management plugin,
// and returns pairs of the address in the page and the actual one.
func taken(t *testing.T, list []block) (places []string) {
	t.Helper()
	name := func(what string) bool {
		return slices.ContainsFunc(list, func(b block) bool { return b.lang == "sh" && strings.Contains(b.text, what) })
	}
	if name(postgresPlace) {
		s := servers.StartPostgres(t)
		places = append(places, postgresPlace, s.Addr())
		if !name("CREATE DATABASE rouse ") {
			createDatabase(t, s.URL())
		}
	}
	if name(redisPlace) {
		places = append(places, redisPlace, servers.StartRedis(t).Addr())
	}
	if name(rabbitPlace) {
		address, api := servers.ManagedRabbitMQ(t)
		broker, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		management, err := url.Parse(api)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, rabbitPlace, broker.Host+broker.Path, managementPlace, management.Host, rabbitHost, broker.Path+"/")
	}
	for _, b := range list {
		for _, build := range buildsExample.FindAllStringSubmatch(b.text, -1) {
			program := filepath.Join(t.TempDir(), build[1])
			if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, "../examples/"+build[1]).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", build[0], err, out)
			}
			places = append(places, build[0], "ln -s "+program+" bin/"+build[1])
		}
	}
	return places
}

// createDatabase creates the database that pages take for granted.
func createDatabase(t *testing.T, url string) {
	t.Helper()
	on, err := pgx.Connect(t.Context(), url)
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
}

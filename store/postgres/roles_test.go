package postgres

import (
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
	"github.com/rousehq/rouse/test/servers"
)

// asRoles creates a database, and returns URLs for the superuser and the roles app and reader. Roles belong
// to the whole server, and stay.
func asRoles(t *testing.T) (url, app, reader string) {
	t.Helper()
	url = servers.Postgres(t)
	admin(t, url, `DO $$ BEGIN
			CREATE ROLE rouse_owner LOGIN; CREATE ROLE rouse_app LOGIN; CREATE ROLE rouse_reader LOGIN;
			EXCEPTION WHEN duplicate_object THEN NULL; END $$;
		REVOKE ALL ON SCHEMA public FROM PUBLIC`)
	return url, as(t, url, "rouse_app"), as(t, url, "rouse_reader")
}

// createAsOwner creates the schema of the options as its owner, with the rights of the other roles.
func createAsOwner(t *testing.T, url string, o Options) {
	t.Helper()
	o = o.withDefaults()
	admin(t, url, `CREATE SCHEMA `+quoteName(o.Schema)+` AUTHORIZATION rouse_owner`)
	owner := as(t, url, "rouse_owner")
	if err := Migrate(t.Context(), owner, o, Latest()); err != nil {
		t.Fatal(err)
	}
	admin(t, owner, Roles(o.Schema, "rouse_app", "rouse_reader"))
}

// TestContractAsTheAppRoleThroughPgBouncer: a node needs only rights on rows and functions, and leaves
// nothing in a session, so that each transaction may use another one.
func TestContractAsTheAppRoleThroughPgBouncer(t *testing.T) {
	url, app, _ := asRoles(t)
	through := servers.PgBouncer(t, app)
	created := func() Options {
		o := fresh()
		createAsOwner(t, url, o)
		return o
	}
	storetest.Run(t, func(t *testing.T) rouse.Store { return openTest(t, through, created()) })
	storetest.RunShared(t, func(t *testing.T) (rouse.Shared, func() rouse.Shared) { return twice(t, through, created()) })
}

func TestRolesCanDoNothingElse(t *testing.T) {
	url, app, reader := asRoles(t)
	createAsOwner(t, url, unsafe)
	s := openTest(t, app, unsafe)
	defer s.Close()
	create(t, s, timers("t", 3))
	for _, text := range []string{`CREATE TABLE rouse.x ()`, `CREATE TABLE public.x ()`, `CREATE SCHEMA x`, `DROP TABLE rouse.timers`, `TRUNCATE rouse.timers`,
		`ALTER TABLE rouse.timers ADD x int`, `DELETE FROM rouse.migrations`, `SELECT * FROM pg_authid`, `CREATE OR REPLACE FUNCTION rouse.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'`} {
		err := s.callTimers(t.Context(), []*call{newCall(text)}, nil)
		if sqlState(err) != "42501" {
			t.Errorf("the app's role may %s: %v", text, err)
		}
	}
	if n := ask(t, reader, `SELECT count(*) FROM rouse.timers`); n != 3 {
		t.Errorf("the reader sees %d rows", n)
	}
	if _, err := s.Lock(t.Context(), "a", time.Hour, []rouse.Want{{Name: "x", Data: []byte("hidden")}}); err != nil {
		t.Fatal(err)
	}
	if n := ask(t, reader, `SELECT count(*) FROM (SELECT name, owner, epoch, until FROM rouse.leases WHERE name = 'x') l`); n != 1 {
		t.Errorf("the reader sees %d leases", n)
	}
	o := unsafe
	o.NoMigrate = true
	r := openTest(t, reader, o)
	defer r.Close()
	for _, text := range []string{`SELECT data FROM rouse.leases`, `SELECT * FROM rouse.leases`, `SELECT l::text FROM rouse.leases l`} {
		if err := r.callTimers(t.Context(), []*call{newCall(text)}, nil); sqlState(err) != "42501" {
			t.Errorf("the reader may %s: %v", text, err)
		}
	}
	_, err := r.Apply(t.Context(), timers("u", 1))
	refused(t, err, "permission denied", "give the role its rights")
	_, err = Open(t.Context(), as(t, url, "rouse_reader"), Options{AllowUnsafe: true, Schema: "other"})
	refused(t, err, "permission denied", "owner")
}

// TestFunctionsForCallersAreGranted: no role may execute functions that run with their owner's rights before
// they are granted, with or without roles.
func TestFunctionsForCallersAreGranted(t *testing.T) {
	url := servers.Postgres(t)
	if err := Migrate(t.Context(), url, unsafe, Latest()); err != nil {
		t.Fatal(err)
	}
	admin(t, url, `DO $$ BEGIN CREATE ROLE rouse_caller LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	may := `SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = 'rouse' AND p.prosecdef AND has_function_privilege('rouse_caller', p.oid, 'EXECUTE')`
	if n := ask(t, url, may); n != 0 {
		t.Errorf("%d are everybody's", n)
	}
	admin(t, url, CallerRole("rouse", "rouse_caller"))
	if n := ask(t, url, may); n != 2 {
		t.Errorf("%d were granted, want 2", n)
	}
}

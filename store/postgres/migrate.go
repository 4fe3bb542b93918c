package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
)

//go:embed migrations
var migrationFiles embed.FS

// migration is a step from one version of the schema to the next. In its text, {schema} is replaced with the
// quoted name of the schema, {channel} with the name as a literal, {revisions} with the sequence.
type migration struct {
	version int
	// compatible is the oldest version whose nodes work with this one: the head of the file contains it ("--
	// compatible: 1"). A migration that older nodes support only adds to the schema: then nodes of both
	// versions can run during a deployment.
	compatible int
	up, down   string
}

// embedded contains the migrations of this version of rouse, in order.
var embedded = func() []migration {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err)
	}
	list, err := readMigrations(files)
	if err != nil {
		panic(err)
	}
	return list
}()

var compatibleLine = regexp.MustCompile(`(?m)\A-- compatible: (\d+)$`)

// readMigrations reads files named 0001_what.up.sql and 0001_what.down.sql.
func readMigrations(files fs.FS) (list []migration, err error) {
	names, err := fs.Glob(files, "*.up.sql") // sorted by name
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		m := migration{version: i + 1}
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", m.version)) {
			return nil, fmt.Errorf("%s is not migration %d", name, m.version)
		}
		up, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		down, err := fs.ReadFile(files, strings.TrimSuffix(name, ".up.sql")+".down.sql")
		if err != nil {
			return nil, err
		}
		found := compatibleLine.FindSubmatch(up)
		if found == nil {
			return nil, fmt.Errorf("%s does not begin with a line such as -- compatible: 1", name)
		}
		if m.compatible, err = strconv.Atoi(string(found[1])); err != nil || m.compatible > m.version {
			return nil, fmt.Errorf("%s is compatible with %s", name, found[1])
		}
		m.up, m.down = string(up), string(down)
		list = append(list, m)
	}
	return list, nil
}

// Latest is the version of the schema that this version of rouse knows.
func Latest() int { return len(embedded) }

// SchemaVersion returns the version of the schema that the URL leads to; 0 if it has none.
func SchemaVersion(ctx context.Context, url string, o Options) (int, error) {
	o = o.withDefaults()
	if err := o.checkSchemaOption(); err != nil {
		return 0, err
	}
	var have schemaState
	err := withConn(ctx, url, &o, func(on *pgconn.PgConn) (err error) {
		have, err = readSchemaState(ctx, on, &o)
		return err
	})
	return have.version, err
}

// Migrate changes the schema to a version, up or down; 0 removes everything, with all timers. Each step is
// one transaction, and nodes that migrate at the same time do each step once. Before going down, stop all
// nodes of newer versions.
func Migrate(ctx context.Context, url string, o Options, to int) error {
	return migrateTo(ctx, url, o, to, embedded)
}

func migrateTo(ctx context.Context, url string, o Options, to int, steps []migration) error {
	o = o.withDefaults()
	if err := o.checkSchemaOption(); err != nil {
		return err
	}
	if to < 0 || to > len(steps) {
		return fmt.Errorf("there is no version %d of the schema: this rouse knows 0 to %d", to, len(steps))
	}
	return withConn(ctx, url, &o, func(on *pgconn.PgConn) error { return migrateStepwise(ctx, on, &o, to, steps, true) })
}

func withConn(ctx context.Context, url string, o *Options, do func(on *pgconn.PgConn) error) (err error) {
	on, err := openConnection(ctx, url, o)
	if err == nil {
		err = do(on)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = on.Close(end)
	}
	if err != nil {
		return fmt.Errorf("store %s: schema %s: %w", redactURL(url), o.Schema, explainSQLError(err))
	}
	return nil
}

// ensureSchema ensures that the schema is one that this version of rouse supports.
func ensureSchema(ctx context.Context, url string, o *Options, steps []migration) error {
	on, err := openConnection(ctx, url, o)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = on.Close(end)
	}()
	have, err := readSchemaState(ctx, on, o)
	if err != nil {
		return err
	}
	if have.version < len(steps) && !o.NoMigrate {
		if err := migrateStepwise(ctx, on, o, len(steps), steps, false); err != nil {
			return fmt.Errorf("the schema %s has version %d, and cannot be migrated to %d: %w", o.Schema, have.version,
				len(steps), err)
		}
		if have, err = readSchemaState(ctx, on, o); err != nil {
			return err
		}
	}
	return have.checkVersion(o, len(steps))
}

// schemaState is the version of a schema.
type schemaState struct {
	version    int
	compatible int // the oldest version that may use it
}

// checkVersion returns why a program that knows versions up to latest cannot use the schema.
func (s schemaState) checkVersion(o *Options, latest int) error {
	switch {
	case s.version < latest:
		return fmt.Errorf("the schema %s has version %d, this rouse needs %d; migrate it", o.Schema, s.version, latest)
	case s.compatible > latest:
		return fmt.Errorf(
			"the schema %s has version %d, which needs a rouse that knows version %d or later; this one knows %d: run a newer one",
			o.Schema, s.version, s.compatible, latest)
	}
	return nil
}

// misfit is why an open store does not work with the schema, which was migrated while it is used. Each call
// about leases, which a node makes all the time, checks that: with such a schema it fails, so that the node
// loses its leases, and calls about timers fail until the version is right again.
type misfit struct{ err atomic.Pointer[error] }

func (m *misfit) storedMisfit() error {
	if err := m.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *misfit) setMisfit(err error) {
	switch {
	case err != nil:
		m.err.Store(&err)
	case m.err.Load() != nil:
		m.err.Store(nil)
	}
}

// mayBeMigrated reports whether the error can mean that the schema was migrated: the check of its version
// failed, or something is missing.
func mayBeMigrated(err error) bool {
	switch sqlState(err) {
	case "22012", "3F000", "42P01", "42883":
		return true
	}
	return false
}

// checkSchema returns why the store does not work with the schema as it is now.
func (s *Store) checkSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.LeaseTimeout)
	defer cancel()
	on, err := s.leases.Acquire(ctx)
	if err != nil {
		return nil // the caller has an error
	}
	defer on.Release()
	have, err := readSchemaState(ctx, on.Conn().PgConn(), &s.o)
	if err != nil {
		return nil
	}
	if err = have.checkVersion(&s.o, s.latest); err != nil {
		return fmt.Errorf("store %s: %w", s.name, err)
	}
	return nil
}

// readSchemaState reads the version of the schema without changing anything.
func readSchemaState(ctx context.Context, on *pgconn.PgConn, o *Options) (s schemaState, err error) {
	// Not to_regclass: it uses the session's cache, which misses commits of other sessions while
	// migrateOneStep waits for its lock.
	r := on.ExecParams(ctx,
		`SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'migrations'`,
		[][]byte{[]byte(o.Schema)}, nil, nil, nil).Read()
	if r.Err != nil || len(r.Rows) == 0 {
		return s, r.Err
	}
	table := quoteName(o.Schema) + `.migrations`
	r = on.ExecParams(ctx, `SELECT COALESCE(max(version), 0), COALESCE(max(compatible), 0) FROM `+table, nil, nil, nil,
		nil).Read()
	if r.Err != nil {
		return s, r.Err
	}
	_, err = fmt.Sscan(string(r.Rows[0][0])+" "+string(r.Rows[0][1]), &s.version, &s.compatible)
	return s, err
}

// migrateStepwise changes the schema to a version step by step. It goes down only if that is allowed: a node
// that starts leaves a newer schema unchanged.
func migrateStepwise(ctx context.Context, on *pgconn.PgConn, o *Options, to int, steps []migration, down bool) error {
	for {
		more, err := migrateOneStep(ctx, on, o, to, steps, down)
		if err != nil || !more {
			return err
		}
	}
}

// migrateOneStep makes one step under a lock that ends with its transaction. So it works through a pooler,
// and a node that is killed leaves neither the lock nor half a step behind.
func migrateOneStep(ctx context.Context, on *pgconn.PgConn, o *Options, to int, steps []migration,
	down bool) (more bool, err error) {
	run := func(text string) error { return on.Exec(ctx, text).Close() }
	// Not at a level whose snapshot is older than the lock: it would miss the steps of others.
	if err := run(`BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0;
		SET LOCAL idle_in_transaction_session_timeout = '1min';
		SELECT pg_advisory_xact_lock(hashtext('rouse migrations'), hashtext(` + quoteLiteral(o.Schema) + `))`); err != nil {
		return false, err
	}
	defer func() {
		if err != nil && !on.IsClosed() {
			_ = on.Exec(context.WithoutCancel(ctx), `ROLLBACK`).Close()
		}
	}()
	have, err := readSchemaState(ctx, on, o)
	if err != nil {
		return false, err
	}
	switch {
	case have.version == to || have.version > to && !down:
		return false, run(`COMMIT`)
	case have.version > len(steps):
		return false, fmt.Errorf("it has version %d, but this rouse has steps only up to %d; use the newer one", have.version,
			len(steps))
	}
	var text, mark string
	at := quoteName(o.Schema) + `.migrations`
	if have.version < to {
		m := steps[have.version]
		text = `CREATE TABLE IF NOT EXISTS ` + at +
			` (version integer PRIMARY KEY, compatible integer NOT NULL, applied timestamptz NOT NULL DEFAULT now());` + m.up
		mark = fmt.Sprintf(`INSERT INTO %s (version, compatible) VALUES (%d, %d)`, at, m.version, m.compatible)
		if have.version == 0 {
			mark += fmt.Sprintf(`; SELECT %s.raise(%d)`, quoteName(o.Schema), rouse.FirstRevision(time.Now()))
		}
		if err := makeSchema(ctx, on, o); err != nil {
			return false, err
		}
	} else {
		if have.version == pausesVersion && to > 0 {
			if err := checkPauses(ctx, on, o); err != nil {
				return false, err
			}
		}
		m := steps[have.version-1]
		text, mark = m.down, fmt.Sprintf(`DELETE FROM %s WHERE version = %d`, at, m.version)
	}
	if err := run(fillNames(text, o)); err != nil {
		return false, fmt.Errorf("version %d: %w", max(have.version, min(have.version+1, to)), err)
	}
	if err := run(mark); err != nil {
		return false, err
	}
	return true, run(`COMMIT`)
}

// pausesVersion is the first version whose programs read all rows of timers that were paused with an
// occurrence in progress.
const pausesVersion = 6

// checkPauses refuses to go below pausesVersion with rows that programs of the version below do not read.
func checkPauses(ctx context.Context, on *pgconn.PgConn, o *Options) error {
	// The function progress has no beginning of the pause for all such rows, and for some others.
	const text = `SELECT t.namespace, t.name, t.fire, t.state, t.body FROM {schema}.timers t WHERE (t.namespace, t.name, t.fire) > ($1, $2, $3)
		AND t.state <> 8 AND (SELECT p.paused IS NULL AND p.attempts IS NOT NULL FROM {schema}.progress(t.body) p) ORDER BY t.namespace, t.name, t.fire LIMIT 1000`
	n, first := 0, ""
	for after := (rouse.Key{}); ; {
		r := on.ExecParams(ctx, fillNames(text, o), [][]byte{[]byte(after.Namespace), []byte(after.Name), []byte(after.Fire)},
			nil, nil, binaryResults).Read()
		if r.Err != nil {
			return r.Err
		}
		for _, row := range r.Rows {
			after = rouse.Key{Namespace: string(row[0]), Name: string(row[1]), Fire: string(row[2])}
			t, err := rouse.DecodeTimer(&rouse.Row{Key: after, State: rouse.State(readInt(row[3])), Body: row[4]})
			if err == nil && !rouse.ReadBeforePauses(&t) {
				if n++; n == 1 {
					first = after.Namespace + "/" + after.Name
				}
			}
		}
		if len(r.Rows) == 0 {
			break
		}
	}
	if n > 0 {
		return fmt.Errorf(
			"%d timers, such as %s, were paused with an occurrence in progress, and are in a form that version %d does not read: "+
				"resume them with this version, and let their occurrences end", n, first, pausesVersion-1)
	}
	return nil
}

// makeSchema creates the schema if it does not exist. It checks first, because CREATE SCHEMA IF NOT EXISTS
// requires the right to create schemas even if the schema exists.
func makeSchema(ctx context.Context, on *pgconn.PgConn, o *Options) error {
	r := on.ExecParams(ctx, `SELECT 1 FROM pg_namespace WHERE nspname = $1`, [][]byte{[]byte(o.Schema)}, nil, nil,
		nil).Read()
	if r.Err != nil || len(r.Rows) > 0 {
		return r.Err
	}
	return on.Exec(ctx, `CREATE SCHEMA `+quoteName(o.Schema)).Close()
}

// fillNames replaces the names in the text of a migration.
func fillNames(text string, o *Options) string {
	return strings.NewReplacer("{schema}", quoteName(o.Schema), "{channel}", quoteLiteral(o.Schema), "{revisions}",
		quoteLiteral(quoteName(o.Schema)+".revisions")).Replace(text)
}

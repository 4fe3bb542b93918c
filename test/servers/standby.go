//go:build unix

package servers

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Standby is a PostgreSQL that follows another one by streaming replication until it is promoted.
type Standby struct {
	*Server
	stream  *Proxy // the network between the two
	primary *Server
}

// StartStandby starts a copy of a server as its standby, and returns when it has caught up with the primary.
// If the replication is synchronous, the primary acknowledges a commit when the standby has it on its disk,
// too.
func StartStandby(t testing.TB, primary *Server, synchronous bool) *Standby {
	t.Helper()
	bin := findPostgres(t)
	as, err := asUser("postgres")
	if err != nil {
		t.Fatal(err)
	}
	s := &Standby{stream: NewProxy(t, primary.addr), primary: primary}
	p, err := launchServer("standby", 1, as, func(p *process) error {
		data := filepath.Join(p.dir, "data")
		servePostgres(p, bin, data, nil)
		return runPostgres(p, filepath.Join(bin, "pg_basebackup"), "-D", data, "--write-recovery-conf", "--checkpoint=fast",
			"-d", s.stream.URL(primary.url)+"&application_name=standby")
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = newServer(t, p, postgresURL(p.ports[0].claimedAddr(), "postgres"), p.ports[0].claimedAddr())
	state := "streaming"
	if synchronous {
		s.execStatement(primary, `ALTER SYSTEM SET synchronous_standby_names = 'standby'`)
		s.execStatement(primary, `SELECT pg_reload_conf()`)
		state = "sync"
	}
	s.awaitTrue(primary, `SELECT coalesce(bool_or('`+state+`' IN (state, sync_state)), false) FROM pg_stat_replication`)
	return s
}

// Both is a URL with both servers, for clients that find out which one accepts writes.
func (s *Standby) Both() string {
	return strings.Replace(s.primary.url, s.primary.addr, s.primary.addr+","+s.addr, 1)
}

// Detach lets the standby receive nothing more. Earlier commits of the primary are on the standby's disk.
func (s *Standby) Detach() {
	s.t.Helper()
	var end string
	s.queryValue(s.primary, `SELECT pg_current_wal_flush_lsn()::text`, &end)
	s.awaitTrue(s.primary, `SELECT coalesce(bool_or(flush_lsn >= '`+end+`'), false) FROM pg_stat_replication`)
	s.stream.CutToClient()
}

// Promote makes the standby a primary, and returns when it accepts writes. The former primary does not run.
func (s *Standby) Promote() {
	s.t.Helper()
	s.execStatement(s.Server, `SELECT pg_promote(false)`)
	s.awaitTrue(s.Server, `SELECT NOT pg_is_in_recovery()`)
}

func (s *Standby) execStatement(server *Server, sql string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := postgresExec(ctx, server.url, sql); err != nil {
		s.t.Fatal(err)
	}
}

// awaitTrue waits until a query returns true.
func (s *Standby) awaitTrue(server *Server, sql string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := pollUntilNil(ctx, func(ctx context.Context) error {
		var yes bool
		if err := queryRow(ctx, server, sql, &yes); err != nil || yes {
			return err
		}
		return errors.New("it is false")
	})
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *Standby) queryValue(server *Server, sql string, result any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := queryRow(ctx, server, sql, result); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// queryRow asks a query of one column and one row.
func queryRow(ctx context.Context, server *Server, sql string, result any) (err error) {
	conn, err := pgx.Connect(ctx, server.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return conn.QueryRow(ctx, sql).Scan(result)
}

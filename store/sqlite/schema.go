package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// applicationID identifies a file as a store of this package ("rous"); formatVersion, kept as the user
// version, increases when an older rouse could no longer read it:
//
//	1  the first
//	2  bodies of rows and records of version 2, in addition to those of version 1
//	3  pages end with checksums, if the file was created with this format
//
// A file of an older format can be read, and gets this format when it is opened.
const (
	applicationID = 0x726f7573
	formatVersion = 3
)

// schema: timers are stored in the order of attention, so that a claim is one range read; an index finds a
// timer by its key. Count and Trim use counters instead of scans. Times are milliseconds since 1970;
// 9223372036854775807 is never. Labels are JSON. States: 1 scheduled, 2 retrying, 3 accepted, 4 paused, 5
// dead, 6 firing, 7 ended, 8 note.
var schema = []string{
	`CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID`,
	`INSERT INTO meta VALUES ('revision', 0)`,
	`CREATE TABLE timers (
		bucket INTEGER NOT NULL, visible INTEGER NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, fire TEXT NOT NULL,
		revision INTEGER NOT NULL, generation INTEGER NOT NULL, state INTEGER NOT NULL, due INTEGER NOT NULL, labels TEXT, body BLOB,
		PRIMARY KEY (bucket, visible, namespace, name, fire)) WITHOUT ROWID`,
	`CREATE UNIQUE INDEX timers_by_key ON timers (namespace, name, fire)`,
	`CREATE INDEX timers_by_state ON timers (state, namespace, name, fire) WHERE state <> 1`,
	dueIndex,
	`CREATE TABLE labels (label TEXT NOT NULL, value TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, fire TEXT NOT NULL,
		PRIMARY KEY (label, value, namespace, name, fire)) WITHOUT ROWID`,
	`CREATE TABLE counts (namespace TEXT NOT NULL, state INTEGER NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (namespace, state)) WITHOUT ROWID`,
	`CREATE TABLE records (hour INTEGER NOT NULL, namespace TEXT NOT NULL, ended INTEGER NOT NULL, seq INTEGER NOT NULL, name TEXT NOT NULL,
		body BLOB NOT NULL, PRIMARY KEY (hour, namespace, ended, seq)) WITHOUT ROWID`,
	`CREATE INDEX records_by_timer ON records (hour, namespace, name, ended, seq)`,
	`CREATE TABLE hours (hour INTEGER PRIMARY KEY, records INTEGER NOT NULL)`,
	fmt.Sprintf(`PRAGMA application_id = %d`, applicationID),
	fmt.Sprintf(`PRAGMA user_version = %d`, formatVersion),
}

// openConnections opens connections for writing (one) or for reading.
func openConnections(path string, o Options, write bool) (*sql.DB, error) {
	pragmas := []string{
		// How long a connection waits for another's lock. Connections of rouse never wait; a tool that reads
		// the file may hold a lock for a moment. Loses nothing.
		"busy_timeout(5000)",
		// The log that commits are appended to. Loses nothing; needs a file system that is local to the
		// machine.
		"journal_mode(wal)",
		"temp_store(memory)",
	}
	if write {
		// FULL syncs the log at every commit: acknowledged writes survive a power cut. NORMAL syncs at
		// checkpoints only: see Options.Relaxed for the loss.
		synchronous := "synchronous(full)"
		if o.Relaxed {
			synchronous = "synchronous(normal)"
		}
		pragmas = append(pragmas, synchronous,
			// SQLite checkpoints the log when it reaches this number of pages of 4 KiB: the longer it is, the
			// less is written twice. Loses nothing; opening the store first reads a log of this length.
			"wal_autocheckpoint(4000)",
			// A log that grew in a burst is truncated to this size after a checkpoint. Loses nothing.
			"journal_size_limit(67108864)",
			fmt.Sprintf("cache_size(%d)", -o.CacheBytes/1024))
	} else {
		pragmas = append(pragmas, "query_only(true)", fmt.Sprintf("cache_size(%d)", -o.CacheBytes/4/1024))
	}
	db, err := sql.Open("sqlite", dataSourceName(path, pragmas))
	if err != nil {
		return nil, err
	}
	n := readerCount
	if write {
		n = 1
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

func dataSourceName(path string, pragmas []string) string {
	u := url.URL{Path: path}
	access := ""
	if h, err := readHead(path); err == nil && h.hasChecksums() {
		access = "vfs=" + vfsName + "&"
	}
	return "file:" + u.EscapedPath() + "?" + access + "_pragma=" + strings.Join(pragmas, "&_pragma=")
}

// upgradeFile changes a file of an older format to this one: in its header, and not only in the log, because
// every rouse reads the format there. Until then, nothing is written that an older rouse cannot read.
func upgradeFile(ctx context.Context, db *sql.DB, path string) error {
	format, err := inspectFormat(path)
	if err != nil || format >= formatVersion {
		return err
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, formatVersion)); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		return err
	}
	if format, err = inspectFormat(path); err == nil && format < formatVersion {
		return fmt.Errorf(
			"has format %d, and cannot be brought to format %d as long as another program reads it; end that program", format,
			formatVersion)
	}
	return err
}

// createStoreFile creates a complete new store file with a rollback journal, so that no part of it is in a
// log.
func createStoreFile(path string) error {
	if err := os.WriteFile(path, emptyFile(), 0o600); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dataSourceName(path, []string{"journal_mode(delete)", "synchronous(full)"}))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, statement := range schema {
		if _, err := tx.Exec(statement); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return db.Close()
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/rousehq/rouse"
)

// reads are the prepared statements of the readers.
type reads struct {
	window, get *sql.Stmt
}

func prepareReads(ctx context.Context, db *sql.DB) (r reads, err error) {
	if r.window, err = db.PrepareContext(ctx, windowText); err != nil {
		return r, err
	}
	r.get, err = db.PrepareContext(ctx, `SELECT `+columns+` FROM timers WHERE namespace = ? AND name = ? AND fire = ?`)
	return r, err
}

func (r *reads) closeReads() {
	for _, s := range []*sql.Stmt{r.window, r.get} {
		if s != nil {
			_ = s.Close()
		}
	}
}

// Get returns the rows of the keys at one moment.
func (s *Store) Get(ctx context.Context, keys []rouse.Key) (out []rouse.Row, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, s.faults.Note(readErr(ctx, err))
	}
	defer tx.Rollback()
	stmt := tx.StmtContext(ctx, s.read.get)
	out = make([]rouse.Row, len(keys))
	for i, k := range keys {
		if err := getRow(ctx, stmt, k, &out[i]); err != nil {
			return nil, s.faults.Note(readErr(ctx, err))
		}
	}
	return out, nil
}

// getRow reads the row of a key, if it exists.
func getRow(ctx context.Context, stmt *sql.Stmt, k rouse.Key, to *rouse.Row) (err error) {
	rows, err := stmt.QueryContext(ctx, k.Namespace, k.Name, k.Fire)
	if err != nil {
		return err
	}
	if rows.Next() {
		err = scanRow(rows, to)
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

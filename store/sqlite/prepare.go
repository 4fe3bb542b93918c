package sqlite

import (
	"context"
	"database/sql"
)

// prepareWrite opens the writing connection and prepares its statements.
func prepareWrite(ctx context.Context, s *Store) (w *write, err error) {
	w = &write{s: s, counts: map[countKey]int64{}, hours: map[int64]int64{}}
	if w.conn, err = s.writer.Conn(ctx); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&w.beginS, `BEGIN IMMEDIATE`},
		{&w.commitS, `COMMIT`},
		{&w.rollbackS, `ROLLBACK`},
		{&w.find,
			`SELECT bucket, visible, revision, state, labels FROM timers WHERE namespace = ? AND name = ? AND fire = ?`},
		{&w.insert, `INSERT INTO timers (bucket, visible, namespace, name, fire, revision, generation, state, due, labels, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (namespace, name, fire) DO NOTHING`},
		{&w.remove, `DELETE FROM timers WHERE bucket = ? AND visible = ? AND namespace = ? AND name = ? AND fire = ?`},
		{&w.removePlain,
			`DELETE FROM timers WHERE namespace = ? AND name = ? AND fire = ? AND revision = ? AND state = 1 AND labels IS NULL`},
		{&w.update, `UPDATE timers SET bucket = ?, visible = ?, revision = ?, generation = ?, state = ?, due = ?, labels = ?, body = ?
			WHERE bucket = ? AND visible = ? AND namespace = ? AND name = ? AND fire = ?`},
		{&w.addLabel, `INSERT INTO labels (label, value, namespace, name, fire) VALUES (?, ?, ?, ?, ?)`},
		{&w.dropLabel, `DELETE FROM labels WHERE label = ? AND value = ? AND namespace = ? AND name = ? AND fire = ?`},
		{&w.addCount,
			`INSERT INTO counts (namespace, state, rows) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET rows = rows + excluded.rows`},
		{&w.addRecord, `INSERT INTO records (hour, namespace, ended, seq, name, body) VALUES (?, ?, ?, ?, ?, ?)`},
		{&w.addHour,
			`INSERT INTO hours (hour, records) VALUES (?, ?) ON CONFLICT DO UPDATE SET records = records + excluded.records`},
		{&w.window, windowText},
		{&w.move,
			`UPDATE timers SET visible = ?, revision = ? WHERE bucket = ? AND visible = ? AND namespace = ? AND name = ? AND fire = ?`},
		{&w.trimRecords, `DELETE FROM records WHERE hour = ? AND (namespace, ended, seq) IN
			(SELECT namespace, ended, seq FROM records WHERE hour = ? LIMIT ?)`},
		{&w.trimRecordsOf, trimTimerText},
		{&w.trimHour, `DELETE FROM hours WHERE hour = ?`},
		{&w.dropHour, `DELETE FROM hours WHERE hour = ? AND records <= 0`},
		{&w.last, `UPDATE meta SET value = ? WHERE name = 'revision'`},
	} {
		if *p.to, err = w.conn.PrepareContext(ctx, p.text); err != nil {
			w.closeStatements()
			return nil, err
		}
		w.all = append(w.all, *p.to)
	}
	return w, nil
}

func (w *write) closeStatements() {
	for _, s := range w.all {
		_ = s.Close()
	}
	_ = w.conn.Close()
}

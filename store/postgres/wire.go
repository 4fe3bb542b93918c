package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// call is a statement with its parameters in binary format. It contains their types, so the server need not
// be asked for them, and nothing about a statement has to be kept between two calls.
type call struct {
	text string
	args [][]byte
	oids []uint32
}

func newCall(text string) *call { return &call{text: text} }

// addParameter adds a parameter; nil is NULL.
func (c *call) addParameter(oid uint32, value []byte) *call {
	c.args, c.oids = append(c.args, value), append(c.oids, oid)
	return c
}

func (c *call) addInt8(v int64) *call {
	return c.addParameter(pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(v)))
}

func (c *call) addInt4(v int) *call {
	return c.addParameter(pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(v)))
}

func (c *call) addBool(v bool) *call {
	b := []byte{0}
	if v {
		b[0] = 1
	}
	return c.addParameter(pgtype.BoolOID, b)
}

func (c *call) addString(v string) *call { return c.addParameter(pgtype.TextOID, []byte(v)) }

func (c *call) addArray(a *array) *call { return c.addParameter(a.oid, a.encodeArray()) }

func (c *call) addArrays(list ...*array) {
	for _, a := range list {
		c.addArray(a)
	}
}

// array is an array that is being written in binary format.
type array struct {
	oid, element uint32
	n            uint32
	null         bool
	buf          []byte
}

// arrayHeader: dimensions, whether there are nulls, the type of the elements, their number, and the first
// index.
const arrayHeader = 20

func newArray(oid, element uint32, n, size int) *array {
	return &array{oid: oid, element: element, buf: make([]byte, arrayHeader, arrayHeader+n*(4+size))}
}

func newInt8Array(n int) *array       { return newArray(pgtype.Int8ArrayOID, pgtype.Int8OID, n, 8) }
func newInt4Array(n int) *array       { return newArray(pgtype.Int4ArrayOID, pgtype.Int4OID, n, 4) }
func newInt2Array(n int) *array       { return newArray(pgtype.Int2ArrayOID, pgtype.Int2OID, n, 2) }
func newTIDArray(n int) *array        { return newArray(pgtype.TIDArrayOID, pgtype.TIDOID, n, tidSize) }
func newTextArray(n, size int) *array { return newArray(pgtype.TextArrayOID, pgtype.TextOID, n, size) }
func newByteaArray(n, size int) *array {
	return newArray(pgtype.ByteaArrayOID, pgtype.ByteaOID, n, size)
}
func (a *array) appendSize(n int)      { a.n++; a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(n)) }
func (a *array) appendString(v string) { a.appendSize(len(v)); a.buf = append(a.buf, v...) }
func (a *array) addNull()              { a.appendSize(-1); a.null = true }
func (a *array) appendInt8(v int64) {
	a.appendSize(8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
}
func (a *array) appendInt4(v int) {
	a.appendSize(4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(v))
}
func (a *array) appendInt2(v int) {
	a.appendSize(2)
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(v))
}
func (a *array) appendBytea(v []byte) {
	if v == nil {
		a.addNull()
		return
	}
	a.appendSize(len(v))
	a.buf = append(a.buf, v...)
}

func (a *array) encodeArray() []byte {
	header := a.buf[:arrayHeader]
	null := uint32(0)
	if a.null {
		null = 1
	}
	binary.BigEndian.PutUint32(header[4:], null)
	binary.BigEndian.PutUint32(header[8:], a.element)
	if a.n == 0 {
		return a.buf[:12] // an empty array has no dimensions
	}
	binary.BigEndian.PutUint32(header[0:], 1)
	binary.BigEndian.PutUint32(header[12:], a.n)
	binary.BigEndian.PutUint32(header[16:], 1)
	return a.buf
}

// readInts parses an array of int4 or int8 without nulls; NULL is empty.
func readInts(b []byte) ([]int64, error) {
	if len(b) < arrayHeader {
		return nil, nil
	}
	out := make([]int64, binary.BigEndian.Uint32(b[12:]))
	b = b[arrayHeader:]
	for i := range out {
		if len(b) < 4 {
			return nil, errShort
		}
		size := binary.BigEndian.Uint32(b)
		if b = b[4:]; uint32(len(b)) < size || size != 4 && size != 8 {
			return nil, errShort
		}
		out[i] = readInt(b[:size])
		b = b[size:]
	}
	return out, nil
}

var errShort = fmt.Errorf("the answer of the server is truncated or has an unexpected type")

// readInt parses an int2, int4 or int8; NULL is 0.
func readInt(b []byte) int64 {
	switch len(b) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

var binaryResults = []int16{1}

// exchangeCalls sends calls after the settings of their transaction, in one round trip, and passes the rows
// of call i to read, which must not keep them. They are one transaction, because the server commits at the
// one Sync at their end. When it returns without an error, the transaction is committed. Calls for which the
// server has done nothing, because it had closed the connection before, are sent again on another one.
func exchangeCalls(ctx context.Context, pool *pgxpool.Pool, settings string, calls []*call,
	read func(i int, row [][]byte) error) error {
	for try := int32(0); ; try++ {
		conn, err := pool.Acquire(ctx)
		if err == nil {
			err = sendBatch(ctx, conn.Conn().PgConn(), settings, calls, read)
			conn.Release() // of a broken one, the pool makes another
		}
		// Also a new one may be closed, between two of its first statements.
		if err == nil || !wasIdle(err) || try > pool.Stat().MaxConns() {
			return err
		}
	}
}

func sendBatch(ctx context.Context, on *pgconn.PgConn, settings string, calls []*call,
	read func(i int, row [][]byte) error) error {
	var batch pgconn.Batch
	first := 1 // the result of the first call
	begin := on.CustomData()[otherIsolation] != nil
	if begin { // every statement must see the commits before it
		batch.ExecParams(`BEGIN ISOLATION LEVEL READ COMMITTED`, nil, nil, nil, nil)
		first++
	}
	batch.ExecParams(settings, nil, nil, nil, nil)
	for _, c := range calls {
		batch.ExecParams(c.text, c.args, c.oids, binaryResults, binaryResults)
	}
	if begin {
		batch.ExecParams(`COMMIT`, nil, nil, nil, nil)
	}
	results := on.ExecBatch(ctx, &batch)
	var bad error
	for i := -first; results.NextResult(); i++ {
		for r := results.ResultReader(); r.NextRow(); {
			if i >= 0 && bad == nil && read != nil {
				bad = read(i, r.Values())
			}
		}
	}
	err := results.Close()
	if err == nil {
		return bad
	}
	switch {
	case isDemoted(err): // a new connection finds the current primary
		_ = on.Close(context.WithoutCancel(ctx))
	case begin && !on.IsClosed():
		_ = on.Exec(ctx, `ROLLBACK`).Close() // if it fails, the pool does not use the connection again
	}
	return err
}

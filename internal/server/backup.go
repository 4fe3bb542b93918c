package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// backupChunk is the size of one chunk of a backup.
const backupChunk = 256 << 10

// backupStore writes a copy of the store. Only one runs at a time, because each reads the whole store.
func (s *service) backupStore(ctx context.Context, w io.Writer) error {
	if s.opts.Backup == nil {
		return fmt.Errorf("this store cannot be copied through the API: %w", rousev1.ErrUnimplemented)
	}
	if !s.copying.TryLock() {
		return fmt.Errorf("another backup is being written: %w", rousev1.ErrBusy)
	}
	defer s.copying.Unlock()
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	return s.drainError(s.opts.Backup(ctx, w))
}

// adminServer implements rouse.v1.Admin.
type adminServer struct {
	rousev1.UnimplementedAdminServer
	*service
}

func (f *adminServer) Backup(_ *rousev1.BackupRequest, stream grpc.ServerStreamingServer[rousev1.BackupChunk]) error {
	w := bufio.NewWriterSize(chunks{stream}, backupChunk)
	if err := f.backupStore(stream.Context(), w); err != nil {
		return err
	}
	return w.Flush()
}

// chunks sends each write as messages of at most backupChunk.
type chunks struct {
	to grpc.ServerStreamingServer[rousev1.BackupChunk]
}

func (c chunks) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part := b[:min(len(b), backupChunk)]
		// a message must not change once it is sent
		if err := c.to.Send(&rousev1.BackupChunk{Data: bytes.Clone(part)}); err != nil {
			return n - len(b), err
		}
		b = b[len(part):]
	}
	return n, nil
}

const tarType = "application/x-tar"

const backupAnswer = `
responses:
  "200": {description: 'A tar archive. An answer that ends early, with its connection cut, is not whole.', content: {application/x-tar: {schema: {type: string, contentEncoding: binary}}}}`

// writeBackup streams a tar archive. An error after its beginning cuts the connection, so that the client
// cannot take a part for the whole.
func writeBackup(f *httpHandler, c *call) error {
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", tarType)
		return nil
	}
	body := &download{call: c}
	w := bufio.NewWriterSize(body, backupChunk)
	err := f.backupStore(c.r.Context(), w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil || !body.begun {
		return err
	}
	f.log.Error("backup ended early", "err", err)
	panic(http.ErrAbortHandler)
}

// download is a streamed response: each write to the client may take followWrite.
type download struct {
	*call
	begun bool
}

func (d *download) Write(b []byte) (int, error) {
	if !d.begun {
		d.begun = true
		h := d.w.Header()
		h.Set("Content-Type", tarType)
		h.Set("Content-Disposition", `attachment; filename="rouse-`+time.Now().UTC().Format("20060102T150405Z")+`.tar"`)
	}
	d.extendWriteDeadline()
	return d.w.Write(b)
}

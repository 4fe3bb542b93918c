package server

import (
	"bufio"
	"bytes"
	"context"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// adminServer implements rouse.v1.Admin.
type adminServer struct {
	rousev1.UnimplementedAdminServer
	*service
}

func (f *adminServer) Backup(_ *rousev1.BackupRequest, stream grpc.ServerStreamingServer[rousev1.BackupChunk]) error {
	w := bufio.NewWriterSize(chunks{stream}, backupChunk)
	if err := f.backup(stream.Context(), w); err != nil {
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
		if err := c.to.Send(&rousev1.BackupChunk{Data: bytes.Clone(part)}); err != nil { // a message must not change once it is sent
			return n - len(b), err
		}
		b = b[len(part):]
	}
	return n, nil
}

func (f *adminServer) GetClock(context.Context, *rousev1.GetClockRequest) (*rousev1.Clock, error) {
	return clockToProto(f.clock()), nil
}

func (f *adminServer) AdvanceClock(ctx context.Context, r *rousev1.AdvanceClockRequest) (*rousev1.Clock, error) {
	by, err := rousev1.DurationFromProto("by", r.By)
	if err != nil {
		return nil, err
	}
	state, err := f.advance(ctx, by, rouse.Instant(r.ToMs), r.Jump)
	if err != nil {
		return nil, renamed(err, plainNames)
	}
	return clockToProto(state), nil
}

func clockToProto(c clockState) *rousev1.Clock {
	return &rousev1.Clock{NowMs: int64(c.now), Ahead: rousev1.DurationToProto(c.ahead), Virtual: c.virtual, Fired: c.fired}
}

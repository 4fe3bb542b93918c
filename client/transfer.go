package client

import (
	"context"
	"io"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// MaxImport bounds the timers of one call of Import.
const MaxImport = 1000

// Import writes up to MaxImport timers and dead letters as List returned them, with their state, and before
// them calendars. It returns an outcome for each timer, in their order. It is retried in mode
// CreateOrReplace, which is idempotent.
func (c *Client) Import(ctx context.Context, mode Mode, timers []rouse.Timer,
	calendars []rouse.Calendar) ([]Created, error) {
	request := &rousev1.ImportRequest{Mode: rousev1.Mode(mode), Timers: make([]*rousev1.Timer, len(timers))}
	for i := range timers {
		request.Timers[i] = rousev1.TimerToProto(&timers[i])
	}
	for i := range calendars {
		request.Calendars = append(request.Calendars, rousev1.CalendarToProto(&calendars[i]))
	}
	call := func(bool) (*rousev1.ImportResponse, error) { return c.timers.Import(ctx, request) }
	var p *rousev1.ImportResponse
	var err error
	if mode == CreateOrReplace {
		p, err = callIdempotent(ctx, c.opts.Patience, call)
	} else {
		p, err = callOnce(ctx, c, func(ctx context.Context) (*rousev1.ImportResponse,
			error) {
			return c.timers.Import(ctx, request)
		})
	}
	if err != nil {
		return nil, err
	}
	return createdOf(p.Created), nil
}

// Backup writes a consistent copy of the service's store to w, as a tar archive, while the service continues,
// and returns how many bytes it wrote. After an error, the data in w is no backup. It is not retried.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.admin.Backup(ctx, &rousev1.BackupRequest{})
	if err != nil {
		return 0, errorFromGRPC(err)
	}
	for n := int64(0); ; {
		chunk, err := stream.Recv()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, errorFromGRPC(err)
		}
		wrote, err := w.Write(chunk.Data)
		if n += int64(wrote); err != nil {
			return n, err
		}
	}
}

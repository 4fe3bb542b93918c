package client

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Now returns the service's clock: the time of its latest answer plus the time since then; before the first
// answer, this machine's clock. The clock of a development server may be far ahead.
func (c *Client) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// recordClock records the service's clock from each response.
func (c *Client) recordClock(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var header metadata.MD
	err := call(ctx, method, request, reply, conn, append(opts, grpc.Header(&header))...)
	if v := header.Get(nowHeader); len(v) == 1 {
		if ms, wrong := strconv.ParseInt(v[0], 10, 64); wrong == nil {
			c.ahead.Store(int64(time.Until(time.UnixMilli(ms))))
		}
	}
	return err
}

//go:build !unix

package webhook

import "time"

// stale reports whether a connection was idle for so long that the receiver may have closed it. Where a
// socket cannot be asked, an attempt over a connection that was closed fails, and is retried.
func (c *conn) stale() bool { return time.Since(c.since) > 5*time.Second }

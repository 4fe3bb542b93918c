//go:build !unix

package webhook

import "time"

// isStale reports whether a connection was idle for so long that the receiver may have closed it. Where a
// socket cannot be asked, a request over a connection that was closed is sent once more.
func (c *conn) isStale() bool { return time.Since(c.since) > 5*time.Second }

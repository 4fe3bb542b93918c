// Package heartbeat has the signs of life of a node: the canary, a timer whose fires show that the whole path
// of a fire works, and the heartbeat by which a monitor outside knows that the node fires on time.
package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// timeout bounds one request of a heartbeat.
const timeout = 10 * time.Second

// Heartbeat reports to an external monitor at intervals that the node fires on time. The monitor raises the
// alarm when it gets nothing, for any reason.
type Heartbeat struct {
	Every   time.Duration
	Healthy func(context.Context) error // why the node does not fire on time
	Send    func(context.Context) error
	Log     *slog.Logger
	Count   *prometheus.CounterVec // by the results sent, failed and withheld
}

// Run sends heartbeats until ctx ends.
func (h *Heartbeat) Run(ctx context.Context) error {
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	for was := ""; ; {
		result, err := "sent", h.Healthy(ctx)
		if err != nil {
			result = "withheld"
		} else if err = h.Send(ctx); err != nil {
			result = "failed"
		}
		if ctx.Err() != nil {
			return nil
		}
		h.Count.WithLabelValues(result).Inc()
		if result != was && err != nil {
			h.Log.Warn("the heartbeat was "+result, "error", err)
		} else if result != was {
			h.Log.Info("heartbeats are sent")
		}
		was = result
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// PostTo returns a function that sends one heartbeat. Errors do not contain the URL, which may be a secret.
func PostTo(to string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
		if err != nil {
			return errors.New("the URL of the setting heartbeat cannot be used")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			if why, ok := errors.AsType[*url.Error](err); ok {
				err = why.Err
			}
			return err
		}
		defer resp.Body.Close()
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("it was answered %s", resp.Status)
		}
		return nil
	}
}

// Package scaler tells KEDA how many replicas a workload needs for what is due: it counts the timers that
// come due soon, so that the replicas are there in time.
package scaler

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api/keda"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Counter is what a scaler needs of a client.
type Counter interface {
	Count(ctx context.Context, q rouse.Query) (int64, error)
	Now() time.Time
}

// pushEvery is how often a push scaler looks whether the workload is needed.
const pushEvery = 2 * time.Second

// maxAhead bounds how long before they are due timers count.
const maxAhead = 24 * time.Hour

// waiting are the states of timers and occurrences that a replica is needed for when they are due.
var waiting = []rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StateFiring}

// Scaler is an external scaler of KEDA.
type Scaler struct {
	keda.UnimplementedExternalScalerServer

	timers Counter
	o      Options
}

// Options define what triggers may ask for. A namespace of Kubernetes has its timers in the namespace of
// rouse of the same name, after the prefix, so that no workload learns of those of others.
type Options struct {
	Prefix       string
	AnyNamespace bool // triggers may name another namespace
}

// New returns a scaler that counts by a client.
func New(timers Counter, o Options) *Scaler { return &Scaler{timers: timers, o: o} }

// demand is what a trigger asks for.
type demand struct {
	query rouse.Query
	ahead time.Duration
	each  float64 // that one replica is good for
}

// parseTrigger reads the metadata of a trigger.
func (s *Scaler) parseTrigger(ref *keda.ScaledObjectRef) (d demand, err error) {
	d = demand{query: rouse.Query{Namespace: s.o.Prefix + ref.GetNamespace(), States: waiting}, ahead: 30 * time.Second, each: 1}
	for name, value := range ref.GetScalerMetadata() {
		switch name {
		case "namespace":
			if d.query.Namespace = value; !s.o.AnyNamespace {
				err = rouse.Refuse(name, value, "is not that of the workload", "leave it out, or start the scaler with --any-namespace")
			}
		case "prefix":
			d.query.Prefix = value
		case "labels":
			d.query.Labels, err = parseLabels(value)
		case "ahead":
			if d.ahead, err = rouse.ParseDuration(value); err == nil && (d.ahead < 0 || d.ahead > maxAhead) {
				err = rouse.Refuse(name, value, "is out of bounds", "give 0s to 24h")
			}
		case "perReplica":
			if d.each, err = strconv.ParseFloat(value, 64); err != nil || !(d.each > 0 && d.each <= 1e9) {
				err = rouse.Refuse(name, value, "is no number of timers", "give a number above 0")
			}
		case "scalerAddress", "tlsCertFile", "caCert", "tlsClientCert", "tlsClientKey", "unsafeSsl", "enableTLS": // KEDA's own
		default:
			err = rouse.Refuse(name, value, "is unknown", "there are namespace, prefix, labels, ahead and perReplica")
		}
		if err != nil {
			return d, status.Error(codes.InvalidArgument, rouse.Under(name, err).Error())
		}
	}
	if err := cmp.Or(rouse.CheckNamespace(d.query.Namespace), d.query.Check()); err != nil { // none would be all
		return d, status.Error(codes.InvalidArgument, err.Error())
	}
	return d, nil
}

// parseLabels reads labels such as "team=billing,kind=mail".
func parseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || key == "" {
			return nil, rouse.Refuse("labels", text, "are no labels", "give some such as team=billing,kind=mail")
		}
		labels[key] = value
	}
	return labels, nil
}

// countDue returns how many timers and occurrences need a replica: those that are in progress, that wait, or
// that come due ahead of time.
func (s *Scaler) countDue(ctx context.Context, d *demand) (float64, error) {
	q := d.query
	q.DueUntil = rouse.At(s.timers.Now()).Add(d.ahead + 1) // exclusive
	n, err := s.timers.Count(ctx, q)
	if err != nil {
		return 0, rousev1.ErrorToStatus(err).Err()
	}
	return float64(n), nil
}

// IsActive reports whether something is due.
func (s *Scaler) IsActive(ctx context.Context, ref *keda.ScaledObjectRef) (*keda.IsActiveResponse, error) {
	d, err := s.parseTrigger(ref)
	if err != nil {
		return nil, err
	}
	n, err := s.countDue(ctx, &d)
	return &keda.IsActiveResponse{Result: n > 0}, err
}

// StreamIsActive reports now and at each change whether something is due, so that the first replica starts
// without the polling interval of KEDA.
func (s *Scaler) StreamIsActive(ref *keda.ScaledObjectRef, to grpc.ServerStreamingServer[keda.IsActiveResponse]) error {
	d, err := s.parseTrigger(ref)
	if err != nil {
		return err
	}
	tick := time.NewTicker(pushEvery)
	defer tick.Stop()
	for was, known := false, false; ; {
		n, err := s.countDue(to.Context(), &d)
		if err != nil {
			return err
		}
		if is := n > 0; is != was || !known {
			if err := to.Send(&keda.IsActiveResponse{Result: is}); err != nil {
				return err
			}
			was, known = is, true
		}
		select {
		case <-to.Context().Done():
			return to.Context().Err()
		case <-tick.C:
		}
	}
}

// metricName is the name of the only metric of a trigger.
const metricName = "rouse-due"

// GetMetricSpec returns how many due timers one replica is good for.
func (s *Scaler) GetMetricSpec(_ context.Context, ref *keda.ScaledObjectRef) (*keda.GetMetricSpecResponse, error) {
	d, err := s.parseTrigger(ref)
	if err != nil {
		return nil, err
	}
	return &keda.GetMetricSpecResponse{MetricSpecs: []*keda.MetricSpec{
		{MetricName: metricName, TargetSize: max(1, int64(d.each)), TargetSizeFloat: d.each}}}, nil
}

// GetMetrics returns how many timers are due.
func (s *Scaler) GetMetrics(ctx context.Context, r *keda.GetMetricsRequest) (*keda.GetMetricsResponse, error) {
	d, err := s.parseTrigger(r.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	n, err := s.countDue(ctx, &d)
	if err != nil {
		return nil, err
	}
	return &keda.GetMetricsResponse{MetricValues: []*keda.MetricValue{
		{MetricName: metricName, MetricValue: int64(n), MetricValueFloat: n}}}, nil
}

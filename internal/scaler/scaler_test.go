package scaler

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api/keda"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/api"
)

// startScaler starts a node and a scaler in front of it, and returns clients of both.
func startScaler(t *testing.T) (*client.Client, keda.ExternalScalerClient) {
	t.Helper()
	n, err := node.Open(t.Context(), "mem:", node.WithAPI("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	timers, err := client.Dial(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	keda.RegisterExternalScalerServer(s, New(timers, Options{Prefix: "k-", AnyNamespace: true}))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		timers.Close()
	})
	return timers, keda.NewExternalScalerClient(conn)
}

// TestWhatIsDueIsCounted: timers that match, and come due ahead of time, are the demand; those of other
// namespaces and paused ones are not.
func TestWhatIsDueIsCounted(t *testing.T) {
	timers, scaler := startScaler(t)
	create := func(namespace, name, when string, labels map[string]string) {
		t.Helper()
		spec := rouse.Spec{Schedule: when, Target: "stream:jobs", Labels: labels}
		if _, err := timers.Create(t.Context(), namespace, name, spec); err != nil {
			t.Fatal(err)
		}
	}
	mail := map[string]string{"kind": "mail", "team": "a"}
	create("k-shop", "mail-1", "@after 1h", mail)
	create("k-shop", "mail-2", "@after 3h", mail)
	create("k-shop", "bill-1", "@after 1h", map[string]string{"kind": "bill"})
	create("k-shop", "mail-now", "@after 1ms", mail) // no subscriber: it waits
	create("k-shop", "mail-off", "@after 1h", mail)
	create("other", "mail-1", "@after 1h", mail)
	if _, err := timers.Pause(t.Context(), "k-shop", "mail-off", ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		meta map[string]string
		want float64
	}{
		{map[string]string{"ahead": "2h"}, 3},
		{map[string]string{"ahead": "4h"}, 4},
		{map[string]string{"ahead": "0s"}, 1},
		{nil, 1},
		{map[string]string{"ahead": "2h", "labels": "kind=mail, team=a", "scalerAddress": "x:1"}, 2},
		{map[string]string{"ahead": "2h", "prefix": "bill-"}, 1},
		{map[string]string{"ahead": "2h", "namespace": "other"}, 1},
		{map[string]string{"namespace": "none"}, 0},
	} {
		ref := &keda.ScaledObjectRef{Name: "worker", Namespace: "shop", ScalerMetadata: c.meta}
		m, err := scaler.GetMetrics(t.Context(), &keda.GetMetricsRequest{ScaledObjectRef: ref, MetricName: metricName})
		if err != nil || len(m.MetricValues) != 1 || m.MetricValues[0].MetricValueFloat != c.want || m.MetricValues[0].MetricValue != int64(c.want) {
			t.Errorf("%v: %v, %v, want %v", c.meta, m, err, c.want)
		}
		if active, err := scaler.IsActive(t.Context(), ref); err != nil || active.Result != (c.want > 0) {
			t.Errorf("%v: active %v, %v", c.meta, active, err)
		}
	}
}

// TestAScalerIsPushed: a stream reports now, and at each change, whether something is due.
func TestAScalerIsPushed(t *testing.T) {
	timers, scaler := startScaler(t)
	stream, err := scaler.StreamIsActive(t.Context(), &keda.ScaledObjectRef{Namespace: "shop", ScalerMetadata: map[string]string{"ahead": "2h"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func() error
		want   bool
	}{
		{func() error { return nil }, false},
		{func() error {
			_, err := timers.Create(t.Context(), "k-shop", "a", rouse.Spec{Schedule: "@after 1h", Target: "stream:jobs"})
			return err
		}, true},
		{func() error { _, err := timers.Delete(t.Context(), "k-shop", "a"); return err }, false},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); err != nil || got.Result != c.want {
			t.Fatalf("%v, %v, want %v", got, err, c.want)
		}
	}
}

// TestTriggers: what one replica is good for, and which metadata are refused, by each call.
func TestTriggers(t *testing.T) {
	s := New(nowhere{}, Options{})
	for value, want := range map[string]*keda.MetricSpec{
		"":   {TargetSize: 1, TargetSizeFloat: 1},
		"20": {TargetSize: 20, TargetSizeFloat: 20},
		".5": {TargetSize: 1, TargetSizeFloat: .5},
	} {
		ref := &keda.ScaledObjectRef{Namespace: "a"}
		if value != "" {
			ref.ScalerMetadata = map[string]string{"perReplica": value}
		}
		got, err := s.GetMetricSpec(t.Context(), ref)
		if err != nil || got.MetricSpecs[0].TargetSize != want.TargetSize || got.MetricSpecs[0].TargetSizeFloat != want.TargetSizeFloat {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	if _, err := s.IsActive(t.Context(), &keda.ScaledObjectRef{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a namespace: %v", err)
	}
	for name, value := range map[string]string{"perReplica": "0", "ahead": "25h", "labels": "a", "prefix": "\x01", "namespace": "b", "aheads": "1s"} {
		ref := &keda.ScaledObjectRef{Namespace: "a", ScalerMetadata: map[string]string{name: value}}
		_, err := s.GetMetricSpec(t.Context(), ref)
		_, active := s.IsActive(t.Context(), ref)
		_, metrics := s.GetMetrics(t.Context(), &keda.GetMetricsRequest{ScaledObjectRef: ref})
		for _, err := range []error{err, active, metrics} {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
	}
}

// nowhere counts nothing: what is refused asks no server.
type nowhere struct{ Counter }

func (nowhere) Now() time.Time { return time.Time{} }

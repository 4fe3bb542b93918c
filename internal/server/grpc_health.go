package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// health implements grpc.health.v1 with the status of /readyz, for the server and each of its services.
type health struct {
	healthv1.UnimplementedHealthServer
	ready    func() error
	draining context.Context
}

// healthEvery is the poll interval of watched statuses.
const healthEvery = 2 * time.Second

func (h *health) servingStatus(name string) (healthv1.HealthCheckResponse_ServingStatus, bool) {
	switch name {
	case "", rousev1.Timers_ServiceDesc.ServiceName, rousev1.Fires_ServiceDesc.ServiceName,
		rousev1.Calendars_ServiceDesc.ServiceName,
		rousev1.Admin_ServiceDesc.ServiceName, rousev1.Access_ServiceDesc.ServiceName:
	default:
		return healthv1.HealthCheckResponse_SERVICE_UNKNOWN, false
	}
	if h.draining.Err() != nil || h.ready() != nil {
		return healthv1.HealthCheckResponse_NOT_SERVING, true
	}
	return healthv1.HealthCheckResponse_SERVING, true
}

func (h *health) Check(_ context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	st, known := h.servingStatus(r.Service)
	if !known {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &healthv1.HealthCheckResponse{Status: st}, nil
}

func (h *health) Watch(r *healthv1.HealthCheckRequest,
	stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	told := healthv1.HealthCheckResponse_ServingStatus(-1)
	for {
		if st, _ := h.servingStatus(r.Service); st != told {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: st}); err != nil {
				return err
			}
			told = st
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-h.draining.Done():
			if told != healthv1.HealthCheckResponse_NOT_SERVING {
				_ = stream.Send(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING})
			}
			return status.Error(codes.Unavailable, "closed")
		}
	}
}

package server

import (
	"slices"
	"testing"

	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
)

// TestTheServerDescribesItself: reflection lists the services, and has the files of each.
func TestTheServerDescribesItself(t *testing.T) {
	r := serve(t, Options{Timers: newFake()})
	stream, err := reflectionv1.NewServerReflectionClient(r.dial()).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		a, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var names []string
	for _, s := range ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	for name := range r.server.grpc.GetServiceInfo() {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not listed", name)
		}
		a := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}})
		if len(a.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("%s: %v", name, a)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

package server

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// TestJobs: through both doors a job is the same.
func TestJobs(t *testing.T) {
	f := newFake()
	h := handler(f)
	w := do(h, "GET", "/v1/namespaces/ns/jobs", "")
	want(t, w, 200)
	if list := decoded[api.JobList](t, w).Jobs; len(list) != 2 || list[0].ID != "calendar-days" || list[0].Problem.Code != "forbidden" || list[0].Calendar != "days" {
		t.Errorf("%+v", list)
	}
	for method, path := range map[string]string{"GET": "/v1/namespaces/ns/jobs/bulk-1", "POST": "/v1/namespaces/ns/jobs/bulk-1:cancel"} {
		w := do(h, method, path, "")
		want(t, w, 200)
		j := decoded[api.Job](t, w)
		if j.Namespace != "ns" || j.Action != "delete" || j.State != "cancelled" || j.Changed != 2 || j.Filter.Prefix != "a" || j.By != "key:a" || len(j.Failures) != 1 || j.Failures[0].Problem.Code != "invalid" {
			t.Errorf("%s: %+v", path, j)
		}
	}
	want(t, do(h, "GET", "/v1/namespaces/-/jobs/bulk-2", ""), 404)
	want(t, do(h, "POST", "/v1/namespaces/ns/jobs/bulk-2:cancel", ""), 404)

	c := rousev1.NewJobsClient(serve(t, Options{Timers: f}).dial())
	list := must[*rousev1.ListJobsResponse](t)(c.ListJobs(t.Context(), &rousev1.ListJobsRequest{Namespace: "-"})).Jobs
	if len(list) != 2 || list[1].Namespace != "-" || list[1].Kind != "bulk" {
		t.Errorf("%v", list)
	}
	j := must[*rousev1.Job](t)(c.GetJob(t.Context(), &rousev1.GetJobRequest{Id: "bulk-1"}))
	if j.Namespace != "default" || j.Filter.NamePrefix != "a" || j.Failures[0].Name != "stuck" || j.EndedMs != int64(epoch) {
		t.Errorf("%v", j)
	}
	must[*rousev1.Job](t)(c.CancelJob(t.Context(), &rousev1.CancelJobRequest{Id: "bulk-1"}))
	_, err := c.CancelJob(t.Context(), &rousev1.CancelJobRequest{Id: "bulk-2"})
	wantCode(t, err, codes.NotFound)
}

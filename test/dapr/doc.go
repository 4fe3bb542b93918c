// Package dapr runs Dapr's own sidecar, unmodified, against the real rouse: jobs, actor reminders and
// workflows, while either is killed. It also takes over the jobs of Dapr's own scheduler from its etcd.
// Building these programs takes minutes, so "make test-dapr" does it and sets DAPR_PROGRAMS to their folder:
// rouse, daprd, placement, scheduler, and flow, the application of tools/dapr. Without it the tests are
// skipped.
package dapr

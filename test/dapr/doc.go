// Package dapr runs Dapr's own sidecar, unmodified, against the real rouse: jobs, actor reminders and workflows, while either is
// killed; and takes over the jobs of Dapr's own scheduler from its etcd. Building these takes minutes, so "make test-dapr" does it, and
// DAPR_PROGRAMS is the folder with the programs: rouse, daprd, placement, scheduler, and flow, the application of tools/dapr. Without it
// the tests are skipped.
package dapr

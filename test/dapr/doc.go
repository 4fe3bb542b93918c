// Package dapr runs Dapr's own sidecar, unmodified, against the real rouse: jobs, actor reminders and workflows, while either is
// killed. Building the sidecar takes minutes, so "make test-dapr" does it, and says by DAPR_PROGRAMS where the programs are: rouse, daprd,
// placement and flow, the application of tools/dapr. Without it the tests are skipped.
package dapr

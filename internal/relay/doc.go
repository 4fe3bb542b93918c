// Package relay puts a queue between the nodes that decide when timers fire and those that call their
// targets, so that slow targets do not slow the scheduler.
//
//	scheduler: engine ─► Sink.Deliver ─► publish, confirmed ─► settled as accepted         (sink.go)
//	                                         │
//	                                       queue
//	                                         │
//	executor:  Consume ─► look ─► lanes ─► the real sinks ─► report ─► acknowledge         (executor.go, check.go, lane.go, finish.go)
//	                                         └─ heartbeats while it waits or runs          (heartbeat.go)
//
// For the scheduler, the queue is a receiver that answers "accepted" and reports later. So the state of the
// timer shows the progress: scheduled, accepted once the fire is in the queue, and then the outcome. All
// failures are covered by existing mechanisms:
//
//   - The scheduler crashes before it has published, or before it has stored that the fire was accepted: the
//     row is still due, and the fire is sent again with the same id and a newer token. The older message is
//     outdated.
//   - The queue loses the message, or no executor takes it: there is no report in time, and the attempt
//     fails.
//   - An executor crashes: its unacknowledged message is delivered to another one.
//   - An executor crashes after its report: the message is delivered again, recognized as outdated, and
//     acknowledged.
//   - The timer is deleted, replaced or skipped while the fire is in the queue: the look before the call
//     detects it.
//
// If a target is called twice, the fire id is the same. A message that is delivered too often, because it
// crashes each executor, is reported as a failed attempt, so the timer's retry policy ends it as a dead
// letter.
package relay

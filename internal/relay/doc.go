// Package relay puts a queue between the nodes that decide when timers fire and those that call their targets, so that slow
// targets do not slow the scheduler.
//
//	scheduler: engine ─► Sink.Deliver ─► publish, confirmed ─► settled as accepted         (sink.go)
//	                                         │
//	                                       queue
//	                                         │
//	executor:  Consume ─► look ─► lanes ─► the real sinks ─► report ─► acknowledge         (executor.go, look.go, lane.go, finish.go)
//	                                         └─ heartbeats while it waits or runs          (beat.go)
//
// For the scheduler, the queue is a receiver that answers "accepted" and reports later. So the timer shows what is going on:
// scheduled, accepted once the fire is in the queue, and then how it ended; and all that can go wrong has an answer already:
//
//   - The scheduler dies before it has published, or before it has written that the fire was accepted: the row is still due, and the
//     fire is sent again, with the same id and a newer token. The older message is out of date.
//   - The queue loses the message, or no executor takes it: nobody reports in time, and the attempt has failed.
//   - An executor dies: the message was not acknowledged, and comes to another one.
//   - An executor dies after it has reported: the message comes again, is seen to be out of date, and is acknowledged.
//   - The timer is deleted, replaced or skipped while the fire is in the queue: the look before the call finds that out.
//
// What is called twice is so with the same fire id. A message that comes again too often, because it ends each executor that has
// it, is reported as a failed attempt, so the timer's retry policy ends it as a dead letter.
package relay

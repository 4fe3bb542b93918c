// Package pool manages pools of keyed workers: a request for a key that nobody serves starts the group of workers of that key,
// and a group that nobody asks for is stopped, without a request being lost in between.
//
//	                 ┌────────────► Tracker: which groups should there be, and since which generation (pure)
//	orphans ─► Await ┤                 │ target
//	activity ─► Note ┘        ┌────────┴─────────┐
//	                    queue loop ─ phases ─► group loop
//	                 makes, binds, unbinds,    has the driver start and drain
//	                 deletes request queues    workers, for queues that are there
//
// A group is Active until nobody has asked for it for the unbind delay; Unbound, when its workers go on but new requests arrive
// as orphans, for the stop delay; then it is gone from the target. Any orphan or report of a worker in between makes it Active
// again. The end of a group goes in steps, none of which can lose a request:
//
//	unbind the queue ─► stop delay ─► nothing is ready in it? ─► drain the workers ─► all gone, nothing ready, nobody
//	consumes, for the settle time ─► delete the queue ─► the same name is not used again for the rest time
//
// Whatever is found in the queue on the way makes the group Active again.
//
// How requests travel is not known here. A transport hands in Queues, the request queues of the pool, and calls Await and Note
// of the Term that it gets for as long as it leads; pool/amqp is such a transport. What starts workers is a driver.Driver.
package pool

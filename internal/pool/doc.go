// Package pool manages pools of keyed workers: a request for a key without workers starts the group of
// workers of that key, and an idle group is stopped. No request is lost in between.
//
//	                 ┌────────────► Tracker: which groups should exist, and since which generation (pure)
//	orphans ─► Await ┤                 │ target
//	activity ─► Note ┘        ┌────────┴─────────┐
//	                    queue loop ─ phases ─► group loop
//	                 creates, binds, unbinds,  starts and drains workers
//	                 deletes request queues    of the existing queues
//
// A group is Active until it has been idle for the unbind delay. Then it is Unbound for the stop delay: its
// workers continue, but new requests arrive as orphans. After that it is removed from the target. Any orphan
// or report of a worker makes it Active again. A group ends in steps, none of which can lose a request:
//
//	unbind the queue ─► stop delay ─► is the queue empty? ─► drain the workers ─► no workers, no requests and no
//	consumers for the settle time ─► delete the queue ─► do not use its name for the rest time
//
// A request that is found in the queue during these steps makes the group Active again.
//
// This package does not know how requests travel. A transport implements Queues, the request queues of the
// pool, and calls Await and Note of its Term for as long as it leads; pool/amqp is such a transport. A
// driver.Driver starts the workers.
package pool

"""A worker of a pool in Python: it answers each request with its body in capitals, the key in front.

`rouse pool` starts one for each key that is asked for; all that it knows, it knows from its environment. docs/pools.md says what a
worker does. `work` is yours to replace; the rest may stay as it is.
"""

import logging
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pika
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionWrongStateError

KEY = os.environ.get("WORKER_KEY", "")
REPORTS = os.environ.get("WORKER_ACTIVITY_KEY", KEY)
QUEUE = os.environ["WORKER_REQUESTS_QUEUE"]
ACTIVITY = os.environ["WORKER_ACTIVITY_EXCHANGE"]
PREFETCH = int(os.environ["WORKER_PREFETCH"])

GIVE_UP = 60  # seconds without a connection after which rouse is to start another worker


def work(body: bytes) -> bytes:
    """Does what a request asks for, in a thread of its own. One that fails goes to another worker, a few times."""
    time.sleep(float(os.environ.get("WORK_SECONDS", "0")))
    return f"{KEY}: {body.decode().upper()}".encode()


class Worker:
    """One connection to RabbitMQ. All of it is used by the main thread alone, as pika demands; requests are worked on in others, so
    that a long one does not keep the connection from answering heartbeats."""

    def __init__(self, threads: ThreadPoolExecutor):
        self.threads = threads
        self.busy = 0
        parameters = pika.URLParameters(os.environ["WORKER_AMQP_URI"])
        parameters.client_properties = {"connection_name": os.environ["WORKER_ID"]}
        self.connection = pika.BlockingConnection(parameters)
        self.reports = self.connection.channel()
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()  # basic_publish returns when the broker has the message
        # No more requests at a time than are worked on at a time: those that wait here die with the one that crashes this worker.
        self.channel.basic_qos(prefetch_count=PREFETCH)
        self.report("started")
        self.channel.add_on_cancel_callback(self.on_cancel)
        self.tag = self.channel.basic_consume(QUEUE, self.on_request)

    def report(self, event: str) -> None:
        """Tells rouse that this worker is in use."""
        self.reports.basic_publish(ACTIVITY, REPORTS, b"", pika.BasicProperties(headers={"x-event": event}))

    def on_cancel(self, _frame) -> None:
        sys.exit("the queue is gone")

    def on_request(self, _channel, method, properties, body: bytes) -> None:
        self.report("request-received")
        self.busy += 1
        future = self.threads.submit(work, body)
        future.add_done_callback(lambda f: self.call(lambda: self.finish(method.delivery_tag, properties, f)))

    def call(self, callback) -> None:
        """Has the main thread call something."""
        try:
            self.connection.add_callback_threadsafe(callback)
        except ConnectionWrongStateError:
            logging.warning("an answer comes too late: the connection is gone, and somebody else has the request")

    def finish(self, tag: int, properties, future) -> None:
        """Answers a request. It is acknowledged when the broker has the answer; if this worker dies before, another one gets it."""
        self.busy -= 1
        if future.exception() is not None:
            logging.error("a request is given back", exc_info=future.exception())
            self.channel.basic_reject(tag, requeue=True)
            return
        if properties.reply_to:
            answer = pika.BasicProperties(correlation_id=properties.correlation_id, headers={"x-status": "ok"})
            self.channel.basic_publish("", properties.reply_to, future.result(), answer)
        self.channel.basic_ack(tag)

    def run(self, stopping) -> None:
        """Serves until it is to stop, and then finishes what it has begun."""
        while not stopping():
            self.connection.process_data_events(time_limit=0.2)
        self.channel.basic_cancel(self.tag)  # which gives back what was not begun
        while self.busy > 0:
            self.connection.process_data_events(time_limit=0.2)
        self.connection.close()


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    stop = False

    def on_term(_signal, _frame) -> None:
        nonlocal stop
        stop = True

    signal.signal(signal.SIGTERM, on_term)
    lost = time.monotonic()
    pause = 0.1
    with ThreadPoolExecutor(PREFETCH) as threads:
        while not stop:
            try:
                worker = Worker(threads)
                lost, pause = 0.0, 0.1
                worker.run(lambda: stop)
                return
            except ChannelClosedByBroker as error:
                if error.reply_code == 404:
                    sys.exit("the queue is gone: " + error.reply_text)
                raise
            except AMQPConnectionError as error:
                logging.warning("no connection to RabbitMQ: %s", error or type(error).__name__)
                lost = lost or time.monotonic()
                if time.monotonic() - lost > GIVE_UP:
                    sys.exit("RabbitMQ did not come back")
                time.sleep(pause)
                pause = min(2 * pause, 5)


if __name__ == "__main__":
    main()

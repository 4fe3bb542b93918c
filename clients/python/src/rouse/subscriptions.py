"""Handlers of the fires of a channel, which are taken by polls: `Client.subscribe` and `AsyncClient.subscribe` make subscriptions."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Mapping, Optional, Sequence

from .errors import ConflictError, FailedError, ForbiddenError, InvalidError, NotFoundError, RouseError, UnauthenticatedError
from .models import Fire

if TYPE_CHECKING:
    from .aio import AsyncClient
    from .client import Client

__all__ = ["AsyncHandler", "AsyncSubscription", "Handler", "Subscription"]

Handler = Callable[[Fire, threading.Event], object]
"""Does the work of a fire. The event is set if the work should end."""

AsyncHandler = Callable[[Fire], Awaitable[object]]
"""Does the work of a fire. It is cancelled if the work should end."""

_PAUSE = 1.0  # seconds after a failure that may pass
_REFUSALS = (InvalidError, UnauthenticatedError, ForbiddenError)  # which will be the same next time
_MOST = 256  # fires of one poll
_STOPS = "the subscription stops"

_log = logging.getLogger("rouse")


@dataclass(frozen=True)
class Options:
    """Which fires a handler gets, and how many at a time."""

    name_prefix: Optional[str] = None
    labels: Optional[Mapping[str, str]] = None
    concurrency: int = 16
    extend: timedelta = timedelta(seconds=30)
    drain: float = 10.0
    lost: Optional[Callable[[Exception], object]] = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency {self.concurrency}: use at least 1")


def _check_handler(handler: Callable[..., object], *takes: str) -> None:
    """Refuses a handler that cannot be called with what it gets: each fire would fail, or be complete though nothing was done."""
    wanted = f"use a function of {len(takes)} argument{'s' if len(takes) > 1 else ''}, ({', '.join(takes)})"
    if not callable(handler):
        raise TypeError(f"handler {handler!r} cannot be called: {wanted}")
    called = handler if inspect.isroutine(handler) else getattr(handler, "func", type(handler).__call__)
    if len(takes) > 1 and inspect.iscoroutinefunction(called):
        raise TypeError(f"handler {handler!r} is a coroutine function, and Client would not wait for it: {wanted}, or AsyncClient")
    try:
        signature = inspect.signature(handler, follow_wrapped=False)  # a decorator may supply arguments of what it wraps
    except ValueError:  # of a builtin, which has none to read
        return
    try:
        signature.bind(*takes)
    except TypeError as error:
        raise TypeError(f"handler {handler!r} has the arguments {signature}: {wanted}") from error


class AsyncSubscription:
    """Calls a handler with the fires of a channel. It polls every node that the client's `server` names, extends the deadline of a fire
    for as long as its handler runs, and reports what became of it. Use it in an `async with` statement, or call `stop`.
    """

    def __init__(self, client: AsyncClient, channel: str, handler: AsyncHandler, options: Options) -> None:
        _check_handler(handler, "fire")
        s = client._settings
        nodes = [client._like(replace(s, bases=(base,)), client._timeout, client._patience, client._http) for base in s.bases]
        self._client, self._channel, self._handler, self._options = client, channel, handler, options
        self._stopping = asyncio.Event()  # ends the polls
        self._drained = False  # the handlers have had their time
        self._works: set[asyncio.Task[None]] = set()
        self._serving = asyncio.get_running_loop().create_task(self._serve(nodes))
        self._serving.add_done_callback(self._refused)

    async def wait(self) -> None:
        """Waits until the subscription was stopped and its handlers have ended. It raises the error if the server refuses the polls for
        good, such as `ForbiddenError`.
        """
        await asyncio.shield(self._serving)

    async def stop(self) -> None:
        """Takes no more fires, waits until the handlers have ended and have been reported, and returns or raises as `wait` does."""
        self._stopping.set()
        late = asyncio.get_running_loop().call_later(self._options.drain, self._end_works)
        try:
            await self.wait()
        finally:
            if self._serving.done():
                late.cancel()

    async def __aenter__(self) -> AsyncSubscription:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.stop()

    def _refused(self, serving: asyncio.Task[None]) -> None:
        """Tells of a refusal at once: a program may not wait for the end before it ends itself."""
        if not serving.cancelled() and serving.exception() is not None:
            _log.error("the subscription of %r has ended: %s", self._channel, serving.exception())

    def _end_works(self) -> None:
        self._drained = True
        for work in self._works:
            work.cancel()

    def _lost(self, error: Exception) -> None:
        """Tells of an error because of which fires do not come now, or are not reported."""
        if self._options.lost is None:
            _log.warning("%s", error)
            return
        try:
            self._options.lost(error)
        except Exception:  # it must not end the subscription
            _log.exception("lost failed")

    async def _serve(self, nodes: Sequence[AsyncClient]) -> None:
        """Polls all nodes until one of them refuses it, or the subscription stops."""
        results = await asyncio.gather(*(self._poll(node) for node in nodes), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _poll(self, node: AsyncClient) -> None:
        """Polls a node while there is room for its fires, and waits for their handlers in the end."""
        o = self._options
        stop = asyncio.ensure_future(self._stopping.wait())
        running: set[asyncio.Task[None]] = set()
        try:
            while not self._stopping.is_set():
                room = o.concurrency - len(running)
                if room <= 0:
                    await asyncio.wait({stop, *running}, return_when=asyncio.FIRST_COMPLETED)
                    continue
                asking = asyncio.ensure_future(node.poll(self._channel, name_prefix=o.name_prefix, labels=o.labels, max=min(room, _MOST)))
                try:
                    await asyncio.wait({stop, asking}, return_when=asyncio.FIRST_COMPLETED)
                    if not asking.done():
                        return
                    fires = asking.result()
                except RouseError as error:
                    if isinstance(error, _REFUSALS):
                        raise
                    self._lost(error)
                    await asyncio.wait({stop}, timeout=_PAUSE)
                    continue
                finally:
                    await _ended(asking)
                if self._stopping.is_set():
                    await asyncio.gather(*(self._report(self._client.release(f.name, f.fire_id, f.token)) for f in fires))
                    return
                if fires:
                    # Deadlines are of the clock of the service, which may differ from that of this machine.
                    now = asyncio.ensure_future(self._now())
                    for fire in fires:
                        task = asyncio.ensure_future(self._handle(fire, now))
                        running.add(task)
                        task.add_done_callback(running.discard)
        except BaseException:
            self._stopping.set()
            raise
        finally:
            await _ended(stop)
            if running:
                await asyncio.wait(running)

    async def _now(self) -> datetime:
        try:
            return (await self._client.clock()).now
        except Exception:
            return datetime.now(timezone.utc)

    async def _report(self, report: Awaitable[None]) -> None:
        try:
            await report
        except Exception as error:
            self._lost(error)

    async def _handle(self, fire: Fire, now: asyncio.Future[datetime]) -> None:
        """Calls the handler with a fire, and reports what became of it."""

        async def work() -> None:
            await self._handler(fire)

        task = asyncio.ensure_future(work())
        self._works.add(task)
        if self._drained:
            task.cancel()
        extending = asyncio.ensure_future(self._extend(fire, now, task))
        try:
            await asyncio.wait({task})
        finally:
            self._works.discard(task)
            await _ended(task)  # not done only if this is cancelled, because the loop ends
            lost = extending.done()  # another attempt has the fire
            await _ended(extending)
        if lost:
            return
        error: Optional[BaseException] = asyncio.CancelledError(_STOPS if self._drained else "cancelled") if task.cancelled() else task.exception()
        if error is None:
            await self._report(self._client.complete(fire.name, fire.fire_id, fire.token))
        else:
            await self._report(self._client.fail(fire.name, fire.fire_id, fire.token, **_failure(error)))

    async def _extend(self, fire: Fire, now: asyncio.Future[datetime], work: asyncio.Task[None]) -> None:
        """Extends the deadline of a fire until it is cancelled, or returns after it has cancelled the work of one that is lost."""
        left = (fire.deadline - await asyncio.shield(now)).total_seconds()
        while True:
            await asyncio.sleep(max(left / 3, 0.0))
            try:
                await self._client.heartbeat(fire.name, fire.fire_id, fire.token, self._options.extend)
                left = _extended(left, self._options.extend)
            except (ConflictError, NotFoundError) as error:
                self._lost(error)
                work.cancel()
                return
            except Exception as error:
                self._lost(error)
                left = 3.0  # the heartbeat was retried already


def _extended(left: float, extend: timedelta) -> float:
    """Returns the time until a deadline that was extended when a third of its time was over; it is never moved to an earlier time."""
    return max(left * 2 / 3, extend.total_seconds())


async def _ended(future: asyncio.Future[Any]) -> None:
    """Cancels a future unless it is done, and waits until it is. Its result was read, or is not wanted."""
    future.cancel()
    await asyncio.wait({future})
    if not future.cancelled():
        future.exception()


def _failure(error: BaseException) -> dict[str, Any]:
    """Returns how an error that a handler has raised is reported."""
    # Half a character is none for the server.
    detail = (str(error) or type(error).__name__)[:1024].encode("utf-8", "replace").decode()
    if isinstance(error, FailedError):
        return {"detail": detail, "permanent": error.permanent, "retry_after": error.retry_after}
    return {"detail": detail}


class Subscription:
    """Calls a handler with the fires of a channel, in threads of its own. It polls every node that the client's `server` names, extends the
    deadline of a fire for as long as its handler runs, and reports what became of it. Use it in a `with` statement, or call `stop`.
    """

    def __init__(self, client: Client, channel: str, handler: Handler, options: Options) -> None:
        _check_handler(handler, "fire", "over")
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop = asyncio.new_event_loop()
        self._subscription: Optional[AsyncSubscription] = None
        started = threading.Event()
        # What polls is asynchronous, so that a stop ends the polls; the handlers are not.
        self._thread = threading.Thread(target=self._run, args=(client, channel, handler, options, started), name=f"rouse-{channel}", daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, client: Client, channel: str, handler: Handler, options: Options, started: threading.Event) -> None:
        error: Optional[BaseException] = None
        try:
            self._loop.run_until_complete(self._serve(client, channel, handler, options, started))
        except BaseException as failure:
            error = failure
        finally:
            started.set()
            self._loop.close()
            if error is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)

    async def _serve(self, client: Client, channel: str, handler: Handler, options: Options, started: threading.Event) -> None:
        threads = concurrent.futures.ThreadPoolExecutor(options.concurrency * len(client._settings.bases), thread_name_prefix=f"rouse-{channel}")

        async def handle(fire: Fire) -> None:
            over = threading.Event()
            work = asyncio.get_running_loop().run_in_executor(threads, _call, handler, fire, over)
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                over.set()
                await work  # a thread cannot be ended: what became of its work counts

        from .aio import AsyncClient

        async with AsyncClient._like(client._settings, client._timeout, client._patience) as twin:
            try:
                subscription = self._subscription = AsyncSubscription(twin, channel, handle, options)
                started.set()
                await subscription.wait()
            finally:
                threads.shutdown(wait=False)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the subscription was stopped and its handlers have ended. It raises the error if the server refuses the polls for
        good, such as `ForbiddenError`, and `TimeoutError` if that takes longer than `timeout` seconds.
        """
        try:
            self._ended.result(timeout)
        except concurrent.futures.TimeoutError as error:
            raise TimeoutError(f"the subscription has not ended in {timeout} s") from error

    def stop(self) -> None:
        """Takes no more fires, waits until the handlers have ended and have been reported, and returns or raises as `wait` does."""
        if self._subscription is not None:
            try:
                self._loop.call_soon_threadsafe(_stop, self._subscription)
            except RuntimeError:  # it has ended, and its loop with it
                pass
        self.wait()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.stop()


def _stop(subscription: AsyncSubscription) -> None:
    """Begins to stop a subscription. Its error is raised by wait."""
    task = asyncio.ensure_future(subscription.stop())
    task.add_done_callback(lambda task: task.cancelled() or task.exception())


def _call(handler: Handler, fire: Fire, over: threading.Event) -> None:
    """Calls a handler. What is no error, such as SystemExit, would end the loop that waits for it."""
    try:
        handler(fire, over)
    except Exception as error:
        if isinstance(error, StopIteration):  # a future cannot have it
            raise RuntimeError("the handler raised StopIteration") from error
        raise
    except BaseException as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error

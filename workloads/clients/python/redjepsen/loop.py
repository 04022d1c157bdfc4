"""Calls the library: directly, or in an event loop beside the client."""

from __future__ import annotations

import inspect
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    _Call = Tuple[Callable[..., Any], Tuple[object, ...], Future[Any]]


class Cancelled(Exception):
    """The library's call ended because it was cancelled."""


class TimeLimit(Exception):
    """Raised in the library's call, by a signal, as the time limits of task queues are (Celery's, RQ's)."""


class Loop:
    """An event loop in a separate thread, started when something first has to be awaited. It also runs between calls,
    because libraries renew their locks in it."""

    def __init__(self) -> None:
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self._starting = threading.Lock()

    def start(self) -> "asyncio.AbstractEventLoop":
        """Returns the loop, and starts it if necessary."""
        with self._starting:
            if self.loop is None:
                import asyncio  # imported only if needed: the import is slow

                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="event loop", daemon=True).start()
                self.loop = loop
            return self.loop

    def block(self, seconds: float, began: Callable[[], object], over: Callable[[], object]) -> None:
        """Blocks the loop for this many seconds, as a long computation in a coroutine would. Calls `began` when the
        block begins and `over` when it ends."""

        def block() -> None:
            began()
            time.sleep(seconds)
            over()

        self.start().call_soon_threadsafe(block)


class Caller:
    """Calls functions, and awaits their results if necessary.

    Once the loop runs, one task in it makes all calls, as in a pure asyncio program: libraries bind locks to their
    task. Each of several callers has a separate task.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._calls: "Optional[asyncio.Queue[_Call]]" = None
        self._task: "Optional[asyncio.Task[None]]" = None
        #: Whether the current call may be cancelled, and whether it was.
        self._cancellable = self._cancelled = False
        #: Whether the current call has begun. If it is cancelled before that, it is not made.
        self._runs = False
        #: The thread that makes the calls, if a signal ends them.
        self._thread: Optional[int] = None
        #: Called if the current call completed in spite of its cancellation.
        self._otherwise: Callable[[], object] = lambda: None

    def is_interrupted_here(self) -> None:
        """From now on, this thread makes the calls, and a signal ends them. It must be the program's first thread."""
        self._thread = threading.get_ident()
        signal.signal(signal.SIGUSR1, self._interrupt)

    def run(
        self, function: Callable[..., Any], *arguments: object, cancelled: Optional[Callable[[], bool]] = None
    ) -> Any:
        """Calls a function. A call with `cancelled` may be cancelled; `cancelled` returns whether it already is.

        Raises:
            Cancelled: the call was cancelled, and ended because of that.
        """
        if self._loop.loop is not None:
            return self._call(function, arguments, cancelled)
        value = function(*arguments) if cancelled is None else self._interruptibly(function, arguments, cancelled)
        if not inspect.isawaitable(value):
            return value
        self._loop.start()
        return self._call(lambda: value, (), cancelled)

    def _interruptibly(self, function: Callable[..., Any], arguments: Tuple[object, ...], cancelled: Callable[[], bool]) -> Any:
        values, is_late = [], True
        try:
            self._cancelled = cancelled()
            self._cancellable = self._thread is not None
            if self._cancelled and self._cancellable:
                raise TimeLimit()
            values.append(function(*arguments))
            # A library may ignore the signal and continue.
            is_late, self._cancellable = self._cancellable, False
        except TimeLimit:
            self._cancellable = False
            # A result that was returned just before the signal counts.
            if not values:
                raise Cancelled() from None
        except BaseException:
            self._cancellable = False
            raise
        if self._cancelled and is_late:
            self._otherwise()
        return values[0]

    def _interrupt(self, *_: object) -> None:
        if self._cancellable:
            self._cancellable = False
            raise TimeLimit("whoever asked has no use for it any more")

    def cancel(self, otherwise: Callable[[], object]) -> None:
        """Cancels the current call, if it may be cancelled; otherwise calls `otherwise`."""

        def cancel() -> None:
            if self._task is not None and self._cancellable and not self._cancelled:
                self._cancelled = True
                if self._runs:
                    self._task.cancel()
            else:
                otherwise()

        if self._loop.loop is None:
            if self._thread is None or not self._cancellable:
                return otherwise()
            self._otherwise, self._cancelled = otherwise, True
            signal.pthread_kill(self._thread, signal.SIGUSR1)
        else:
            self._loop.loop.call_soon_threadsafe(cancel)

    def _call(self, function: Callable[..., Any], arguments: Tuple[object, ...], cancelled: Optional[Callable[[], bool]]) -> Any:
        from concurrent.futures import Future

        loop = self._loop.start()
        if self._calls is None:
            started: "Future[Tuple[asyncio.Queue[_Call], asyncio.Task[None]]]" = Future()
            loop.call_soon_threadsafe(lambda: loop.create_task(self._serve(started)))
            self._calls, self._task = started.result()
        done: "Future[Any]" = Future()
        calls, call = self._calls, (function, arguments, done)

        def begin() -> None:
            # A cancellation before this point is seen here; a later one finds the call.
            self._cancellable, self._cancelled = cancelled is not None, cancelled is not None and cancelled()
            calls.put_nowait(call)

        loop.call_soon_threadsafe(begin)
        return done.result()

    async def _serve(self, started: "Future[Tuple[asyncio.Queue[_Call], asyncio.Task[None]]]") -> None:
        import asyncio

        calls: "asyncio.Queue[_Call]" = asyncio.Queue()
        task = asyncio.current_task()
        assert task is not None
        started.set_result((calls, task))
        while True:
            try:
                function, arguments, done = await calls.get()
            except asyncio.CancelledError:
                # The cancellation came between two calls, after the first had ended.
                _uncancel(task)
                continue
            if self._cancelled and self._cancellable:
                self._cancellable = False
                done.set_exception(Cancelled())
                continue
            self._runs = True
            try:
                value = function(*arguments)
                value = await value if inspect.isawaitable(value) else value
                self._cancellable = self._runs = False
                done.set_result(value)
            except asyncio.CancelledError:
                ours, self._cancellable, self._runs = self._cancelled, False, False
                _uncancel(task)
                done.set_exception(Cancelled() if ours else RuntimeError("the library cancelled its caller"))
            except BaseException as error:  # noqa: BLE001 - whatever a library raises
                self._cancellable = self._runs = False
                done.set_exception(error)


def _uncancel(task: "asyncio.Task[None]") -> None:
    """Lets the task continue: in Pythons that count cancellations, this one no longer counts."""
    uncancel = getattr(task, "uncancel", None)
    while uncancel is not None and task.cancelling():  # type: ignore[attr-defined, unused-ignore]
        uncancel()

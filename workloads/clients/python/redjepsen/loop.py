"""An event loop beside the client."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    _Call = Tuple[Callable[..., Any], Tuple[object, ...], Future[Any]]


class Loop:
    """Calls functions, and awaits what they return if it has to be awaited.

    From the first time that something has to be, all is called by one task in a thread of its own, as in a program that
    is all asyncio: libraries bind locks to their task. The loop goes on between calls: libraries renew their locks there.
    """

    def __init__(self) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._calls: "Optional[asyncio.Queue[_Call]]" = None

    def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        if self._loop is not None:
            return self._call(function, arguments)
        value = function(*arguments)
        if not inspect.isawaitable(value):
            return value
        import asyncio  # only where it is needed: it takes a while
        from concurrent.futures import Future

        self._loop = asyncio.new_event_loop()
        started: "Future[asyncio.Queue[_Call]]" = Future()
        serving = self._serve(started)
        threading.Thread(target=self._loop.run_until_complete, args=[serving], name="event loop", daemon=True).start()
        self._calls = started.result()
        return self._call(lambda: value, ())

    def _call(self, function: Callable[..., Any], arguments: Tuple[object, ...]) -> Any:
        from concurrent.futures import Future

        assert self._loop is not None and self._calls is not None
        done: "Future[Any]" = Future()
        self._loop.call_soon_threadsafe(self._calls.put_nowait, (function, arguments, done))
        return done.result()

    @staticmethod
    async def _serve(started: "Future[asyncio.Queue[_Call]]") -> None:
        import asyncio

        calls: "asyncio.Queue[_Call]" = asyncio.Queue()
        started.set_result(calls)
        while True:
            function, arguments, done = await calls.get()
            try:
                value = function(*arguments)
                done.set_result(await value if inspect.isawaitable(value) else value)
            except asyncio.CancelledError:
                done.set_exception(RuntimeError("the library cancelled its caller"))
            except BaseException as error:  # noqa: BLE001 - whatever a library raises
                done.set_exception(error)

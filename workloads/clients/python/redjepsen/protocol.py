"""The client protocol, versions 1 and 2 (docs/client-protocol.md): one JSON message per line.

In version 1 there is one operation at a time, and the thread that waits for `go` reads. In version 2 there may be
several, each in a separate thread; one thread reads, and passes each message to its operation.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set, TextIO, Tuple

PROTOCOLS = (1, 2)


class Closed(Exception):
    """The controller sent `bye`, or is gone."""


class Misunderstood(Exception):
    """The controller sent a message that the protocol does not have."""


class Control:
    """The connection to the controller. Any thread may write; only one reads."""

    def __init__(self, source: TextIO, sink: TextIO) -> None:
        self._source, self._sink, self._writing = source, sink, threading.RLock()
        # A thread that waits for a line may have other work to do meanwhile.
        self._lines: "queue.SimpleQueue[str]" = queue.SimpleQueue()
        threading.Thread(target=self._read, name="controller", daemon=True).start()

    def _read(self) -> None:
        for line in iter(self._source.readline, ""):
            self._lines.put(line)
        self._lines.put("")

    def say(self, **message: Any) -> None:
        """Writes at once: a phase that is reported late moves the moment at which the nemesis acts."""
        try:
            with self._writing:
                self._sink.write(json.dumps(message) + "\n")
                self._sink.flush()
        except (BrokenPipeError, ValueError) as error:
            raise Closed(str(error)) from error

    def say_now(self, **message: Any) -> None:
        """As `say`, with the time of writing. During a silence, it waits and takes the time afterwards."""
        with self._writing:
            self.say(**{"mono_ns": time.monotonic_ns(), **message})

    def be_silent(self) -> None:
        """Lets all other threads wait with their messages until this thread calls `speak`."""
        self._writing.acquire()

    def speak(self) -> None:
        self._writing.release()

    def next(self) -> Dict[str, Any]:
        """Returns the next message.

        Raises:
            Closed: there are no more messages.
            Misunderstood: the line is not a message.
        """
        return self._understood(self._lines.get())

    def _understood(self, line: str) -> Dict[str, Any]:
        if not line:
            raise Closed("the controller is gone")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise Misunderstood(f"not JSON ({error}): {line[:200]!r}") from error
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise Misunderstood(f"a message without a type: {line[:200]!r}")
        if message["type"] == "bye":
            raise Closed("bye")
        return message

    def wait_for_go(self, identity: int, phase: str, meanwhile: "Callable[[], Optional[float]]") -> None:
        """Waits for this `go`. Calls `meanwhile` for due work, which returns the seconds until more work is due."""
        while True:
            try:
                line = self._lines.get(timeout=meanwhile())
            except queue.Empty:
                continue
            message = self._understood(line)
            if message["type"] != "go":
                raise Misunderstood(f"{message['type']} while operation {identity} waits at {phase}")
            if (message.get("id"), message.get("phase")) == (identity, phase):
                return


class Operation:
    """A requested operation, with its reports to the controller. Times are in seconds."""

    def __init__(self, invoke: Dict[str, Any], control: Control, several: bool = False) -> None:
        """
        Args:
            several: whether there may be several operations, so that another thread reads the messages for this one.

        Raises:
            Misunderstood: a field is missing.
        """
        try:
            self.id: int = invoke["id"]
            self.f: str = invoke["f"]
            #: The key of the resource.
            self.resource_key: str = invoke["key"]
            self.value: Optional[str] = invoke.get("value")
            #: How long to think between read and write.
            self.hold = invoke.get("hold_ms", 0) / 1000
            #: How long to try to acquire the lock.
            self.within = invoke.get("acquire_timeout_ms", 0) / 1000
            #: How often a holder asks its library whether it holds the lock.
            self.check_every: Optional[float] = (
                invoke["check_every_ms"] / 1000 if invoke.get("check_every_ms") else None
            )
            #: The delay between the release and a second release; None for no second release.
            self.release_again: Optional[float] = (
                invoke["release_again_ms"] / 1000 if invoke.get("release_again_ms") else None
            )
            self._breakpoints: List[str] = invoke.get("breakpoints", [])
        except (KeyError, TypeError) as error:
            raise Misunderstood(f"an invoke without {error}") from error
        #: The name of the lock.
        self.key = "lock:" + self.resource_key
        #: Does due work during the wait at a breakpoint; returns the seconds until more work is due.
        self.meanwhile: "Callable[[], Optional[float]]" = lambda: None
        self._control = control
        self._state = threading.Lock()
        self._held = self._over = self._answered = False
        self._early: List[Tuple[str, Dict[str, Any]]] = []
        self._lost: Optional[str] = None
        self._told = threading.Condition() if several else None
        self._opened: Set[str] = set()
        self._is_cancelled = False
        self._on_cancel: Optional[Callable[[], object]] = None

    @property
    def shared(self) -> bool:
        """True if the lock is acquired for reading, together with other readers."""
        return self.f == "shared"

    @property
    def is_lost(self) -> Optional[str]:
        """Why the lock is lost; None if no loss was reported."""
        return self._lost

    @property
    def is_cancelled(self) -> bool:
        """True if the caller does not need the lock any more."""
        return self._is_cancelled

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        """Calls `cancel`, from another thread, when the operation is cancelled; at once if it already is. This is for
        a library without coroutines that can end a call early. It needs `cancels=True` of `redjepsen.serve`."""
        with self._state:
            self._on_cancel = cancel
            is_late = self._is_cancelled
        if is_late:
            cancel()

    def cancel(self) -> None:
        """Cancels the operation: ends its waits, and calls the function given to `on_cancel`."""
        with self._state:
            self._is_cancelled, call = True, self._on_cancel
        if self._told is not None:
            with self._told:
                self._told.notify_all()
        if call is not None:
            call()

    def open(self, phase: str) -> None:
        """Lets the operation continue from this phase."""
        if self._told is not None:
            with self._told:
                self._opened.add(phase)
                self._told.notify_all()

    @property
    def is_answered(self) -> bool:
        return self._answered

    def wait_until(self, deadline: float) -> bool:
        """Waits until this time of the monotonic clock, or until the operation is cancelled; false if it is."""
        while not self._is_cancelled and (left := deadline - time.monotonic()) > 0:
            if self._told is None:
                time.sleep(left)
            else:
                with self._told:
                    if not self._is_cancelled:
                        self._told.wait(left)
        return not self._is_cancelled

    def extended(self, validity_ms: Optional[float] = None) -> None:
        """Reports, from any thread, that the lock was renewed, with its validity in milliseconds if the library gives
        it."""
        self._tell("extended", {} if validity_ms is None else {"validity_ms": milliseconds(validity_ms)})

    def owned(self, asked_ns: int) -> None:
        """Reports that the library said that the client holds the lock; `asked_ns` is the monotonic time of the
        question."""
        self._tell("owned", {"mono_ns": asked_ns})

    def lost(self, reason: str) -> None:
        """Reports, from any thread, that the library knows that the lock is lost. Only the first reason counts."""
        with self._state:
            if self._lost is not None or self._over:
                return
            self._lost = reason
        self._tell("lost", {"text": reason})

    def phase(self, name: str, **facts: Any) -> None:
        """Reports a phase, stamped now. At a breakpoint it waits, and then reports the phase again: only then does
        the operation continue."""
        self._report(name, facts)
        if name in self._breakpoints and self._may_go_on(name):
            self._report(name, facts)

    def _may_go_on(self, name: str) -> bool:
        """Waits at a breakpoint until it opens; false if the operation is cancelled before that."""
        if self._told is None:
            self._control.wait_for_go(self.id, name, self.meanwhile)
            return True
        while True:
            due = self.meanwhile()
            with self._told:
                if self._told.wait_for(lambda: name in self._opened or self._is_cancelled, due):
                    return name in self._opened

    def answer(self, kind: str, **facts: Any) -> None:
        """Ends the operation: `ok`, `fail` or `info`. Later reports about its lock are dropped."""
        with self._state:
            self._over, self._held, self._answered = True, False, True
            self._control.say(type=kind, id=self.id, **facts)

    def _report(self, name: str, facts: Dict[str, Any]) -> None:
        with self._state:
            self._say(name, facts)
            if name == "acquired":
                self._held = True
                # The library's own thread may have reported before this.
                for early in self._early:
                    self._say(*early)
                self._early.clear()
            elif name == "released":
                self._over, self._held = True, False

    def _tell(self, name: str, facts: Dict[str, Any]) -> None:
        with self._state:
            if self._held:
                self._say(name, facts)
            elif not self._over:
                self._early.append((name, facts))

    def _say(self, name: str, facts: Dict[str, Any]) -> None:
        self._control.say_now(type="phase", id=self.id, phase=name, **facts)


def milliseconds(value: float) -> int:
    """Returns milliseconds as the protocol has them: whole numbers, rounded down to be no more than the library
    said."""
    return max(0, int(value))

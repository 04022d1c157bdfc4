"""The client protocol, version 1 (docs/client-protocol.md): one JSON message per line."""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import Any, Callable, Dict, List, Optional, TextIO, Tuple

PROTOCOL = 1


class Closed(Exception):
    """The controller said `bye`, or is gone."""


class Misunderstood(Exception):
    """The controller sent what the protocol does not have."""


class Control:
    """The link to the controller. Any thread may write; only one reads."""

    def __init__(self, source: TextIO, sink: TextIO) -> None:
        self._source, self._sink, self._writing = source, sink, threading.Lock()
        # Whoever waits for a line may have something to do meanwhile.
        self._lines: "queue.SimpleQueue[str]" = queue.SimpleQueue()
        threading.Thread(target=self._read, name="controller", daemon=True).start()

    def _read(self) -> None:
        for line in iter(self._source.readline, ""):
            self._lines.put(line)
        self._lines.put("")

    def say(self, **message: Any) -> None:
        """Writes at once: a phase that is reported late moves the moment at which the nemesis acts."""
        line = json.dumps(message) + "\n"
        try:
            with self._writing:
                self._sink.write(line)
                self._sink.flush()
        except (BrokenPipeError, ValueError) as error:
            raise Closed(str(error)) from error

    def next(self) -> Dict[str, Any]:
        """The next message.

        Raises:
            Closed: there will be none.
            Misunderstood: it is not a message.
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
        """Waits for it, and does what is due `meanwhile`, which returns in how many seconds there is more to do."""
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
    """One operation: what is asked for, and how the controller hears of it. Times are in seconds."""

    def __init__(self, invoke: Dict[str, Any], control: Control) -> None:
        """
        Raises:
            Misunderstood: something is missing.
        """
        try:
            self.id: int = invoke["id"]
            self.f: str = invoke["f"]
            #: The key of the resource.
            self.resource_key: str = invoke["key"]
            self.value: Optional[str] = invoke.get("value")
            #: How long to think between read and write.
            self.hold = invoke.get("hold_ms", 0) / 1000
            #: How long to try to get the lock.
            self.within = invoke.get("acquire_timeout_ms", 0) / 1000
            #: How often a holder is to ask its library whether it has the lock.
            self.check_every: Optional[float] = (
                invoke["check_every_ms"] / 1000 if invoke.get("check_every_ms") else None
            )
            self._breakpoints: List[str] = invoke.get("breakpoints", [])
        except (KeyError, TypeError) as error:
            raise Misunderstood(f"an invoke without {error}") from error
        #: The name of the lock.
        self.key = "lock:" + self.resource_key
        #: What is done while it waits at a breakpoint; returns in how many seconds there is more to do.
        self.meanwhile: "Callable[[], Optional[float]]" = lambda: None
        self._control = control
        self._state = threading.Lock()
        self._held = self._over = False
        self._early: List[Tuple[str, Dict[str, Any]]] = []
        self._lost: Optional[str] = None

    @property
    def is_lost(self) -> Optional[str]:
        """Why the lock is gone, once somebody said so."""
        return self._lost

    def extended(self, validity_ms: Optional[float] = None) -> None:
        """Tells, from any thread, that the lock was renewed, and for how many milliseconds if the library says so."""
        self._tell("extended", {} if validity_ms is None else {"validity_ms": milliseconds(validity_ms)})

    def owned(self, asked_ns: int) -> None:
        """Tells that the library, which was asked at this time of the monotonic clock, says that the client has the lock."""
        self._tell("owned", {"mono_ns": asked_ns})

    def lost(self, reason: str) -> None:
        """Tells, from any thread, that the library knows that the lock is gone. Only the first reason counts."""
        with self._state:
            if self._lost is not None or self._over:
                return
            self._lost = reason
        self._tell("lost", {"text": reason})

    def phase(self, name: str, **facts: Any) -> None:
        """Reports a phase, stamped now. At a breakpoint it waits, and reports it again: only then does what comes next
        happen."""
        self._report(name, facts)
        if name in self._breakpoints:
            self._control.wait_for_go(self.id, name, self.meanwhile)
            self._report(name, facts)

    def answer(self, kind: str, **facts: Any) -> None:
        """Ends the operation: `ok`, `fail` or `info`. What is told of its lock afterwards is not passed on."""
        with self._state:
            self._over, self._held = True, False
            self._control.say(type=kind, id=self.id, **facts)

    def _report(self, name: str, facts: Dict[str, Any]) -> None:
        with self._state:
            self._say(name, facts)
            if name == "acquired":
                self._held = True
                # The library's own thread may have been faster.
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
        self._control.say(**{"type": "phase", "id": self.id, "phase": name, "mono_ns": time.monotonic_ns(), **facts})


def milliseconds(value: float) -> int:
    """As the protocol has them: whole, and never more than the library said."""
    return max(0, int(value))

"""A client for one lock: everything that docs/client-protocol.md asks of a client, except the lock itself."""

from __future__ import annotations

import inspect
import os
import queue
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

from .lock import GROUPS, Acquire, Connect, Held, Sentinels, Settings, Unsuitable, address
from .loop import Caller, Cancelled, Loop
from .protocol import PROTOCOLS, Closed, Control, Misunderstood, Operation, milliseconds
from .resource import FENCINGS, KINDS, Conflict, Fenced, Refused, Resource, Server

#: For how many seconds a new client tries to reach its servers: it may start in the middle of a fault.
START_LIMIT = 20.0
#: For how many seconds a holder waits until its write cannot arrive any more. Longer than a fault lasts.
DOUBT_LIMIT = 60.0
#: With this option a lock is extended after a share of its TTL, and held for a TTL longer than asked.
EXTEND = "extend"
EXTEND_AFTER = 0.6

#: How an operation ends: `ok`, `fail` or `info`, and the further facts of this message.
Answer = Tuple[str, Dict[str, Any]]


#: True once this process is a client. A script with the name of a package is imported in the package's place.
_serves = False


def serve(
    connect: Connect,
    *,
    name: str,
    package: Optional[str] = None,
    flags: Sequence[str] = (),
    cancels: bool = False,
    shared: bool = False,
    once: bool = False,
    groups: Sequence[str] = (),
) -> NoReturn:
    """Runs the client on standard input and output until the controller says `bye`; then ends the process.

    Args:
        connect: connects to the nodes, and returns the function that acquires the lock.
        name: the library's name in reports, without its version.
        package: the distribution whose version is reported, if the library is one.
        flags: the adapter's possible command line options, without dashes; `settings.flags` has the given ones.
            With `extend`, which needs `Held.extend`, a lock is held for longer than its TTL and extended meanwhile.
        cancels: whether a library without coroutines can end its calls early, through `Operation.on_cancel`.
        shared: whether it can also acquire the lock for reading, if the operation says so (`operation.shared`).
        once: whether `Held.release` can be called only once, as a `with` block can be left only once.
        groups: the supported groups of nodes (`settings.group`): `sentinel`, `cluster`. Other runs stop.

    If the run wants threads, `connect` is called once, and several threads call its result at once; if the result is
    a coroutine function, several tasks of one event loop call it.
    """
    global _serves
    if _serves:
        own = os.path.basename(sys.argv[0])
        raise RuntimeError(f"{own} was imported while it starts: call it otherwise than the package that it imports")
    _serves = True
    # The library's output is not a message.
    sink = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    control = Control(sys.stdin, sink)
    _ends(lambda: _serve(control, connect, name, package, flags, sys.argv[1:], cancels, shared, once, groups))


def _ends(work: Callable[[], int]) -> NoReturn:
    """Does the work, in any thread, and ends the process."""
    try:
        code = work()
    except Closed:
        code = 0
    except Misunderstood as error:
        print(f"the controller was not understood: {error}", file=sys.stderr)
        code = 1
    sys.stderr.flush()
    # A library's threads may wait for a dead node for any length of time.
    os._exit(code)


def _serve(
    control: Control,
    connect: Connect,
    name: str,
    package: Optional[str],
    flags: Sequence[str],
    arguments: List[str],
    cancels: bool,
    shared: bool,
    once: bool,
    groups: Sequence[str],
) -> int:
    hello = control.next()
    try:
        version = f" {_version(package)}" if package else ""
        given = _flags(flags, arguments)
        library = Library(hello, connect, given, groups)
        more = (Caller(library.loop) for _ in range(1, hello.get("threads", 1)))
        clients = [Client(library, caller) for caller in (library.caller, *more)]
    except Unsuitable as error:
        return _fail(control, str(error))
    except ImportError as error:
        return _fail(control, f"a package is missing: {error}")
    except (Closed, Misunderstood):
        raise
    except Exception as error:  # noqa: BLE001 - the run must end with what happened
        traceback.print_exc()
        return _fail(control, f"cannot connect: {described(error)}")
    variant = f" ({', '.join(sorted(given))})" if given else ""
    protocol = hello["protocol"]
    can = [] if protocol == 1 else library.capabilities(cancels, once) + (["shared"] if shared else [])
    control.say(type="ready", protocol=protocol, name=name + version + variant, capabilities=can)
    if protocol != 1:
        _several(control, library, clients, library.is_interrupted(cancels))
    while True:
        message = control.next()
        if message["type"] == "invoke":
            operation = Operation(message, control)
            kind, facts = clients[0].perform(operation)
            operation.answer(kind, **facts)
        # A late `go` is for an operation that is over.
        elif message["type"] != "go":
            raise Misunderstood(f"{message['type']} while no operation is in progress")


def _several(control: Control, library: "Library", clients: "List[Client]", interrupted: bool) -> NoReturn:
    """Passes each operation to its thread. Ends when the controller says `bye`."""
    threads = [Worker(client) for client in clients]
    if interrupted:
        # Only the program's first thread receives signals.
        clients[0].run.is_interrupted_here()
        threading.Thread(target=_ends, args=(lambda: _hear(control, library, clients, threads),), daemon=True).start()
        threads[0].work()
        threading.Event().wait()  # the thread that reads messages ends the process
    for thread in threads:
        threading.Thread(target=thread.work, name="client", daemon=True).start()
    _hear(control, library, clients, threads)


def _hear(control: Control, library: "Library", clients: "List[Client]", threads: "List[Worker]") -> NoReturn:
    operations: Dict[int, Tuple[Operation, Client]] = {}
    while True:
        message = control.next()
        kind = message["type"]
        if kind == "invoke":
            number = message.get("thread", 0)
            if not 0 <= number < len(threads):
                raise Misunderstood(f"there is no thread {number}")
            operation = Operation(message, control, several=True)
            operations = {known: one for known, one in operations.items() if not one[0].is_answered}
            operations[operation.id] = (operation, clients[number])
            threads[number].begin(operation)
        elif kind == "block":
            library.block(control, message["ms"] / 1000)
        elif kind in ("go", "cancel"):
            # A late message is for an operation that is over.
            known = operations.get(message.get("id", -1))
            if known is not None and kind == "go":
                known[0].open(message["phase"])
            elif known is not None:
                known[1].run.cancel(otherwise=known[0].cancel)
        else:
            raise Misunderstood(f"{kind} is not understood")


class Worker:
    """Performs one operation after another, in a separate thread."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._operations: "queue.Queue[Operation]" = queue.Queue()

    def begin(self, operation: Operation) -> None:
        self._operations.put(operation)

    def work(self) -> None:
        try:
            while True:
                operation = self._operations.get()
                kind, facts = self._client.perform(operation)
                operation.answer(kind, **facts)
        except Closed:
            return
        except BaseException:  # noqa: BLE001 - a client that has lost a thread is none
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def _fail(control: Control, text: str) -> int:
    control.say(type="failed", text=text)
    return 0


def _version(package: str) -> str:
    """
    Raises:
        ImportError: the package is not installed.
    """
    from importlib import metadata  # imports parts of Python that a small image may lack

    return metadata.version(package)


def _flags(known: Sequence[str], arguments: List[str]) -> "frozenset[str]":
    possible = ["--" + flag for flag in known]
    for argument in arguments:
        if argument not in possible:
            raise Unsuitable(
                f"unknown option {argument} of the adapter; it has {', '.join(possible) or 'none'}"
                " (`flags` of `redjepsen.serve` names them)"
            )
    return frozenset(argument[2:] for argument in arguments)


class Library:
    """The library under test, as all threads of the process share it."""

    def __init__(
        self, hello: Dict[str, Any], connect: Connect, flags: "frozenset[str]", groups: Sequence[str]
    ) -> None:
        """
        Raises:
            Unsuitable: this client, or the library, cannot do what the workload asks for.
        """
        self.settings, self._resource = _understood(hello, flags, groups)
        self.loop = Loop()
        self._threads = hello.get("threads", 1)
        #: The first client's caller: objects that a library creates in `connect` may be bound to its task.
        self.caller = Caller(self.loop)
        self.acquire: Acquire = _reached(lambda: self.caller.run(connect, self.settings))

    def resource(self) -> Optional[Resource]:
        """Returns the resource that the lock protects, with a separate connection; None if there is no resource."""
        resource = self._resource() if self._resource is not None else None
        if resource is not None:
            _reached(resource.server.connect)
        return resource

    def capabilities(self, cancels: bool, once: bool) -> List[str]:
        """Returns the client's capabilities, as the protocol names them."""
        again = [] if once else ["release-again"]
        if self._runs_in_loop():
            return ["threads", "cancel", "block", *again]
        return ["threads", "cancel", *again] if cancels or self.is_interrupted(cancels) else ["threads", *again]

    def is_interrupted(self, cancels: bool) -> bool:
        """True if a signal ends its calls: they are plain functions, one at a time, and nothing else can end them."""
        return not cancels and not self._runs_in_loop() and self._threads == 1

    def _runs_in_loop(self) -> bool:
        return self.loop.loop is not None or inspect.iscoroutinefunction(self.acquire)

    def block(self, control: Control, seconds: float) -> None:
        """Blocks the event loop. The package's other threads do work that a pure asyncio program does in its loop, so
        they report nothing either."""

        def began() -> None:
            control.be_silent()
            control.say_now(type="blocked")

        def over() -> None:
            control.say_now(type="unblocked")
            control.speak()

        self.loop.block(seconds, began, over)


class Client:
    """A lock and the resource that it protects, for one operation at a time."""

    def __init__(self, library: Library, caller: Caller) -> None:
        self.settings, self._acquire = library.settings, library.acquire
        self.resource = library.resource()
        self.run = caller

    def perform(self, operation: Operation) -> Answer:
        """Performs one operation, from its first phase to its answer."""
        if operation.f == "hold" or (operation.f in ("rmw", "shared") and self.resource is not None):
            if operation.f == "rmw" and operation.value is None:
                return failed("unsupported", "there is no value to write")
            return self._locked(operation)
        if operation.f == "read" and self.resource is not None:
            return _read(self.resource, operation)
        return failed("unsupported", operation.f)

    def _locked(self, operation: Operation) -> Answer:
        operation.phase("acquiring")
        try:
            held = self.run.run(self._acquire, operation, cancelled=lambda: operation.is_cancelled)
            if held is not None and not isinstance(held, (Held, bool)) or held is True:
                raise TypeError(f"acquire returned {held!r} instead of Held or None")
            if held and held.extend is None and EXTEND in self.settings.flags:
                raise TypeError(f"--{EXTEND} needs Held.extend")
        except (Closed, Misunderstood):
            raise
        except Cancelled:
            return failed(CANCELLED, "while it waited for the lock")
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            return failed(CANCELLED, described(error)) if operation.is_cancelled else _not_acquired(error)
        if not held:
            return failed(CANCELLED if operation.is_cancelled else "not-acquired", "")
        facts: Dict[str, Any] = {}
        if held.validity_ms is not None:
            facts["validity_ms"] = milliseconds(held.validity_ms)
        if held.token is not None:
            facts["token"] = held.token
        holder = Holder(self, operation, held)
        operation.phase("acquired", **facts)
        answer, settled = self._work(operation, holder)
        if settled and not holder.release() and answer[0] == "ok":
            return "info", {"error": CANCELLED, "text": "while it gave the lock back"}
        if holder.said_again is not None and answer[0] == "ok":
            return "ok", {**answer[1], "text": holder.said_again}
        return answer

    def _work(self, operation: Operation, holder: "Holder") -> Tuple[Answer, bool]:
        """Does the work under the lock. Returns the answer, and whether the lock may be released afterwards."""
        if operation.is_cancelled:
            return _cancelled(), True
        if operation.f == "hold" or self.resource is None:
            holder.think()
            return _cancelled() if operation.is_cancelled else ("ok", {}), True
        resource, token, new = self.resource, holder.held.token, operation.value or ""
        key = operation.resource_key
        try:
            text = resource.read(key, token)
            old, facts = _identity(resource, text)
            updated = None if operation.shared else resource.updated(text, new)
        except (OSError, Refused, Fenced, ValueError) as error:
            return _unread(resource, error), True
        operation.phase("read", value=old, **facts)
        lost = holder.think() or (None if operation.is_cancelled else holder.look())
        if lost is not None:
            return failed("lock-lost", lost), True
        if operation.is_cancelled:
            return _cancelled(), True
        if updated is None:
            return ("ok", {"old": old, **facts}), True
        operation.phase("before-write")
        if operation.is_cancelled:
            return _cancelled(), True
        try:
            resource.server.connect()
        except (OSError, Refused) as error:
            return failed("unavailable", described(error)), True
        try:
            resource.write(key, text, updated, token)
        except Conflict:
            return failed("conflict", "the value that was read is no longer current"), True
        except Fenced:
            return failed("fenced", FENCED), True
        except Refused as error:
            return failed("unavailable", described(error)), True
        except OSError as error:
            # It is unknown whether the write took effect, or will. The lock is kept until the write cannot arrive any
            # more; if that stays unknown, the lock is left to its TTL.
            word = "timeout" if isinstance(error, TimeoutError) else "connection-lost"
            settled = resource.server.cut_off(DOUBT_LIMIT, meanwhile=holder.keep)
            return ("info", {"error": word, "text": described(error)}), settled
        operation.phase("written")
        return ("ok", {"old": old, "new": new, **facts}), True


class Holder:
    """A held lock."""

    def __init__(self, client: Client, operation: Operation, held: Held) -> None:
        self._run, self._operation, self.held = client.run.run, operation, held
        settings = client.settings
        #: How many seconds the lock is held beyond the operation's hold time, and the interval between extensions.
        self._extra = 0.0
        self._every: Optional[float] = None
        renewed = settings.options.get("renew_every_ms")
        if EXTEND in settings.flags:
            self._extra, self._every = settings.ttl, settings.ttl * EXTEND_AFTER
        elif renewed is not None and held.extend is not None:
            self._every = renewed / 1000
        self._due = time.monotonic() + (self._every or 0)
        #: The interval at which the library is asked whether the client holds the lock; None for never.
        self._ask_every = None if held.owned is None else operation.check_every
        #: The library's error of the second release, if it refused.
        self.said_again: Optional[str] = None
        self._ask_due = time.monotonic() + (self._ask_every or 0)
        operation.meanwhile = self.ask_if_due

    def think(self) -> Optional[str]:
        """Waits for the operation's hold time. Returns why the lock was lost meanwhile; None if no loss was
        reported."""
        self._wait(self._operation.hold + self._extra, self._operation.wait_until)
        return self._operation.is_lost

    def keep(self, seconds: float) -> None:
        """Waits, and extends the lock whenever that is due. A cancelled operation does not end this wait."""
        self._wait(seconds, _sleep_until)

    def _wait(self, seconds: float, wait_until: Callable[[float], bool]) -> None:
        until = time.monotonic() + seconds
        while self._operation.is_lost is None:
            extend_due = until if self._every is None else self._due
            ask_due = until if self._ask_every is None else self._ask_due
            if min(extend_due, ask_due) >= until:
                break
            if not wait_until(min(extend_due, ask_due)):
                return
            if self._every is not None and extend_due <= ask_due:
                self._extend()
                self._due = time.monotonic() + self._every
            else:
                self.ask_if_due()
        wait_until(until)

    def ask_if_due(self) -> Optional[float]:
        """Asks the library whether the client holds the lock, if that is due. Returns the seconds until the next
        question."""
        if self._ask_every is None or self._operation.is_lost is not None:
            return None
        if time.monotonic() >= self._ask_due:
            self._ask_owned()
            self._ask_due = time.monotonic() + self._ask_every
        return max(0.0, self._ask_due - time.monotonic())

    def _ask_owned(self) -> None:
        assert self.held.owned is not None
        asked_ns = time.monotonic_ns()
        try:
            answer = self._run(self.held.owned)
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            # Without an answer, the state is unknown.
            if not is_of_connection(error):
                traceback.print_exc()
                self._operation.lost(described(error))
            return
        if answer is False:
            self._operation.lost("it is no longer owned")
        else:
            self._operation.owned(asked_ns)

    def look(self) -> Optional[str]:
        """The last check before the write, for libraries that have one. Returns why the lock is lost; None if it is
        not."""
        if self.held.check is not None and self._operation.is_lost is None:
            self._ask(self.held.check, "it is no longer held")
        if self._ask_every is not None and self._operation.is_lost is None:
            self._ask_owned()
        return self._operation.is_lost

    def release(self) -> bool:
        """Releases the lock; false if that was cancelled. Then the library is called once more, as `finally` would
        do."""
        operation = self._operation
        # From now on, the release reports the state.
        operation.meanwhile = lambda: None
        was_cancelled = operation.is_cancelled
        operation.phase("releasing")
        try:
            self._run(self.held.release, cancelled=lambda: operation.is_cancelled and not was_cancelled)
        except Cancelled:
            return self._release_again()
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            # The write stays written. It is unknown whether the lock is free, so `released` is not reported.
            traceback.print_exc()
            if operation.is_cancelled and not was_cancelled:
                return self._release_again()
            if operation.release_again is not None:
                self._release_again()
            elif not (is_of_connection(error) or is_error_reply(error)):
                operation.lost(described(error))
            return True
        operation.phase("released")
        if operation.release_again is not None:
            self._release_again(is_free=True)
        return True

    def _release_again(self, is_free: bool = False) -> bool:
        time.sleep(self._operation.release_again or 0)
        try:
            self._run(self.held.release)
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            # The first release may be the reason why the lock is no longer this client's.
            traceback.print_exc()
            # The adapter's own error, for a `with` block that cannot be left twice, is not an answer of the library.
            if not _is_of_the_adapter(error):
                self.said_again = f"released again: {described(error)}"
        else:
            if not is_free:
                self._operation.phase("released")
        return False

    def _extend(self) -> None:
        assert self.held.extend is not None
        validity = self._ask(self.held.extend, "it could not be extended")
        if self._operation.is_lost is None:
            tells = isinstance(validity, (int, float)) and not isinstance(validity, bool)
            self._operation.extended(validity if tells else None)

    def _ask(self, what: Callable[[], object], otherwise: str) -> Any:
        """Calls a function of the library; False or an exception means that the lock is lost."""
        try:
            answer = self._run(what)
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            traceback.print_exc()
            self._operation.lost(described(error))
            return None
        if answer is False:
            self._operation.lost(otherwise)
        return answer


def _is_of_the_adapter(error: Exception) -> bool:
    """True if the adapter itself raised the exception, and not a function that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename == getattr(sys.modules["__main__"], "__file__", "<string>")


CANCELLED = "cancelled"


def _cancelled() -> Answer:
    return failed(CANCELLED, "before it wrote")


FENCED = "the resource has seen a later holder's token"


def failed(error: str, text: str) -> Answer:
    return "fail", {"error": error, "text": text}


def described(error: BaseException) -> str:
    """Describes an exception in one line."""
    text = " ".join(str(error).split())[:1000]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_of_connection(error: BaseException) -> bool:
    """True if a server could not be reached or did not answer. The names of the exception's classes decide, because a
    library's exceptions do not always derive from Python's own."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"OSError", "ConnectionError", "TimeoutError", "ConnectionClosedError"})


def is_error_reply(error: BaseException) -> bool:
    """True if a server refused a command, such as with NOREPLICAS: then it is unknown whether the lock is still there."""
    return any(kind.__name__ == "ResponseError" for kind in type(error).__mro__)


def _not_acquired(error: Exception) -> Answer:
    """The answer for an exception that the library raised instead of acquiring the lock. Nothing was written, so any
    error of the library is a refusal; an error of Python itself is a mistake in the adapter, and not an answer of the
    library."""
    own = type(error).__module__ == "builtins" and not isinstance(error, OSError)
    if own and not is_of_connection(error):
        traceback.print_exc()
        return "info", {"error": "crash", "text": f"acquire: {described(error)}"}
    return failed("not-acquired", described(error))


def _read(resource: Resource, operation: Operation) -> Answer:
    try:
        old, facts = _identity(resource, resource.read(operation.resource_key, None))
    except (OSError, Refused, Fenced, ValueError) as error:
        return _unread(resource, error)
    return "ok", {"old": old, **facts}


def _identity(resource: Resource, text: Optional[str]) -> Tuple[Optional[str], Dict[str, Any]]:
    try:
        identity, count = resource.understood(text)
    except ValueError as error:
        raise ValueError(f"no {resource.kind}: {text} ({error})") from error
    return identity, {} if count is None else {"count": count}


def _unread(resource: Resource, error: Exception) -> Answer:
    """The answer for a failed read: nothing was written in any case."""
    if isinstance(error, Fenced):
        return failed("fenced", FENCED)
    if isinstance(error, ValueError):
        return failed("unsupported", str(error))
    return failed("unavailable", described(error))


def _understood(
    hello: Dict[str, Any], flags: "frozenset[str]", groups: Sequence[str]
) -> Tuple[Settings, Optional[Callable[[], Resource]]]:
    """Reads the controller's first message: the lock's settings, and how to create the resource that it protects.

    Raises:
        Misunderstood: a field is missing.
        Unsuitable: this client does not support a requested feature.
    """
    try:
        protocol, lock, wanted = hello["protocol"], hello["lock"], hello["resource"]
        options, ttl_ms = lock.get("options", {}), lock["ttl_ms"]
        kind, fencing = wanted["kind"], wanted["fencing"]
        group, sentinels = _group(lock.get("group"))
        low, high = options.get("retry_delay_ms", (10, 50))
        settings = Settings(
            ttl_ms=ttl_ms,
            nodes=list(lock["nodes"]),
            node_timeout=options.get("node_timeout_ms", ttl_ms) / 1000,
            retry_delay=(low / 1000, high / 1000),
            permits=options.get("permits", 1),
            options=options,
            flags=flags,
            client=hello.get("client", ""),
            seed=hello.get("seed", 0),
            group=group,
            sentinels=sentinels,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Misunderstood(f"hello: {described(error)}") from error
    if protocol not in PROTOCOLS:
        raise Unsuitable(f"this client speaks protocol {PROTOCOLS[0]} to {PROTOCOLS[-1]}, not {protocol}")
    if kind not in KINDS:
        raise Unsuitable(f"this client knows the resources {', '.join(KINDS)}, not {kind}")
    if fencing not in FENCINGS:
        raise Unsuitable(f"this client knows the fencings {', '.join(FENCINGS)}, not {fencing}")
    if group is not None and group not in groups:
        takes = " or ".join(["nodes that are independent", *(GROUPS[one] for one in groups)])
        raise Unsuitable(f"this client takes {takes}, not {GROUPS.get(group, group)} (`groups` of `redjepsen.serve`)")
    return settings, None if kind == "none" else lambda: Resource(Server(wanted["url"]), kind, fencing)


def _group(group: Any) -> "Tuple[Optional[str], Optional[Sentinels]]":
    """Returns the kind of group of the nodes, and the Sentinels: from `"cluster"`, or `{"sentinel": {...}}`."""
    if group is None or isinstance(group, str):
        return group, None
    ((kind, facts),) = group.items()
    return kind, Sentinels([address(url) for url in facts["sentinels"]], facts["name"])


def _reached(attempt: Callable[[], Any]) -> Any:
    """Returns the attempt's result; while the connection fails, tries again until the start limit is over."""
    deadline = time.monotonic() + START_LIMIT
    while True:
        try:
            return attempt()
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            if not is_of_connection(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _sleep_until(moment: float) -> bool:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
    return True

"""The resource that the lock protects, in a separate Redis (docs/resources.md)."""

from __future__ import annotations

import json
import socket
import time
from typing import Callable, List, Optional, Tuple, Union
from urllib.parse import urlparse

KINDS = ("register", "counter", "list", "none")
FENCINGS = ("none", "compare-and-set", "token", "token-reads")

#: The time limit of a request, in seconds. Generous, because the resource is not under test.
LIMIT = 2.0

Reply = Union[None, int, str, List["Reply"]]  # type: ignore[misc, unused-ignore]

# KEYS: the key. ARGV: whether the key had a text, this text, the new text.
COMPARE_AND_SET = """
local current = redis.call('get', KEYS[1])
local matches
if ARGV[1] == 'absent' then matches = current == false else matches = current == ARGV[2] end
if not matches then return 0 end
redis.call('set', KEYS[1], ARGV[3])
return 1"""

# KEYS: the key, the key of its highest token. ARGV: the writer's token, the new text.
SET_WITH_TOKEN = """
if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[2], ARGV[1])
redis.call('set', KEYS[1], ARGV[2])
return 1"""

GET_WITH_TOKEN = """
if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return {0, false} end
redis.call('set', KEYS[2], ARGV[1])
return {1, redis.call('get', KEYS[1])}"""


class Refused(Exception):
    """The server replied with an error: nothing was done."""


class Conflict(Exception):
    """The value that the writer had read is no longer current."""


class Fenced(Exception):
    """The resource has seen a later holder's token."""


class Server:
    """One connection. After an error it is closed and never used again: a late reply would look like the reply to the
    next request."""

    def __init__(self, url: str, limit: float = LIMIT) -> None:
        place = urlparse(url)
        self._address = (place.hostname or "localhost", place.port or 6379)
        self._limit = limit
        self._socket: Optional[socket.socket] = None
        self._number: Reply = None  # the server's id of the connection

    def connect(self) -> None:
        """Connects if there is no connection. An error means that nothing was sent."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, self._limit)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._file = self._socket.makefile("rb")
            self._number = self.ask("CLIENT", "ID")

    def ask(self, *words: object) -> Reply:
        """Sends one request and returns its answer.

        Raises:
            OSError: no answer came. The request may have been executed if the connection existed before.
            Refused: the server replied with an error.
        """
        self.connect()
        assert self._socket is not None
        try:
            encoded = [str(word).encode() for word in words]
            data = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
            self._socket.sendall(b"*%d\r\n%s" % (len(encoded), data))
            return self._reply()
        except (OSError, ValueError):
            self.close()
            raise

    def cut_off(self, within: float, meanwhile: Callable[[float], None] = time.sleep) -> bool:
        """Returns whether nothing that was sent on the broken connection can arrive any more: the server has closed
        it. Tries for this many seconds, and calls `meanwhile` with the length of each wait."""
        number, deadline = self._number, time.monotonic() + within
        while time.monotonic() < deadline:
            try:
                self.ask("CLIENT", "KILL", "ID", number)
                return True
            except (OSError, Refused):
                meanwhile(0.02)
        return False

    def close(self) -> None:
        if self._socket is not None:
            self._file.close()
            self._socket.close()
        self._socket = None

    def _reply(self) -> Reply:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Refused(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            text = self._file.read(size + 2)
            if len(text) < size + 2:
                raise ConnectionError("the server closed the connection")
            return text[:-2].decode(errors="replace")
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        return rest.decode(errors="replace")


class Resource:
    """Reads and writes texts, as far as fencing allows it."""

    def __init__(self, server: Server, kind: str, fencing: str) -> None:
        self.server, self.kind, self.fencing = server, kind, fencing

    @property
    def needs_token(self) -> bool:
        return self.fencing in ("token", "token-reads")

    def read(self, key: str, token: Optional[int]) -> Optional[str]:
        """Returns the text under a key; None if there is none. The token matters only if the resource checks tokens
        of reads.

        Raises:
            Fenced: the resource has seen a later token.
            OSError, Refused: the text is unknown.
        """
        if self.fencing == "token-reads" and token is not None:
            reply = self.server.ask("EVAL", GET_WITH_TOKEN, 2, key, key + ":highest-token", token)
            taken, text = reply if isinstance(reply, list) else (0, None)
            if taken != 1:
                raise Fenced
        else:
            text = self.server.ask("GET", key)
        return None if text is None else str(text)

    def write(self, key: str, old: Optional[str], new: str, token: Optional[int]) -> None:
        """Writes `new` in place of `old`.

        Raises:
            Conflict, Fenced: the resource refused.
            Refused: the text was not written.
            OSError: it is unknown whether the text was written.
        """
        if self.fencing == "compare-and-set":
            known = "absent" if old is None else "present"
            if self.server.ask("EVAL", COMPARE_AND_SET, 1, key, known, old or "", new) != 1:
                raise Conflict
        elif self.needs_token:
            if token is None:
                raise Refused("the library gave no fencing token")
            if self.server.ask("EVAL", SET_WITH_TOKEN, 2, key, key + ":highest-token", token, new) != 1:
                raise Fenced
        else:
            self.server.ask("SET", key, new)

    def understood(self, text: Optional[str]) -> Tuple[Optional[str], Optional[int]]:
        """Returns the identity of a text's last update, and the count for counters and lists.

        Raises:
            ValueError: the text is not of this kind.
        """
        if self.kind == "counter":
            number, identity = text.split(" ", 1) if text else ("0", None)
            return identity, int(number)
        if self.kind == "list":
            elements = self._elements(text)
            return elements[-1] if elements else None, len(elements)
        return text, None

    def updated(self, text: Optional[str], new: str) -> str:
        """Returns the text that a holder writes after it has read `text`."""
        if self.kind == "counter":
            return f"{(self.understood(text)[1] or 0) + 1} {new}"
        if self.kind == "list":
            return json.dumps([*self._elements(text), new])
        return new

    @staticmethod
    def _elements(text: Optional[str]) -> List[str]:
        elements = json.loads(text) if text else []
        if not isinstance(elements, list) or not all(isinstance(element, str) for element in elements):
            raise ValueError("not a list of texts")
        return elements

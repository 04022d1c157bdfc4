"""The types that an adapter receives and returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Dict, FrozenSet, List, Optional, Tuple, Union
from urllib.parse import urlparse

from .protocol import Operation


class Unsuitable(Exception):
    """The library cannot do what the workload asks for; the run stops with this text."""


def address(url: str) -> Tuple[str, int]:
    """Returns the host name and port of a `redis://` URL."""
    place = urlparse(url)
    return place.hostname or "localhost", place.port or 6379


@dataclass(frozen=True)
class Sentinels:
    """The Sentinels, which know the node that is the primary."""

    #: The Sentinels' host names and ports.
    addresses: List[Tuple[str, int]]
    #: The group's name at the Sentinels.
    name: str


#: The groups of nodes: the protocol's name, and a name for messages.
GROUPS = {"sentinel": "a Sentinel group", "cluster": "a Redis Cluster"}


@dataclass(frozen=True)
class Settings:
    """The lock to acquire. Times are in seconds unless their names say otherwise."""

    ttl_ms: int
    #: `redis://` URLs of the nodes: independent nodes, or nodes of a Sentinel group or a Redis Cluster.
    nodes: List[str]
    #: The time limit of a request to one node.
    node_timeout: float
    #: The shortest and the longest wait between two attempts.
    retry_delay: Tuple[float, float] = (0.01, 0.05)
    #: The number of clients that may hold a lock at once: more than one for a semaphore.
    permits: int = 1
    #: All of the workload's options, as in the protocol.
    options: Dict[str, Any] = field(default_factory=dict)
    #: The adapter's options that were given on its command line, without dashes.
    flags: FrozenSet[str] = frozenset()
    #: The client's name in the run, such as `c3`, and the seed of its random numbers.
    client: str = ""
    seed: int = 0
    #: The kind of group of the nodes: `sentinel`, `cluster`, or None if they are independent.
    group: Optional[str] = None
    #: The Sentinels to ask for the primary, in a Sentinel group.
    sentinels: Optional[Sentinels] = None

    @property
    def addresses(self) -> List[Tuple[str, int]]:
        """The nodes' host names and ports."""
        return [address(url) for url in self.nodes]

    @property
    def ttl(self) -> float:
        return self.ttl_ms / 1000

    @property
    def whole_seconds(self) -> int:
        """The TTL for a library that counts in seconds.

        Raises:
            Unsuitable: the TTL is not a whole number of seconds.
        """
        if self.ttl_ms % 1000 or not self.ttl_ms:
            raise Unsuitable(f"this library counts in whole seconds, and the TTL is {self.ttl_ms} ms: take --ttl 1s")
        return self.ttl_ms // 1000

    @property
    def node(self) -> str:
        """The only node.

        Raises:
            Unsuitable: there are several nodes.
        """
        if len(self.nodes) != 1:
            raise Unsuitable(
                f"this library locks on one node, and the workload has {len(self.nodes)}: take --workload single"
            )
        return self.nodes[0]


@dataclass
class Held:
    """A lock that the library granted, with the functions that the library has for it. Each may return an
    awaitable."""

    #: Releases the lock. An exception is reported as the loss of the lock, unless it is an error of the connection.
    release: Callable[[], object]
    #: How many milliseconds the library says that the lock is valid from now; None if it does not say.
    validity_ms: Optional[float] = None
    #: The fencing token, if the library has one.
    token: Optional[int] = None
    #: Renews the lock. A number is its new validity in milliseconds; False, or an exception, means that it is lost.
    extend: Optional[Callable[[], object]] = None
    #: Returns whether the lock is still held as far as the library knows. It is called before the write, for
    #: libraries that ask their users to check. False, or an exception, means that the lock is lost.
    check: Optional[Callable[[], object]] = None
    #: Returns whether the library says that this client holds the lock. It is called as often as the workload says
    #: (`check_every`), and then before the write too. False means that the lock is lost, and so does an exception,
    #: except an error of the connection.
    owned: Optional[Callable[[], object]] = None


#: Acquires the lock of an operation within `operation.within` seconds. None, False, or an exception of the library
#: means that it was not acquired.
Acquire = Callable[[Operation], Union[Held, None, bool, Awaitable[Union[Held, None, bool]]]]

#: Connects to the lock's nodes. It may raise `Unsuitable`.
Connect = Callable[[Settings], Union[Acquire, Awaitable[Acquire]]]

"""What an adapter gets, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Dict, FrozenSet, List, Optional, Tuple, Union
from urllib.parse import urlparse

from .protocol import Operation


class Unsuitable(Exception):
    """The library cannot do what the workload asks for; the run stops with this text."""


def address(url: str) -> Tuple[str, int]:
    """The host name and port of a `redis://` URL."""
    place = urlparse(url)
    return place.hostname or "localhost", place.port or 6379


@dataclass(frozen=True)
class Sentinels:
    """Who knows which node is the primary."""

    #: Their host names and ports.
    addresses: List[Tuple[str, int]]
    #: What they call the group.
    name: str


#: What nodes can be together, as the protocol and a person call it.
GROUPS = {"sentinel": "a Sentinel group", "cluster": "a Redis Cluster"}


@dataclass(frozen=True)
class Settings:
    """The lock that is to be taken. Times are in seconds unless their names say otherwise."""

    ttl_ms: int
    #: `redis://` URLs of the nodes: independent of each other, or those of a Sentinel group or a Redis Cluster.
    nodes: List[str]
    #: How long a request to one node may take.
    node_timeout: float
    #: The shortest and the longest wait between two attempts.
    retry_delay: Tuple[float, float] = (0.01, 0.05)
    #: How many clients may have a lock at once: more than one if it is a semaphore.
    permits: int = 1
    #: All of the workload's options, as the protocol has them.
    options: Dict[str, Any] = field(default_factory=dict)
    #: The options of the adapter that were given on its command line.
    flags: FrozenSet[str] = frozenset()
    #: The client's name in the run, such as `c3`, and the seed of whatever it draws.
    client: str = ""
    seed: int = 0
    #: What the nodes are together: `sentinel`, `cluster`, or None if they are independent.
    group: Optional[str] = None
    #: Who is asked for the primary of a Sentinel group.
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
            Unsuitable: it is not a whole number of them.
        """
        if self.ttl_ms % 1000 or not self.ttl_ms:
            raise Unsuitable(f"this library counts in whole seconds, and the TTL is {self.ttl_ms} ms: take --ttl 1s")
        return self.ttl_ms // 1000

    @property
    def node(self) -> str:
        """The only node.

        Raises:
            Unsuitable: there are several.
        """
        if len(self.nodes) != 1:
            raise Unsuitable(
                f"this library locks on one node, and the workload has {len(self.nodes)}: take --workload single"
            )
        return self.nodes[0]


@dataclass
class Held:
    """A lock that the library gave, and what the library can do with it. Whatever is called may return an awaitable."""

    #: Gives it back. What it raises is told as the loss of the lock, unless it is an error of the connection.
    release: Callable[[], object]
    #: How long the lock is valid from now, in milliseconds. Only what the library says.
    validity_ms: Optional[float] = None
    #: The fencing token, if the library has one.
    token: Optional[int] = None
    #: Renews the lock. A number is its new validity in milliseconds; False, or an exception, means that it is lost.
    extend: Optional[Callable[[], object]] = None
    #: Whether the lock is still held as far as the library knows: asked before the write, for libraries that tell their
    #: users to. False, or an exception, means that it is lost.
    check: Optional[Callable[[], object]] = None
    #: Whether the library says that this client has the lock: asked as often as the workload says (`check_every`), and then
    #: before the write too. False means that it is lost, and so does an exception, but for one of the connection.
    owned: Optional[Callable[[], object]] = None


#: Takes the lock of an operation within `operation.within` seconds. None or False, or an exception of the library,
#: means that it did not get it.
Acquire = Callable[[Operation], Union[Held, None, bool, Awaitable[Union[Held, None, bool]]]]

#: Connects to the lock's nodes. It may raise `Unsuitable`.
Connect = Callable[[Settings], Union[Acquire, Awaitable[Acquire]]]

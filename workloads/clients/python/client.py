#!/usr/bin/env python3
"""A lock client for redjepsen in Python, without any package: copy it and put your own lock library in its place.

    redjepsen run --workload single --client-image python:3-slim \
      --mount workloads/clients/python:/client --client-cmd "python3 -u /client/client.py"

It speaks the client protocol (docs/client-protocol.md): JSON lines on standard input and output, standard error is its
log. What it must be careful about is marked SAFE SIDE; a client that is careless there makes a good lock look broken, or
a broken one look good.
"""

import json
import os
import socket
import sys
import time
from urllib.parse import urlparse

KINDS = ["register", "counter", "list"]
COMPARE_AND_DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()  # a phase that is reported late moves the moment at which the nemesis acts


class Redis:
    """One connection. After a timeout it is closed and never used again: a late reply would answer the next request."""

    def __init__(self, url, timeout):
        place = urlparse(url)
        self.address, self.timeout, self.file, self.socket = (place.hostname, place.port or 6379), timeout, None, None
        self.number = None  # what the server calls the connection

    def connect(self):
        if self.file is None:
            self.socket = socket.create_connection(self.address, self.timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.file = self.socket.makefile("rb")
            self.number = self.ask("CLIENT", "ID")

    def cut_off(self, within):
        """Whether nothing that was sent on the connection that broke can arrive any more: the server has closed it."""
        number, deadline = self.number, time.monotonic() + within
        while time.monotonic() < deadline:
            try:
                self.ask("CLIENT", "KILL", "ID", number)
                return True
            except OSError:
                time.sleep(0.02)
        return False

    def ask(self, *words):
        self.connect()
        try:
            data = b"*%d\r\n" % len(words)
            for word in words:
                word = str(word).encode()
                data += b"$%d\r\n%s\r\n" % (len(word), word)
            self.socket.sendall(data)
            return self.reply()
        except OSError:
            self.close()
            raise

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2].decode()
        return rest.decode()

    def close(self):
        if self.socket is not None:
            self.file.close()
            self.socket.close()
        self.file = self.socket = None


class Lock:
    """SET NX PX on one node. Put your own library here."""

    def __init__(self, settings):
        self.ttl_ms = settings["ttl_ms"]
        self.node = Redis(settings["nodes"][0], timeout=self.ttl_ms / 1000 / 5)

    def acquire(self, key, timeout_ms):
        """The mark and the validity in milliseconds, or None."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            mark, begin = os.urandom(20).hex(), time.monotonic()
            try:
                taken = self.node.ask("SET", key, mark, "NX", "PX", self.ttl_ms) is not None
            except OSError:
                taken = None  # nobody knows
            # SAFE SIDE: the time that the request took counts against the lock.
            left_ms = self.ttl_ms - (time.monotonic() - begin) * 1000
            if taken and left_ms > 0:
                return mark, int(left_ms)
            if taken is not False:
                self.release(key, mark)  # SAFE SIDE: what may have been set, or was set too late, is not left behind
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01 + os.urandom(1)[0] / 6000)  # 10 to 52 ms, so that contenders fall out of step

    def release(self, key, mark):
        try:
            self.node.ask("EVAL", COMPARE_AND_DELETE, 1, key, mark)
        except (OSError, RuntimeError):
            pass  # the TTL does the rest


def understood(kind, text):
    """The identity of the last update in a text of the resource, and how much there is (docs/resources.md)."""
    if kind == "counter":
        number, identity = text.split(" ", 1) if text else (0, None)
        return identity, int(number)
    if kind == "list":
        elements = json.loads(text) if text else []
        return elements[-1] if elements else None, len(elements)
    return text, None


def updated(kind, text, new):
    """What a holder writes back that read this text."""
    if kind == "counter":
        return f"{understood(kind, text)[1] + 1} {new}"
    if kind == "list":
        return json.dumps((json.loads(text) if text else []) + [new])
    return new


def phase(operation, name, **more):
    say(type="phase", id=operation["id"], phase=name, mono_ns=time.monotonic_ns(), **more)
    if name in operation.get("gates", []):
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("type") == "go" and message.get("phase") == name:
                return


def rmw(operation, lock, resource, kind):
    identity, key, new = operation["id"], operation["key"], operation["value"]
    phase(operation, "acquiring")
    held = lock.acquire("lock:" + key, operation["acquire_timeout_ms"])
    if held is None:
        return say(type="fail", id=identity, error="not-acquired", text="")
    mark, validity_ms = held
    phase(operation, "acquired", validity_ms=validity_ms)  # SAFE SIDE: stamped after the reply
    try:
        text = resource.ask("GET", key)
        old, count = understood(kind, text)
    except OSError as error:
        answer = dict(type="fail", id=identity, error="unavailable", text=str(error))  # nothing was written
    except ValueError:
        answer = dict(type="fail", id=identity, error="unsupported", text=f"no {kind}: {text}")
    else:
        phase(operation, "read", value=old, count=count)
        time.sleep(operation["hold_ms"] / 1000)
        phase(operation, "before-write")  # SAFE SIDE: stamped before the request
        try:
            resource.connect()
        except OSError as error:
            answer = dict(type="fail", id=identity, error="unavailable", text=str(error))
        else:
            try:
                resource.ask("SET", key, updated(kind, text, new))
                phase(operation, "written")
                answer = dict(type="ok", id=identity, old=old, new=new, count=count)
            except OSError as error:
                # SAFE SIDE: nobody knows whether it was written, or will be; until it can't be any more the lock is kept.
                answer = dict(type="info", id=identity, error="timeout", text=str(error))
                if not resource.cut_off(within=60):
                    return say(**answer)  # without a release: the TTL has the say
    phase(operation, "releasing")
    lock.release("lock:" + key, mark)
    phase(operation, "released")
    say(**answer)


def main():
    hello = json.loads(sys.stdin.readline())
    kind = hello["resource"]["kind"]
    if hello["protocol"] != 1 or hello["resource"]["fencing"] != "none" or kind not in KINDS:
        return say(type="failed", text=f"this client speaks protocol 1, knows no fencing, and of resources {', '.join(KINDS)}")
    lock, resource = Lock(hello["lock"]), Redis(hello["resource"]["url"], timeout=2)
    resource.connect()
    say(type="ready", protocol=1, name="python-example 1", capabilities=[])
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "invoke" and message["f"] == "rmw":
            rmw(message, lock, resource, kind)
        elif message["type"] == "invoke":
            say(type="fail", id=message["id"], error="unsupported", text=message["f"])
        elif message["type"] == "bye":
            return


if __name__ == "__main__":
    main()

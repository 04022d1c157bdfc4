"""A client with a correct lock. Its argument names the one way in which it breaks the protocol; `none` breaks nothing."""

import json
import os
import random
import socket
import sys
import time

how = sys.argv[1]
COMPARE_AND_DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Redis:
    def __init__(self, url):
        host, port = url.split("//")[1].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        line = self.file.readline()
        if line[:1] != b"$":
            return line[1:-2].decode()
        return None if line[1:3] == b"-1" else self.file.read(int(line[1:]) + 2)[:-2].decode()


def stamp(name, count):
    if how == "no-stamps" or how == "some-stamps" and count % 2 or how == "no-end-stamps" and name == "releasing":
        return {}
    offset = {"another-clock": 10**18, "future-stamps": 10**10}.get(how, 0)
    offset -= 10**9 if how == "falling-stamps" and name == "read" else 0
    return {"mono_ns": "soon" if how == "stamps-in-words" else time.monotonic_ns() + offset}


def operate(node, resource, ttl, count, message):
    number, key, new = message["id"], message["key"], message["value"]
    left_out = {"no-beginning": ["acquired"], "no-end": ["releasing", "released"]}.get(how, [])

    def phase(name, **more):
        if name not in left_out:
            name = "reading" if how == "unknown-phase" and name == "read" else name
            say(type="phase", id=number, phase=name, **stamp(name, count), **more)

    if how == "never-answers":
        return
    if how == "read-first":
        phase("read", value=None)
    phase("acquiring")
    mark, end = os.urandom(8).hex(), time.monotonic() + message["acquire_timeout_ms"] / 1000
    while node.ask("SET", "lock:" + key, mark, "NX", "PX", ttl) != "OK":
        if time.monotonic() > end:
            return say(type="fail", id=number, error="not-acquired", text="")
        time.sleep(0.002 + random.random() / 100)
    phase("acquired")
    old = resource.ask("GET", key)
    phase("read", value=old)
    time.sleep(message["hold_ms"] / 1000)
    phase("before-write")
    if how == "writes-first" and count > 1:
        pass
    elif how != "writes-nothing":
        resource.ask("SET", "mine:" + key if how == "writes-elsewhere" else key, new)
    phase("written")
    if how == "acquired-late":
        phase("acquired")
    if how == "early-answer":
        say(type="ok", id=number, old=old, new=new)
    phase("releasing")
    node.ask("EVAL", COMPARE_AND_DELETE, 1, "lock:" + key, mark)
    phase("released")
    if how == "extended-late":
        phase("extended")
    if how == "dies" and count > 3:
        os.write(2, b"the first of its last words\nthe last of them\n")
        os._exit(3)
    if how == "no-json" and count > 3:
        return print("what a library prints", flush=True)
    answer = {
        "fail-after-written": dict(type="fail", error="conflict", text=""),
        "not-acquired-after-acquired": dict(type="fail", error="not-acquired", text=""),
        "another-value": dict(type="ok", old=old, new="other"),
        "another-old": dict(type="ok", old="c9:9", new=new),
        "no-old": dict(type="ok", new=new),
        "old-is-a-list": dict(type="ok", old=[1], new=new),
        "always-unsure": dict(type="info", error="odd", text=""),
    }.get(how, dict(type="ok", old=old, new=new))
    if how != "early-answer":
        say(**answer, id=number + 1 if how == "another-operation" else number)
    if how == "answers-twice":
        say(**answer, id=number)


def main():
    if how == "dies-at-once":
        raise RuntimeError("no lock library here")
    hello = json.loads(sys.stdin.readline())
    greeting = {
        "another-protocol": dict(type="ready", protocol=7, name="x", capabilities=[]),
        "no-name": dict(type="ready", protocol=1),
        "phase-for-ready": dict(type="phase", id=1, phase="acquired"),
        "refuses": dict(type="failed", text="this lock takes five nodes"),
    }
    say(**greeting.get(how, dict(type="ready", protocol=1, name=f"breaks {how} 1.0", capabilities=[])))
    node, resource = Redis(hello["lock"]["nodes"][0]), Redis(hello["resource"]["url"])
    count = 0
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "bye":
            return
        if message["type"] == "invoke":
            count += 1
            operate(node, resource, hello["lock"]["ttl_ms"], count, message)


main()

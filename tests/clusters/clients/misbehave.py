"""A client that reports `ready`, does its first operations correctly, and then misbehaves as its argument says."""

import json
import os
import sys
import time


def say(**message):
    print(json.dumps(message), flush=True)


how, done = sys.argv[1], 0
json.loads(sys.stdin.readline())
steering = "\x1b[2J\r\nVALID\u202e\u009b31m" if how.startswith("steers") else ""
os.write(2, b"\x1b[31mred\r\n")
say(type="ready", protocol=1, name="misbehaving " + how if not steering else "misbehaving" + steering)
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] != "invoke":
        break
    done += 1
    if done > 1:
        if how == "garbage":
            print("Traceback (most recent call last): \x1b[31moops", flush=True)
        elif how == "dies":
            os._exit(3)
        elif how == "hangs":
            time.sleep(3600)
        elif how == "endless-line":
            os.write(1, b"x" * (1 << 21))
        elif how == "other-operation":
            print(json.dumps({"type": "ok", "id": 987654321, "old": None, "new": message["value"]}), flush=True)
        elif how == "steers-and-fails":
            say(type="failed", text="no such module" + steering)
        elif how == "floods":
            phase = json.dumps({"type": "phase", "id": message["id"], "phase": "acquiring"}) + "\n"
            while True:
                os.write(1, phase.encode() * 100)
        elif how == "floods-with-values":
            say(type="phase", id=message["id"], phase="read", value="x" * 900_000)
        elif how == "floods-stderr":
            for _ in range(2_000):
                os.write(2, b"x" * 10_000 + b"\n")
    say(type="fail", id=message["id"], error="not-acquired" if done < 3 else "odd" + steering, text=steering)
    if done > 1 and how == "floods-out-of-turn":
        while True:
            say(type="phase", id=message["id"], phase="extended", value="x" * 900_000)

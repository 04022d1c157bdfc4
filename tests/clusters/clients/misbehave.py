"""A client that says `ready` and does its first operations well, then misbehaves in the way that its argument names."""

import json
import os
import sys
import time

how, done = sys.argv[1], 0
json.loads(sys.stdin.readline())
print(json.dumps({"type": "ready", "protocol": 1, "name": "misbehaving " + how}), flush=True)
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
    print(json.dumps({"type": "fail", "id": message["id"], "error": "not-acquired", "text": ""}), flush=True)

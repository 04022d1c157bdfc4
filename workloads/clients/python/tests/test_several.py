"""Protocol 2: several operations at once, cancelled ones, and a blocked event loop."""

import os
import tempfile
import time

from .test_client import ADAPTER, UPDATE, Case, acquiring

TWO = {"protocol": 2, "threads": 2}

#: A lock for asyncio. With the key `lock:slow`, acquiring it takes a minute.
ASYNC = """
import asyncio
import redjepsen

async def connect(settings):
    async def acquire(operation):
        if operation.key == "lock:slow":
            await asyncio.sleep(60)
        async def release():
            await asyncio.sleep(0)
        return redjepsen.Held(release)
    return acquire

redjepsen.serve(connect, name="test lock")
"""


class Several(Case):
    def until_end(self, identity):
        """Returns the messages up to the end of this operation: its phases and answer, and the messages of all
        others."""
        phases, others = [], []
        while True:
            message = self.receive()
            if message.get("id") != identity:
                others.append(message)
            elif message["type"] == "phase":
                phases.append(message["phase"])
            else:
                return phases, message, others

    def until(self, phase):
        while self.receive().get("phase") != phase:
            pass

    def test_threads_work_side_by_side(self):
        ready = self.start(hello=TWO)
        self.assertEqual((ready["protocol"], ready["capabilities"]), (2, ["threads", "release-again"]), "nobody can end a thread's call")
        self.invoke(id=1, thread=0, key="k0", value="c0:0", breakpoints=["before-write"])
        self.until("before-write")
        self.invoke(id=2, thread=1, key="k1", value="c1:0")
        phases, answer, others = self.until_end(2)
        self.assertEqual((phases, answer["type"], others), (UPDATE, "ok", []), "the other one stands at its breakpoint")
        self.send(type="go", id=1, phase="before-write")
        phases, answer, _ = self.until_end(1)
        self.assertEqual((phases[0], answer["new"]), ("before-write", "c0:0"), "it reports the phase again")
        self.send(type="go", id=1, phase="before-write")
        self.assertEqual(self.end(), (0, ""), "one that is late does no harm")

    def test_all_threads_have_what_connect_made_once(self):
        adapter = ADAPTER.replace("def connect(settings):", "def connect(settings):\n    print('connected')")
        self.start(adapter, hello=TWO)
        for identity, thread in [(1, 0), (2, 1)]:
            self.invoke(id=identity, thread=thread, value=f"c0:{identity}")
            self.until_end(identity)
        self.assertEqual(self.end()[1], "connected\n")

    def test_a_wait_for_the_lock_is_cancelled(self):
        ready = self.start(ASYNC, hello=TWO)
        self.assertEqual(ready["capabilities"], ["threads", "cancel", "block", "release-again"])
        self.invoke(id=1, key="slow")
        self.until("acquiring")
        self.invoke(id=2, thread=1, key="k0")
        self.assertEqual(self.until_end(2)[1]["type"], "ok", "a task of the same loop goes on")
        self.send(type="cancel", id=1)
        phases, answer, _ = self.until_end(1)
        self.assertEqual((phases, answer["type"], answer["error"]), ([], "fail", "cancelled"))
        self.invoke(id=3, key="k0", value="c0:3")
        self.assertEqual(self.until_end(3)[0], UPDATE, "and so does its own")

    def test_a_library_that_takes_a_cancellation_for_nothing_goes_on(self):
        # A cancellation before the library's call ends the operation, so the test must know that the call has begun.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        called = os.path.join(folder.name, "called")
        swallows = ASYNC.replace("            await asyncio.sleep(60)", "            await deaf()")
        swallows = swallows.replace(
            "async def connect",
            f"async def deaf():\n    open({called!r}, 'w').close()\n    try:\n        await asyncio.sleep(60)\n    except asyncio.CancelledError:\n        pass\n\n"
            "async def connect",
        )
        self.start(swallows, hello=TWO)
        self.invoke(id=1, key="slow")
        self.until("acquiring")
        while not os.path.exists(called):
            time.sleep(0.01)
        self.send(type="cancel", id=1)
        phases, answer, _ = self.until_end(1)
        self.assertEqual((phases, answer["type"]), (UPDATE[1:], "ok"))

    def test_a_call_of_a_function_ends_by_an_exception_and_one_that_takes_it_for_nothing_goes_on(self):
        waits = "import time\nprint('waits')\n{}\nreturn redjepsen.Held(lambda: print('released'))"
        takes_it_for_nothing = waits.format("try: time.sleep(60)\nexcept Exception: pass")
        for body, ends in [
            (waits.format("time.sleep(60)"), ([], "fail", "cancelled")),
            (takes_it_for_nothing, (UPDATE[1:], "ok", None)),
        ]:
            self.start(acquiring(body), hello={"protocol": 2})
            self.invoke(id=1)
            self.until("acquiring")
            time.sleep(0.2)
            self.send(type="cancel", id=1)
            phases, answer, _ = self.until_end(1)
            self.assertEqual((phases, answer["type"], answer.get("error")), ends)
            code, said = self.end()
            self.assertEqual((code, said.splitlines()[0]), (0, "waits"))
        # A cancelled release is called once more; a holder that is at work releases the lock.
        body = "calls = []\ndef release():\n    calls.append(1)\n    if len(calls) == 1: time.sleep(60)\n"
        self.start(acquiring("import time\n" + body + "return redjepsen.Held(release)"), hello={"protocol": 2})
        self.invoke(id=1)
        self.until("releasing")
        time.sleep(0.2)
        self.send(type="cancel", id=1)
        self.assertEqual(self.until_end(1)[:2][0], ["released"])
        self.start(acquiring("return redjepsen.Held(lambda: None)"), hello={"protocol": 2})
        self.invoke(id=1, hold_ms=60_000)
        self.until("read")
        self.send(type="cancel", id=1)
        self.assertEqual(self.until_end(1)[0], ["releasing", "released"])

    def test_a_cancellation_that_is_there_before_the_library_is_called_ends_the_operation(self):
        adapter = acquiring("import threading\nended = threading.Event()\noperation.on_cancel(ended.set)\nended.wait()\nreturn None")
        for code in (ASYNC, adapter.replace('name="test lock"', 'name="test lock", cancels=True')):
            self.start(code, hello=TWO)
            self.invoke(id=1, key="slow", breakpoints=["acquiring"])
            self.until("acquiring")
            self.send(type="cancel", id=1)
            self.assertEqual(self.until_end(1)[1]["error"], "cancelled")

    def test_one_that_stands_where_its_lock_was_released_goes_on_when_another_one_has_begun(self):
        self.start(ADAPTER, hello=TWO)
        self.invoke(id=1, breakpoints=["released"])
        self.until("released")
        self.invoke(id=2, thread=1)
        self.until_end(2)
        self.send(type="go", id=1, phase="released")
        self.assertEqual(self.until_end(1)[1]["type"], "ok")

    def test_a_holder_that_is_cancelled_gives_its_lock_back_and_writes_nothing(self):
        for adapter in (ADAPTER, ASYNC):
            self.start(adapter, hello=TWO)
            self.invoke(id=1, hold_ms=60_000)
            self.until("read")
            self.send(type="cancel", id=1)
            phases, answer, _ = self.until_end(1)
            self.assertEqual((phases, answer["error"]), (["releasing", "released"], "cancelled"))
            self.invoke(id=2, breakpoints=["before-write"])
            self.until("before-write")
            self.send(type="cancel", id=2)
            phases, answer, _ = self.until_end(2)
            self.assertEqual((phases, answer["error"]), (["releasing", "released"], "cancelled"), "at a breakpoint too")
            self.assertNotIn("k0", self.redis.data)

    def releasing(self, release):
        """Returns the result of an operation that is cancelled while the library runs this release."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        called = os.path.join(folder.name, "called")
        code = ASYNC.replace("    async def acquire", f"    called = {called!r}\n    tries = []\n    async def acquire")
        code = code.replace("            await asyncio.sleep(0)\n", release)
        self.start(code.replace("import asyncio\n", "import asyncio, os\n"), hello=TWO)
        self.invoke(id=1)
        self.until("releasing")
        while not os.path.exists(called):
            time.sleep(0.01)
        self.send(type="cancel", id=1)
        phases, answer, _ = self.until_end(1)
        return phases, answer["type"], answer.get("error")

    def test_a_release_that_is_cancelled_is_asked_for_once_more(self):
        first = "            tries.append(1)\n            if len(tries) == 1:\n                open(called, 'w').close()\n"
        waits = first + "                await asyncio.sleep(60)\n"
        self.assertEqual(self.releasing(waits), (["released"], "info", "cancelled"))
        forgets = waits + "            raise Exception('it has forgotten its token')\n"
        self.assertEqual(self.releasing(forgets), ([], "info", "cancelled"))

    def test_a_release_that_takes_a_cancellation_for_nothing_goes_on(self):
        deaf = (
            "            open(called, 'w').close()\n"
            "            try:\n"
            "                await asyncio.sleep(60)\n"
            "            except asyncio.CancelledError:\n"
            "                pass\n"
        )
        self.assertEqual(self.releasing(deaf), (["released"], "ok", None))

    def test_an_adapter_can_say_how_its_library_is_cancelled(self):
        adapter = acquiring(
            "import threading\n"
            "ended = threading.Event()\n"
            "operation.on_cancel(ended.set)\n"
            "ended.wait()\n"
            "raise OSError('given up')"
        )
        adapter = adapter.replace('name="test lock"', 'name="test lock", cancels=True')
        ready = self.start(adapter, hello=TWO)
        self.assertEqual(ready["capabilities"], ["threads", "cancel", "release-again"])
        self.invoke(id=1)
        self.until("acquiring")
        self.send(type="cancel", id=1)
        self.assertEqual(self.until_end(1)[1]["error"], "cancelled")

    def test_a_blocked_event_loop_says_so_and_nothing_else(self):
        self.start(ASYNC, hello=TWO)
        self.invoke(id=1, hold_ms=20)
        self.send(type="block", ms=150)
        said = []
        while not said or said[-1]["type"] != "unblocked":
            said.append(self.receive())
        began = next(place for place, message in enumerate(said) if message["type"] == "blocked")
        self.assertEqual(began, len(said) - 2, "between the two it says nothing")
        lasted = said[-1]["mono_ns"] - said[-2]["mono_ns"]
        self.assertGreaterEqual(lasted, 150_000_000)
        stamps = [message["mono_ns"] for message in said]
        self.assertEqual(stamps, sorted(stamps))
        self.assertEqual(self.until_end(1)[1]["type"], "ok")

    def test_what_is_no_message_of_protocol_2_ends_it(self):
        for message in ({"type": "grant", "id": 1}, {"type": "invoke", "id": 1, "f": "rmw", "key": "k0", "thread": 2}):
            self.start(hello=TWO)
            self.send(**message)
            code, errors = self.process.wait(timeout=60), self.process.stderr.read()
            self.assertEqual(code, 1)
            self.assertIn("was not understood", errors)

    def test_an_older_client_is_told_by_its_protocol(self):
        answer = self.start(hello={"protocol": 3})
        self.assertEqual(answer["type"], "failed")
        self.assertIn("protocol 1 to 2, not 3", answer["text"])


class Readers(Case):
    def test_a_lock_for_reading_is_asked_for_and_nothing_is_written_under_it(self):
        asked = "print('shared' if operation.shared else 'alone')\nreturn redjepsen.Held(lambda: None)"
        adapter = acquiring(asked).replace('name="test lock"', 'name="test lock", shared=True')
        self.redis.data["k0"] = "c1:12"
        ready = self.start(adapter, hello={"protocol": 2})
        self.assertEqual(ready["capabilities"], ["threads", "cancel", "release-again", "shared"])
        self.invoke(f="shared", value=None)
        phases, answer = self.answer()
        self.assertEqual([phase["phase"] for phase in phases], [*UPDATE[:3], *UPDATE[5:]])
        self.assertEqual(answer, {"type": "ok", "id": 17, "old": "c1:12"})
        self.invoke()
        self.assertEqual(self.answer()[1]["new"], "c3:17")
        self.assertEqual(self.end(), (0, "shared\nalone\n"))

    def test_a_reader_that_knows_of_its_loss_has_read_nothing(self):
        adapter = acquiring("return redjepsen.Held(lambda: None, check=lambda: False)")
        self.start(adapter.replace('name="test lock"', 'name="test lock", shared=True'), hello={"protocol": 2})
        self.invoke(f="shared", value=None)
        phases, answer = self.answer()
        self.assertEqual((answer["type"], answer["error"]), ("fail", "lock-lost"))
        self.assertIn("lost", [phase["phase"] for phase in phases])

    def test_one_that_takes_no_locks_for_reading_does_not_say_that_it_does(self):
        self.assertEqual(self.start(hello={"protocol": 2})["capabilities"], ["threads", "cancel", "release-again"])

"""Tests clients as the controller sees them: as processes behind pipes."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from .fake_redis import FakeRedis

HOME = Path(__file__).parent.parent

#: A lock in memory. Code that a test inserts has the same indentation.
ADAPTER = """
import redjepsen

def connect(settings):
    def acquire(operation):
        return redjepsen.Held(lambda: None)
    return acquire

redjepsen.serve(connect, name="test lock")
"""


IN_CLUSTERS = ADAPTER.replace('name="test lock"', 'name="test lock", groups=["cluster"]')
SENTINELS = {"sentinel": {"sentinels": ["redis://s0:26379"], "name": "lock"}}


def stop(process):
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


class Names(unittest.TestCase):
    def test_a_script_that_is_named_as_what_it_imports_is_told_so(self):
        nowhere = "redis://127.0.0.1:1"
        lock = {"name": "single", "ttl_ms": 1000, "nodes": [nowhere], "options": {}}
        resource = {"kind": "register", "url": nowhere, "fencing": "none"}
        hello = {"type": "hello", "protocol": 1, "client": "c0", "lock": lock, "resource": resource, "seed": 1}
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "mine.py")
            script.write_text(ADAPTER.replace("def acquire", "import mine\n    def acquire"))
            done = subprocess.run(
                [sys.executable, "-u", str(script)],
                input=json.dumps(hello) + "\n",
                env={**os.environ, "PYTHONPATH": str(HOME)},
                capture_output=True,
                text=True,
            )
        self.assertIn("call it otherwise than the package", done.stdout, done.stderr)


class Case(unittest.TestCase):
    def setUp(self):
        self.redis = FakeRedis()
        self.addCleanup(self.redis.close)

    def start(self, adapter=ADAPTER, arguments=(), hello=None, installed=(), **resource):
        """Starts a client and greets it; returns its first answer. Packages in the folders `installed` count as
        installed."""
        command = [sys.executable, "-u", "-c", adapter, *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [HOME, *installed]))}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            bufsize=1,
        )
        self.addCleanup(stop, self.process)
        lock = {"name": "single", "ttl_ms": 1000, "nodes": [self.redis.url], "options": {}}
        greeting = {
            "type": "hello",
            "protocol": 1,
            "client": "c3",
            "lock": {**lock, **(hello or {}).get("lock", {})},
            "resource": {"kind": "register", "url": self.redis.url, "fencing": "none", **resource},
            "seed": 7,
        }
        greeting.update({key: value for key, value in (hello or {}).items() if key != "lock"})
        self.send(**greeting)
        return self.receive()

    def send(self, **message):
        self.process.stdin.write(json.dumps(message) + "\n")

    def receive(self):
        line = self.process.stdout.readline()
        self.assertTrue(line, "the client ended")
        return json.loads(line)

    def invoke(self, **more):
        invoke = {"id": 17, "f": "rmw", "key": "k0", "value": "c3:17", "hold_ms": 0, "acquire_timeout_ms": 2000}
        self.send(type="invoke", **{**invoke, **more})

    def answer(self):
        """Returns the messages up to the operation's end: the phases, and the answer."""
        phases = []
        while True:
            message = self.receive()
            if message["type"] != "phase":
                return phases, message
            phases.append(message)

    def run_one(self, adapter=ADAPTER, **more):
        self.start(adapter)
        self.invoke(**more)
        phases, answer = self.answer()
        return [phase["phase"] for phase in phases], phases, answer

    def end(self):
        """Says goodbye; returns the exit code and the standard error."""
        self.send(type="bye")
        _, errors = self.process.communicate()
        return self.process.returncode, errors


def acquiring(body):
    """Returns an adapter whose `acquire` has this body."""
    return ADAPTER.replace("        return redjepsen.Held(lambda: None)", textwrap.indent(body, " " * 8))


def extending(adapter):
    return adapter.replace('name="test lock"', 'name="test lock", flags=["extend"]')


UPDATE = ["acquiring", "acquired", "read", "before-write", "written", "releasing", "released"]


class Updates(Case):
    def test_an_update_is_told_phase_by_phase(self):
        self.redis.data["k0"] = "c1:12"
        names, phases, answer = self.run_one()
        self.assertEqual(names, UPDATE)
        self.assertEqual(answer, {"type": "ok", "id": 17, "old": "c1:12", "new": "c3:17"})
        self.assertEqual(phases[2]["value"], "c1:12")
        self.assertNotIn("validity_ms", phases[1], "nobody said one")
        stamps = [phase["mono_ns"] for phase in phases]
        self.assertEqual(stamps, sorted(stamps))
        self.assertEqual(self.redis.data["k0"], "c3:17")
        self.assertEqual(self.end(), (0, ""))

    def test_an_empty_key_is_null_and_a_counter_tells_its_count(self):
        self.start(kind="counter")
        for old, count in [(None, 0), ("c3:17", 1)]:
            self.invoke()
            phases, answer = self.answer()
            self.assertEqual((phases[2]["value"], phases[2]["count"]), (old, count))
            self.assertEqual((answer["type"], answer["old"], answer["count"]), ("ok", old, count))

    def test_a_text_of_another_kind_is_left_alone(self):
        self.redis.data["k0"] = "no number"
        self.start(kind="counter")
        self.invoke()
        phases, answer = self.answer()
        self.assertEqual((answer["type"], answer["error"]), ("fail", "unsupported"))
        self.assertEqual(phases[-1]["phase"], "released")
        self.assertEqual(self.redis.data["k0"], "no number")

    def test_what_a_library_prints_is_no_message(self):
        body = "print('hello')\nimport os; os.system('echo world')\nreturn redjepsen.Held(lambda: None)"
        names, _, answer = self.run_one(acquiring(body))
        self.assertEqual((names, answer["type"]), (UPDATE, "ok"))
        self.assertEqual(self.end(), (0, "hello\nworld\n"))

    def test_a_mutex_is_held_without_a_resource(self):
        self.start(kind="none", url="")
        self.invoke(f="hold", value=None)
        phases, answer = self.answer()
        self.assertEqual([phase["phase"] for phase in phases], ["acquiring", "acquired", "releasing", "released"])
        self.assertEqual(answer, {"type": "ok", "id": 17})
        self.invoke()
        self.assertEqual(self.answer()[1]["error"], "unsupported", "there is nothing to write")

    def test_a_read_needs_no_lock(self):
        self.redis.data["k0"] = "c1:12"
        names, _, answer = self.run_one(f="read")
        self.assertEqual((names, answer), ([], {"type": "ok", "id": 17, "old": "c1:12"}))

    def test_what_it_does_not_know_is_refused(self):
        names, _, answer = self.run_one(f="cas")
        self.assertEqual((names, answer["type"], answer["error"]), ([], "fail", "unsupported"))

    def test_what_the_library_says_is_passed_on(self):
        body = "return redjepsen.Held(lambda: None, validity_ms=949.9, token=34)"
        _, phases, _ = self.run_one(acquiring(body))
        self.assertEqual((phases[1]["validity_ms"], phases[1]["token"]), (949, 34))

    def test_a_coroutine_may_stand_wherever_a_function_may(self):
        adapter = """
import asyncio, contextvars, redjepsen

async def connect(settings):
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    mine = contextvars.ContextVar("mine")

    async def watchdog(operation):
        while True:
            await asyncio.sleep(0.01)
            operation.extended()

    async def dog_is_gone(dog):
        await asyncio.wait([dog])

    async def acquire(operation):
        mine.set(True)
        dog = asyncio.ensure_future(watchdog(operation))

        def release():  # may ask where it is before it returns something to await
            assert asyncio.get_running_loop() is loop
            assert asyncio.current_task() is task and mine.get()
            dog.cancel()
            return dog_is_gone(dog)

        return redjepsen.Held(release)

    return acquire

redjepsen.serve(connect, name="asyncio lock")
"""
        names, _, answer = self.run_one(adapter, hold_ms=200)
        self.assertIn("extended", names, "the loop goes on while the client thinks")
        self.assertEqual([name for name in names if name != "extended"], UPDATE)
        self.assertEqual(answer["type"], "ok")


class Breakpoints(Case):
    def test_it_waits_for_its_own_go_and_reports_the_phase_again(self):
        self.start()
        self.invoke(breakpoints=["before-write"])
        names = [self.receive()["phase"] for _ in range(4)]
        self.assertEqual(names[-1], "before-write")
        self.send(type="go", id=16, phase="before-write")
        self.send(type="go", id=17, phase="acquired")
        self.assertNotIn("k0", self.redis.data)
        self.send(type="go", id=17, phase="before-write")
        phases, answer = self.answer()
        self.assertEqual([phase["phase"] for phase in phases], UPDATE[3:], "only now does the write leave")
        self.assertEqual(answer["type"], "ok")

    def test_goodbye_at_a_breakpoint_is_the_end(self):
        self.start()
        self.invoke(breakpoints=["before-write"])
        for _ in range(4):
            self.receive()
        self.assertEqual(self.end(), (0, ""))
        self.assertNotIn("k0", self.redis.data)

    def test_another_operation_at_a_breakpoint_is_not_understood(self):
        self.start()
        self.invoke(breakpoints=["acquired"])
        self.receive(), self.receive()
        self.invoke(id=18)
        _, errors = self.process.communicate()
        self.assertEqual(self.process.returncode, 1)
        self.assertIn("invoke while operation 17 waits at acquired", errors)

    def test_a_late_go_is_ignored(self):
        self.start()
        self.send(type="go", id=16, phase="before-write")
        self.invoke()
        self.assertEqual(self.answer()[1]["type"], "ok")


class Losses(Case):
    def test_a_lock_that_was_not_obtained_is_a_failure(self):
        for body, text in [
            ("return None", ""),
            ("return False", ""),
            ("class LockError(Exception): pass\nraise LockError('taken')", "LockError: taken"),
            ("raise ConnectionError('refused')", "ConnectionError: refused"),
            ("import asyncio; raise asyncio.TimeoutError()", "TimeoutError"),
        ]:
            names, _, answer = self.run_one(acquiring(body))
            self.assertEqual(names, ["acquiring"], body)
            self.assertEqual(answer, {"type": "fail", "id": 17, "error": "not-acquired", "text": text}, body)

    def test_a_mistake_in_an_adapter_is_not_held_against_its_lock(self):
        for body, text in [
            ("return 1 + None", "acquire: TypeError: unsupported operand"),
            ("return True", "acquire: TypeError: acquire returned True"),
            ("return settings.nothing", "acquire: AttributeError"),
        ]:
            names, _, answer = self.run_one(acquiring(body))
            self.assertEqual((answer["type"], answer["error"]), ("info", "crash"), body)
            self.assertTrue(answer["text"].startswith(text), answer)
            self.assertIn("Traceback", self.end()[1])

    def test_a_library_that_knows_of_the_loss_keeps_its_holder_from_writing(self):
        for body, reason in [
            ("return redjepsen.Held(lambda: None, check=lambda: False)", "it is no longer held"),
            (
                "class Lost(Exception): pass\n"
                "def check(): raise Lost('reaped')\n"
                "return redjepsen.Held(lambda: None, check=check)",
                "Lost: reaped",
            ),
            ("operation.lost('told early')\nreturn redjepsen.Held(lambda: None)", "told early"),
        ]:
            names, phases, answer = self.run_one(acquiring(body))
            self.assertEqual((answer["type"], answer["error"], answer["text"]), ("fail", "lock-lost", reason))
            self.assertEqual([phase.get("text") for phase in phases if phase["phase"] == "lost"], [reason])
            self.assertLess(names.index("acquired"), names.index("lost"))
            self.assertEqual(names[-1], "released")
            self.assertNotIn("k0", self.redis.data)

    def test_a_check_that_finds_nothing_does_not_disturb(self):
        for check in ["lambda: True", "lambda: None"]:
            names, _, answer = self.run_one(acquiring(f"return redjepsen.Held(lambda: None, check={check})"))
            self.assertEqual((names, answer["type"]), (UPDATE, "ok"))

    def test_a_library_is_asked_again_and_again_if_the_workload_says_so(self):
        body = "return redjepsen.Held(lambda: None, owned=lambda: True)"
        names, phases, answer = self.run_one(acquiring(body), hold_ms=200, check_every_ms=20)
        self.assertEqual(answer["type"], "ok")
        self.assertEqual([name for name in names if name != "owned"], UPDATE)
        self.assertGreater(names.count("owned"), 1)
        self.assertEqual(names[-5:-3], ["owned", "before-write"], "it is asked before the write")
        self.assertEqual(self.run_one(acquiring(body), hold_ms=50)[0], UPDATE, "nobody asks for it")
        names, _, answer = self.run_one(acquiring("return redjepsen.Held(lambda: None)"), check_every_ms=20)
        self.assertEqual((names, answer["type"]), (UPDATE, "ok"), "it cannot say")

    def test_a_library_that_is_asked_tells_of_the_loss_at_a_breakpoint_too(self):
        body = "answers = iter([True, False])\nreturn redjepsen.Held(lambda: None, owned=lambda: next(answers))"
        self.start(acquiring(body))
        self.invoke(breakpoints=["read"], check_every_ms=20)
        names = [self.receive()["phase"] for _ in range(5)]
        self.assertEqual(names, ["acquiring", "acquired", "read", "owned", "lost"])
        self.send(type="go", id=17, phase="read")
        self.assertEqual(self.receive()["phase"], "read")
        phases, answer = self.answer()
        self.assertEqual([phase["phase"] for phase in phases], ["releasing", "released"])
        self.assertEqual(answer["error"], "lock-lost")

    def test_a_question_that_is_not_answered_says_nothing(self):
        body = "def owned(): raise TimeoutError()\nreturn redjepsen.Held(lambda: None, owned=owned)"
        names, _, answer = self.run_one(acquiring(body), check_every_ms=20)
        self.assertEqual((names, answer["type"]), (UPDATE, "ok"))

    def test_a_loss_that_is_noticed_by_the_release_comes_too_late_for_the_write(self):
        body = (
            "class NotOwned(Exception): pass\n"
            "def release(): raise NotOwned('expired')\n"
            "return redjepsen.Held(release)"
        )
        names, phases, answer = self.run_one(acquiring(body))
        self.assertEqual(answer["type"], "ok", "it was written")
        self.assertEqual(names, [*UPDATE[:-1], "lost"])
        self.assertEqual(phases[-1]["text"], "NotOwned: expired")

    def test_a_release_is_made_again_where_that_is_asked_for_and_the_first_that_worked_counts(self):
        of_two = "calls = []\ndef release():\n    calls.append(1)\n    if len(calls) == {}: {}\n"
        refuses, by_itself = "import json; json.loads('')", "raise KeyError('refused')"
        again = {"release_again_ms": 10}
        said = "released again: JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
        for call, how, asked, ends, text in [
            (1, refuses, again, ["releasing", "released"], None),
            (2, refuses, again, ["releasing", "released"], said),
            (2, by_itself, again, ["releasing", "released"], None),
            (3, refuses, again, ["releasing", "released"], None),
            (1, refuses, {}, ["releasing", "lost"], None),
            (2, refuses, {}, ["releasing", "released"], None),
        ]:
            body = of_two.format(call, how) + "return redjepsen.Held(release)"
            names, _, answer = self.run_one(acquiring(body), **asked)
            self.assertEqual((names[-2:], answer["type"], answer.get("text")), (ends, "ok", text), (call, how, asked))

    def test_a_release_that_did_not_get_through_says_nothing_of_the_lock(self):
        refused = "class ResponseError(Exception): pass\nclass ReadOnlyError(ResponseError): pass\n"
        for error in ["TimeoutError()", "ResponseError('NOREPLICAS Not enough good replicas')", "ReadOnlyError('replica')"]:
            body = refused + f"def release(): raise {error}\nreturn redjepsen.Held(release)"
            names, _, answer = self.run_one(acquiring(body))
            self.assertEqual((names, answer["type"]), (UPDATE[:-1], "ok"), error)

    def test_words_after_the_end_are_not_passed_on(self):
        body = "def late():\n    operation.lost('late'); operation.extended(5)\n"
        body += "def release():\n    import threading; threading.Timer(0.05, late).start()\n"
        self.start(acquiring(body + "return redjepsen.Held(release)"))
        for _ in range(3):
            self.invoke(hold_ms=100)
            names = [phase["phase"] for phase in self.answer()[0]]
            self.assertEqual(names, UPDATE)


class Extensions(Case):
    EXTENDS = "return redjepsen.Held(lambda: None, extend=lambda: {})"

    def extended(self, result, arguments=("--extend",), ttl_ms=100, **options):
        hello = {"lock": {"ttl_ms": ttl_ms, "options": options}}
        ready = self.start(extending(acquiring(self.EXTENDS.format(result))), arguments, hello)
        self.invoke(hold_ms=50)
        phases, answer = self.answer()
        return ready, phases, answer

    def test_a_lock_is_held_longer_than_its_ttl(self):
        for result, validity in [("90.5", 90), ("None", None), ("True", None)]:
            ready, phases, answer = self.extended(result)
            self.assertEqual(ready["name"], "test lock (extend)")
            renewals = [phase for phase in phases if phase["phase"] == "extended"]
            self.assertTrue(renewals)
            self.assertEqual(renewals[0].get("validity_ms"), validity)
            held = phases[-2]["mono_ns"] - phases[1]["mono_ns"]
            self.assertGreaterEqual(held, 150_000_000)
            self.assertEqual(answer["type"], "ok")

    def test_a_lock_that_cannot_be_extended_is_lost(self):
        for result in ["False", "1 / 0"]:
            _, phases, answer = self.extended(result)
            names = [phase["phase"] for phase in phases]
            self.assertEqual((names.count("lost"), names.count("extended")), (1, 0))
            self.assertEqual((answer["type"], answer["error"]), ("fail", "lock-lost"))

    def test_the_workload_says_how_often(self):
        for options, renewed in [({"renew_every_ms": 10}, True), ({}, False)]:
            _, phases, _ = self.extended("None", (), **options)
            self.assertEqual("extended" in [phase["phase"] for phase in phases], renewed)

    def test_what_the_library_cannot_do_is_refused(self):
        self.assertEqual(self.start(ADAPTER, ["--extend"])["type"], "failed")
        self.start(extending(ADAPTER), ["--extend"])
        self.invoke()
        answer = self.answer()[1]
        self.assertEqual((answer["error"], answer["text"]), ("crash", "acquire: TypeError: --extend needs Held.extend"))


class Resources(Case):
    def test_a_write_without_an_answer_is_in_doubt_until_its_connection_is_closed(self):
        self.start()
        self.redis.unanswered.add("SET")
        self.invoke()
        phases, answer = self.answer()
        self.assertEqual((answer["type"], answer["error"]), ("info", "connection-lost"))
        self.assertEqual([phase["phase"] for phase in phases], [*UPDATE[:4], *UPDATE[5:]], "then it is released")
        self.assertEqual(len(self.redis.killed), 1)

    def test_a_read_without_an_answer_certainly_wrote_nothing(self):
        self.start()
        self.redis.unanswered.add("GET")
        self.invoke()
        phases, answer = self.answer()
        self.assertEqual((answer["type"], answer["error"]), ("fail", "unavailable"))
        self.assertEqual(phases[-1]["phase"], "released")

    def test_a_resource_that_compares_refuses_what_is_no_longer_current(self):
        change = "import redjepsen.resource as r\nserver = r.Server(settings.node)\n"
        for body, outcome in [("", ("ok", None)), ("server.ask('SET', 'k0', 'other')", ("fail", "conflict"))]:
            check = f"def check():\n    {body or 'pass'}\n"
            adapter = acquiring(change + check + "return redjepsen.Held(lambda: None, check=check)")
            self.redis.data.clear()
            self.start(adapter, fencing="compare-and-set")
            self.invoke()
            answer = self.answer()[1]
            self.assertEqual((answer["type"], answer.get("error")), outcome)

    def test_a_resource_with_tokens_refuses_earlier_ones(self):
        for seen, outcome in [("34", ("ok", None)), ("35", ("fail", "fenced"))]:
            self.redis.data.clear()
            self.redis.data["k0:highest-token"] = seen
            self.start(acquiring("return redjepsen.Held(lambda: None, token=34)"), fencing="token")
            self.invoke()
            answer = self.answer()[1]
            self.assertEqual((answer["type"], answer.get("error")), outcome)


class Greetings(Case):
    def test_it_says_what_it_is(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        about = Path(folder.name) / "its_package-1.2.3.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text("Metadata-Version: 2.1\nName: its-package\nVersion: 1.2.3\n")
        adapter = ADAPTER.replace('name="test lock"', 'name="its lock", package="its-package", flags=["fast"]')
        ready = self.start(adapter, ["--fast"], installed=[folder.name])
        self.assertEqual(ready["name"], "its lock 1.2.3 (fast)")
        self.assertEqual((ready["type"], ready["protocol"]), ("ready", 1))

    def test_what_it_cannot_do_stops_the_run_with_a_reason(self):
        raising = ADAPTER.replace("    def acquire", "    raise {}\n    def acquire")
        for adapter, arguments, hello, resource, words in [
            (ADAPTER, [], {"protocol": 3}, {}, "speaks protocol 1 to 2, not 3"),
            (ADAPTER, [], {}, {"kind": "replicated"}, "not replicated"),
            (ADAPTER, [], {}, {"kind": "row"}, "not row"),
            (ADAPTER, [], {}, {"fencing": "paired"}, "not paired"),
            (ADAPTER, [], {"lock": {"group": "cluster"}}, {}, "nodes that are independent, not a Redis Cluster"),
            (IN_CLUSTERS, [], {"lock": {"group": SENTINELS}}, {}, "or a Redis Cluster, not a Sentinel group"),
            (ADAPTER, ["--fast"], {}, {}, "unknown option --fast of the adapter; it has none"),
            (ADAPTER.replace("lock\")", "lock\", package='no-such')"), [], {}, {}, "a package is missing: No package metadata was found for no-such"),
            (raising.format("ModuleNotFoundError('no redis')"), [], {}, {}, "a package is missing: no redis"),
            (raising.format("KeyError('x')"), [], {}, {}, "cannot connect: KeyError: 'x'"),
            (raising.format("redjepsen.Unsuitable('too many')"), [], {}, {}, "too many"),
            (raising.format("settings.node"), [], {"lock": {"nodes": ["a", "b"]}}, {}, "and the workload has 2"),
            (raising.format("settings.whole_seconds"), [], {"lock": {"ttl_ms": 1500}}, {}, "whole seconds"),
        ]:
            answer = self.start(adapter, arguments, hello, **resource)
            self.assertEqual(answer["type"], "failed", answer)
            self.assertIn(words, answer["text"])
            self.process.communicate()
            self.assertEqual(self.process.returncode, 0)

    def test_it_takes_the_groups_that_it_names(self):
        looks = "    print(settings.group, settings.sentinels, settings.addresses)\n    def acquire"
        adapter = IN_CLUSTERS.replace('"cluster"', '"sentinel", "cluster"').replace("    def acquire", looks)
        for group, seen in [
            ("cluster", "cluster None [('n0', 6379)]"),
            (SENTINELS, "sentinel Sentinels(addresses=[('s0', 26379)], name='lock') [('n0', 6379)]"),
        ]:
            ready = self.start(adapter, [], {"lock": {"group": group, "nodes": ["redis://n0:6379"]}})
            self.assertEqual(ready["type"], "ready", ready)
            self.assertIn(seen, self.end()[1])

    def test_a_lock_in_the_middle_of_a_fault_is_waited_for(self):
        adapter = ADAPTER.replace(
            "def connect(settings):",
            "tries = []\ndef connect(settings):\n    tries.append(1)\n    if len(tries) < 3: raise ConnectionError()",
        )
        self.assertEqual(self.start(adapter)["type"], "ready")

    def test_nonsense_is_not_understood(self):
        for line in ["hello", "[]", "{}", '{"type":"hello"}', '{"type":"hello","protocol":1,"lock":[],"resource":{}}']:
            done = subprocess.run(
                [sys.executable, "-c", ADAPTER],
                input=line + "\n",
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(HOME)},
            )
            self.assertEqual((done.returncode, done.stdout), (1, ""), line)
            self.assertIn("the controller was not understood", done.stderr)

    def test_a_controller_that_is_gone_is_the_end(self):
        self.start()
        self.process.stdin.close()
        self.assertEqual(self.process.wait(), 0)


class Example(Case):
    def test_it_takes_and_gives_back_its_lock(self):
        self.start((HOME / "client.py").read_text())
        self.invoke()
        phases, answer = self.answer()
        self.assertEqual([phase["phase"] for phase in phases], UPDATE)
        self.assertLessEqual(phases[1]["validity_ms"], 1000)
        self.assertEqual(answer["type"], "ok")
        self.assertNotIn("lock:k0", self.redis.data)

    def test_it_does_not_get_what_another_holds(self):
        self.redis.data["lock:k0"] = "another's"
        self.start((HOME / "client.py").read_text())
        self.invoke(acquire_timeout_ms=100)
        phases, answer = self.answer()
        self.assertEqual((len(phases), answer["error"]), (1, "not-acquired"))
        self.assertEqual(self.redis.data["lock:k0"], "another's")


class Adapters(unittest.TestCase):
    def test_each_has_its_requirements_and_a_name_that_hides_no_library(self):
        adapters = {path.stem for path in (HOME / "adapters").glob("*.py")}
        # It is redis-py with its default settings, and uses the requirements of redis-py.
        self.assertEqual(adapters - {"redis-py-shipped"}, {path.stem for path in (HOME / "requirements").glob("*.txt")})
        for name in adapters:
            self.assertFalse(name.isidentifier(), f"import {name} would find the adapter")

    def test_requirements_are_exact(self):
        for path in (HOME / "requirements").glob("*.txt"):
            # Ignores options and comments; each package is followed by the hashes of its files.
            lines = path.read_text().replace("\\\n", "").splitlines()
            packages = [line for line in lines if not line.startswith(("--", "#"))]
            self.assertTrue(packages, path.name)
            for line in packages:
                self.assertRegex(line, r"^[a-z0-9.-]+==[0-9][0-9a-z.]*( ; python_(full_)?version < \"3[0-9.]+\")?( +--hash=sha256:[0-9a-f]{64})+$", path.name)


if __name__ == "__main__":
    unittest.main()

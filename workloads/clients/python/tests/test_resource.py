import unittest

from redjepsen.resource import Conflict, Fenced, Refused, Resource, Server

from .fake_redis import FakeRedis


class Texts(unittest.TestCase):
    def test_what_is_written_back_is_read_with_its_identity_and_one_more(self):
        for kind, texts, counts in [
            ("register", ["c1:0", "c3:17"], [None, None, None]),
            ("counter", ["1 c1:0", "2 c3:17"], [0, 1, 2]),
            ("list", ['["c1:0"]', '["c1:0", "c3:17"]'], [0, 1, 2]),
        ]:
            resource, text = Resource(Server("redis://nowhere"), kind, "none"), None
            self.assertEqual(resource.understood(text), (None, counts[0]))
            for new, expected, count in zip(["c1:0", "c3:17"], texts, counts[1:]):
                text = resource.updated(text, new)
                self.assertEqual(text, expected)
                self.assertEqual(resource.understood(text), (new, count))

    def test_a_text_of_another_kind_is_refused(self):
        for kind, text in [
            ("counter", "c1:0"),
            ("counter", "many c1:0"),
            ("list", "c1:0"),
            ("list", '{"c1": 0}'),
            ("list", "[1]"),
        ]:
            with self.assertRaises(ValueError, msg=text):
                Resource(Server("redis://nowhere"), kind, "none").understood(text)


class Requests(unittest.TestCase):
    def setUp(self):
        self.redis = FakeRedis()
        self.addCleanup(self.redis.close)

    def resource(self, fencing):
        resource = Resource(Server(self.redis.url), "register", fencing)
        self.addCleanup(resource.server.close)
        return resource

    def test_without_fencing_the_last_writer_wins(self):
        resource = self.resource("none")
        self.assertIsNone(resource.read("k", None))
        resource.write("k", None, "ü", None)
        resource.write("k", None, "b", None)
        self.assertEqual(resource.read("k", None), "b")

    def test_only_who_read_the_current_text_writes(self):
        resource = self.resource("compare-and-set")
        resource.write("k", None, "a", None)
        resource.write("k", "a", "b", None)
        for old in [None, "a"]:
            with self.assertRaises(Conflict):
                resource.write("k", old, "c", None)
        self.assertEqual(resource.read("k", None), "b")

    def test_a_token_bars_the_writes_of_earlier_ones_and_if_asked_their_reads(self):
        for fencing, reads in [("token", True), ("token-reads", False)]:
            self.redis.data.clear()
            resource = self.resource(fencing)
            resource.write("k", None, "a", 2)
            resource.write("k", "a", "b", 2)
            with self.assertRaises(Fenced):
                resource.write("k", "b", "c", 1)
            with self.assertRaises(Refused):
                resource.write("k", "b", "c", None)
            if reads:
                self.assertEqual(resource.read("k", 1), "b")
            else:
                with self.assertRaises(Fenced):
                    resource.read("k", 1)
            self.assertEqual(resource.read("k", 3), "b")

    def test_an_error_of_the_server_is_no_answer_to_the_next_request(self):
        server = self.resource("none").server
        with self.assertRaises(Refused):
            server.ask("FLUSHALL")
        self.assertIsNone(server.ask("GET", "k"))

    def test_a_connection_without_an_answer_is_cut_off_by_its_number(self):
        server = self.resource("none").server
        server.connect()
        self.redis.unanswered.add("SET")
        with self.assertRaises(OSError):
            server.ask("SET", "k", "v")
        self.assertTrue(server.cut_off(within=60))
        self.assertEqual(self.redis.killed, [1])

    def test_nothing_is_cut_off_that_nobody_answered_for(self):
        server = self.resource("none").server
        server.connect()
        self.redis.unanswered.add("SET")
        with self.assertRaises(OSError):
            server.ask("SET", "k", "v")
        self.redis.close()
        waits = []
        self.assertFalse(server.cut_off(within=0.05, meanwhile=waits.append))
        self.assertTrue(waits, "it tried again, and let the lock be kept")

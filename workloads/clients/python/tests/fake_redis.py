"""A Redis with a few commands that can withhold its answers."""

import socket
import threading

from redjepsen.resource import COMPARE_AND_SET, GET_WITH_TOKEN, SET_WITH_TOKEN


class FakeRedis:
    def __init__(self):
        self.data, self.killed, self.unanswered = {}, [], set()
        self._connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections += 1
            threading.Thread(target=self._serve, args=(connection, self._connections), daemon=True).start()

    def _serve(self, connection, number):
        with connection, connection.makefile("rb") as file:
            self._answers(connection, file, number)

    def _answers(self, connection, file, number):
        while True:
            head = file.readline()
            if not head:
                return
            words = []
            for _ in range(int(head[1:])):
                size = int(file.readline()[1:])
                words.append(file.read(size + 2)[:-2].decode())
            name = words[0].upper()
            answer = self._answer(name, words, number)
            if name in self.unanswered:
                self.unanswered.discard(name)  # executed, but the answer is withheld
                connection.shutdown(socket.SHUT_RDWR)
                return
            connection.sendall(encoded(answer))

    def _answer(self, name, words, number):
        if name == "CLIENT":
            if words[1].upper() == "ID":
                return number
            self.killed.append(int(words[3]))
            return 1
        if name == "GET":
            return self.data.get(words[1])
        if name == "SET":
            if "NX" in words and words[1] in self.data:
                return None
            self.data[words[1]] = words[2]
            return Status("OK")
        if name == "EVAL":
            return self._script(words[1], words[3 : 3 + int(words[2])], words[3 + int(words[2]) :])
        return Wrong(f"ERR unknown command {name}")

    def _script(self, script, keys, arguments):
        if script == COMPARE_AND_SET:
            known, old, new = arguments
            if self.data.get(keys[0]) != (old if known == "present" else None):
                return 0
            self.data[keys[0]] = new
            return 1
        if script in (SET_WITH_TOKEN, GET_WITH_TOKEN):
            if int(self.data.get(keys[1], "0")) > int(arguments[0]):
                return 0 if script == SET_WITH_TOKEN else [0, None]
            self.data[keys[1]] = arguments[0]
            if script == GET_WITH_TOKEN:
                return [1, self.data.get(keys[0])]
            self.data[keys[0]] = arguments[1]
            return 1
        if "del" in script:  # compare and delete
            if self.data.get(keys[0]) != arguments[0]:
                return 0
            del self.data[keys[0]]
            return 1
        return Wrong("ERR unknown script")


class Status(str):
    pass


class Wrong(str):
    pass


def encoded(answer):
    if answer is None:
        return b"$-1\r\n"
    if isinstance(answer, int):
        return b":%d\r\n" % answer
    if isinstance(answer, list):
        return b"*%d\r\n" % len(answer) + b"".join(map(encoded, answer))
    if isinstance(answer, Wrong):
        return f"-{answer}\r\n".encode()
    if isinstance(answer, Status):
        return f"+{answer}\r\n".encode()
    return b"$%d\r\n%s\r\n" % (len(answer.encode()), answer.encode())

"""The ends of `xcvm serve`: ends.py XCVM [ROUNDS]

SIGTERM under load: each request that was sent is answered. SIGKILL and a restart by systemd-socket-activate: the connections
in the backlog are answered by the next process. The parent holds the socket, as systemd does.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

XCVM, ROUNDS = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
os.chdir(tempfile.mkdtemp())
with open("doubles.xcvm", "w") as f:
    f.write('xcvm 1\ninput x f32[2]\noutput y f32[2]\n$1 = In(name="x")\n$2 = Add($1, $1)\nOut($2, name="y")\n')
BODY = b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}'
REQUEST = b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


def check(condition, what):
    if not condition:
        sys.exit(f"ends.py: {what}")


def read_answer(s):
    """Returns the answer, or as much as there is before the connection ends."""
    data = b""
    while not data.endswith(b"]}"):
        piece = s.recv(65536)
        if not piece:
            break
        data += piece
    return data


def start(listening, activate=None):
    child = os.fork()
    if child == 0:
        os.dup2(listening.fileno(), 3)
        os.set_inheritable(3, True)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
        command = ([activate] if activate else []) + [XCVM, "serve", "doubles.xcvm"]
        os.dup2(os.open("serve.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        os.execv(command[0], command)
    return child


def listen():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(256)
    return s


class Client(threading.Thread):
    """Sends requests, on connections of one or of many requests, until no server accepts connections."""

    def __init__(self, at, keeps):
        super().__init__()
        self.at, self.keeps, self.answered, self.lost, self.unused = at, keeps, 0, [], 0
        self.start()

    def connect(self):
        try:
            return socket.create_connection(self.at, timeout=30)
        except OSError:
            return None

    def run(self):
        s = self.connect()
        while s is not None:
            begins = self.answered
            try:
                s.sendall(REQUEST)
                answer = read_answer(s)
            except OSError as e:
                answer = str(e).encode()
            if not answer.endswith(b'"data":[2,4]}]}'):
                self.lost.append(answer)
                return
            self.answered += 1
            closes = b"Connection: close" in answer
            if closes or not self.keeps:
                s.close()
                s = self.connect()


def end_under_load():
    listening = listen()
    server = start(listening)
    at = listening.getsockname()
    listening.close()  # so that the socket ends with the server
    clients = [Client(at, keeps=i % 2 == 0) for i in range(8)]
    while min(c.answered for c in clients) < 20:
        time.sleep(0.01)
        check(not any(c.lost for c in clients), [c.lost for c in clients])
    os.kill(server, signal.SIGTERM)
    check(os.waitpid(server, 0)[1] == 0, "the exit code after SIGTERM")
    for c in clients:
        c.join()
        check(not c.lost, f"after {c.answered} answers: {c.lost}")
    return sum(c.answered for c in clients)


def restart_with_backlog():
    listening = listen()
    activate = shutil.which("systemd-socket-activate")
    server = start(listening, activate)
    first = socket.create_connection(listening.getsockname(), timeout=60)
    first.sendall(REQUEST)
    check(read_answer(first).endswith(b'"data":[2,4]}]}'), "the first request")
    os.kill(server, signal.SIGSTOP)
    while open(f"/proc/{server}/stat").read().split()[2] != "T":
        time.sleep(0.001)
    waiting = []
    for _ in range(50):
        s = socket.create_connection(listening.getsockname(), timeout=60)
        s.sendall(REQUEST)
        waiting.append(s)
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    server = start(listening, activate)
    for s in waiting:
        check(read_answer(s).endswith(b'"data":[2,4]}]}'), "a connection in the backlog")
    os.kill(server, signal.SIGTERM)
    check(os.waitpid(server, 0)[1] == 0, "the exit code after the restart")
    return len(waiting)


for _ in range(ROUNDS):
    print("answered until SIGTERM:", end_under_load(), "- from the backlog after SIGKILL:", restart_with_backlog())
shutil.rmtree(os.getcwd())

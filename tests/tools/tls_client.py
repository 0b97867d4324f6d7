"""Clients of a TLS port that misbehave, and ones that stay: tls_client.py ADDRESS CASE.

The environment variable CA is a file of certificates.
"""
import os
import socket
import ssl
import sys
import threading
import time

HOST, PORT = sys.argv[1].rsplit(":", 1)
CONTEXT = ssl.create_default_context(cafile=os.environ["CA"])
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"


def check(condition, what):
    if not condition:
        sys.exit(f"tls_client.py {sys.argv[2]}: {what}")


def connect():
    return socket.create_connection((HOST, int(PORT)), timeout=20)


def secure(**options):
    return CONTEXT.wrap_socket(connect(), server_hostname="localhost", **options)


def read_until(s, count):
    data = b""
    while len(data) < count:
        piece = s.recv(65536)
        check(piece, f"the connection ends after {len(data)} of {count} bytes")
        data += piece
    return data


def is_live(s):
    s.sendall(LIVE)
    data = b""
    while b'{"live":true}' not in data:
        piece = s.recv(65536)
        check(piece, "the connection ends before the answer")
        data += piece


def ends(s, last=b""):
    """The server closes the connection, perhaps before it has received the last bytes."""
    try:
        s.sendall(last)
        if last:
            s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass
    except TimeoutError:
        check(False, "the connection does not end")
    except OSError:
        pass


class Memory:
    """A client whose records can be changed on their way."""

    def __init__(self):
        self.socket, self.incoming, self.outgoing = connect(), ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = CONTEXT.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(self.outgoing.read())
                self.incoming.write(self.socket.recv(65536))
        self.socket.sendall(self.outgoing.read())

    def record(self, text):
        self.tls.write(text)
        return self.outgoing.read()


def hostile():
    # Without TLS.
    s = connect()
    s.sendall(LIVE)
    answer = b""
    while piece := s.recv(65536):
        answer += piece
    check(answer.startswith(b"HTTP/1.1 400 ") and b"expects TLS" in answer, answer)
    for junk in (b"\0" * 100, b"\x16\x03\x01\xff\xff" + b"x" * 70000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", os.urandom(4000)):
        ends(connect(), junk)
    # Protocols that the port does not speak.
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    other = ssl.create_default_context(cafile=os.environ["CA"])
    other.set_alpn_protocols(["spdy/1"])
    for context in (old, other):
        try:
            context.wrap_socket(connect(), server_hostname="localhost")
            check(False, "the handshake succeeds")
        except (ssl.SSLError, ConnectionError):
            pass
    # Handshakes that stop in the middle; others are served meanwhile.
    waiting = [connect() for _ in range(8)]
    hello = ssl.MemoryBIO()
    try:
        CONTEXT.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    start = hello.read()
    for i, s in enumerate(waiting):
        s.sendall(start[:len(start) * i // len(waiting)])
    is_live(secure())
    # A handshake in single bytes, and a request in single bytes of a record.
    slow = Memory()
    for byte in slow.record(LIVE):
        slow.socket.sendall(bytes([byte]))
    while True:
        slow.incoming.write(slow.socket.recv(65536))
        try:
            data = slow.tls.read(65536)
        except ssl.SSLWantReadError: # a ticket
            continue
        check(data.startswith(b"HTTP/1.1 200"), data)
        break
    # Records that are cut or changed.
    for change in (lambda r: r[:len(r) // 2], lambda r: r[:-1], lambda r: r[:-1] + bytes([r[-1] ^ 1]),
                   lambda r: r[:3] + b"\xff\xff" + r[5:], lambda r: r + b"\x17\x03\x03\x00\x00"):
        cut = Memory()
        ends(cut.socket, change(cut.record(LIVE)))
    is_live(secure())
    # The server gives up handshakes.
    for s in waiting:
        ends(s)


def pipelined():
    # Many requests in one record, which the server has received before it handles the first.
    s = secure()
    count = 150
    s.sendall(LIVE * count)
    data = b""
    while data.count(b'{"live":true}') < count:
        data += read_until(s, 1)
    # A head and the start of a body in one record, and the rest in others.
    body = os.urandom(3000000)
    head = b'{"inputs":[{"name":"x","shape":[3000000],"datatype":"UINT8","parameters":{"binary_data_size":3000000}}],' \
           b'"parameters":{"binary_data_output":true}}'
    for first in (0, 1, 1000, 16384, 50000):
        text = b"POST /v2/models/bytes/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (
            len(head), len(head) + len(body)) + head + body[:first]
        s.sendall(text)
        s.sendall(body[first:])
        data = b""
        while b"\r\n\r\n" not in data:
            data += read_until(s, 1)
        fields, rest = data.split(b"\r\n\r\n", 1)
        length = int(fields.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        rest += read_until(s, length - len(rest))
        check(rest.endswith(body), f"{first}: other bytes")


def large_call():
    """A call whose response exceeds what sockets hold, by a client that reads it late and sends nothing meanwhile."""
    import h2.config
    import h2.connection
    import h2.events
    import inference_pb2 as pb
    count = 12000000
    CONTEXT.set_alpn_protocols(["h2"])
    s = secure()
    c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    c.initiate_connection()
    c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 30})
    c.increment_flow_control_window(1 << 30)
    request = pb.ModelInferRequest(model_name="bytes", raw_input_contents=[bytes(count)])
    request.inputs.add(name="x", datatype="UINT8", shape=[count])
    message = request.SerializeToString()
    message = b"\0" + len(message).to_bytes(4, "big") + message
    c.send_headers(1, [(":method", "POST"), (":scheme", "https"), (":path", "/inference.GRPCInferenceService/ModelInfer"),
                       (":authority", "localhost"), ("content-type", "application/grpc"), ("te", "trailers")])
    at = 0
    while at < len(message):
        size = min(c.local_flow_control_window(1), c.max_outbound_frame_size, len(message) - at)
        if size > 0:
            c.send_data(1, message[at:at + size], end_stream=at + size == len(message))
            at += size
        s.sendall(c.data_to_send())
        if size == 0:
            c.receive_data(s.recv(65536))
    # Until the server has to wait, which no client can see.
    time.sleep(0.5)
    received, status = 0, None
    while status is None:
        data = s.recv(1 << 20)
        check(data, "the connection ends")
        for event in c.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                received += len(event.data)
            elif isinstance(event, h2.events.TrailersReceived):
                status = dict(event.headers)[b"grpc-status"]
    check(status == b"0" and received > count, f"status {status}, {received} bytes")


def stays():
    """Prints the serial number of the certificate, and again for a new connection after a line of input."""
    s = secure()
    is_live(s)
    print(s.getpeercert()["serialNumber"], flush=True)
    for _ in sys.stdin:
        is_live(s)
        new = secure()
        is_live(new)
        print(new.getpeercert()["serialNumber"], flush=True)


def many():
    """Connections that come and go side by side."""
    failed = []

    def run():
        try:
            for _ in range(20):
                s = secure()
                for _ in range(5):
                    is_live(s)
                s.close()
        except (OSError, SystemExit) as error:
            failed.append(error)
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failed, failed)


globals()[sys.argv[2]]()

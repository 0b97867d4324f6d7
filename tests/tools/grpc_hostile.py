"""Clients that misbehave: grpc_hostile.py ADDRESS [CASE...]. Frames are made with the libraries below Debian's python3-h2,
because h2 itself sends valid ones only. After each case another connection must be served.
"""
import socket
import struct
import sys
import time

import h2.config
import h2.connection
import h2.events
from hpack import Decoder, Encoder
from hyperframe.frame import (ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, PriorityFrame,
                              RstStreamFrame, SettingsFrame, WindowUpdateFrame)

import inference_pb2 as pb

HOST, PORT = sys.argv[1].rsplit(":", 1)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INFER = "/inference.GRPCInferenceService/ModelInfer"
current = "start"


def check(condition, what):
    if not condition:
        sys.exit(f"grpc_hostile.py {current}: {what}")


def request(model="doubles", **fields):
    message = pb.ModelInferRequest(model_name=model, **fields)
    message.inputs.add(name="x", datatype="FP32", shape=[2])
    message.raw_input_contents.append(struct.pack("<2f", 1, 2))
    return framed(message.SerializeToString())


def framed(message, flag=0):
    return struct.pack(">BI", flag, len(message)) + message


def headers(path=INFER, method="POST", content="application/grpc", more=()):
    return [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x"), ("content-type", content),
            ("te", "trailers"), *more]


class Connection:
    """A connection without rules."""

    def __init__(self, settings=None, preface=PREFACE):
        self.socket = socket.create_connection((HOST, int(PORT)), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.encoder, self.decoder = Encoder(), Decoder()
        self.data, self.frames, self.closed = b"", [], False
        frame = SettingsFrame(0)
        frame.settings = settings or {}
        self.write(preface + frame.serialize())

    def write(self, data):
        """Returns false if the server has closed the connection."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            self.closed = True
            return False

    def open(self, stream, fields=None, end=False, block=None, flags=("END_HEADERS",)):
        frame = HeadersFrame(stream)
        frame.data = self.encoder.encode(fields or headers()) if block is None else block
        frame.flags = set(flags) | ({"END_STREAM"} if end else set())
        return self.write(frame.serialize())

    def send(self, stream, data, end=False):
        frame = DataFrame(stream, data)
        frame.flags = {"END_STREAM"} if end else set()
        return self.write(frame.serialize())

    def read(self):
        """Returns the next frame, or None if the connection was closed."""
        while True:
            if len(self.data) >= 9:
                frame, length = Frame.parse_frame_header(memoryview(self.data[:9]))
                if len(self.data) >= 9 + length:
                    frame.parse_body(memoryview(self.data[9:9 + length]))
                    self.data = self.data[9 + length:]
                    if isinstance(frame, HeadersFrame):
                        frame.fields = dict(self.decoder.decode(frame.data))
                    return frame
            try:
                piece = self.socket.recv(65536)
            except socket.timeout:
                check(False, "neither a frame nor the end of the connection")
            except OSError:
                piece = b""
            if not piece:
                self.closed = True
                return None
            self.data += piece

    def greet(self):
        """Acknowledges the server's settings, which then hold."""
        while True:
            frame = self.read()
            check(frame is not None, "a connection is closed before it begins")
            if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
                self.write(SettingsFrame(0, flags=["ACK"]).serialize())
                return

    def response(self, stream):
        """Returns the headers, data and trailers of a response, or what ended the stream."""
        fields, data = {}, b""
        while True:
            frame = self.read()
            if frame is None or isinstance(frame, GoAwayFrame):
                return "closed", getattr(frame, "error_code", None), data
            if frame.stream_id != stream:
                continue
            if isinstance(frame, RstStreamFrame):
                return "reset", frame.error_code, data
            if isinstance(frame, HeadersFrame):
                fields.update(frame.fields)
            if isinstance(frame, DataFrame):
                data += frame.data
            if "END_STREAM" in frame.flags:
                return "ended", fields, data

    def status(self, stream):
        kind, fields, _ = self.response(stream)
        check(kind == "ended" and fields[":status"] == "200", (kind, fields))
        return int(fields["grpc-status"]), fields.get("grpc-message", "")

    def expect_end(self, codes=None):
        """The server closes the connection, with GOAWAY of one of the codes if it comes through."""
        while True:
            frame = self.read()
            if frame is None:
                return
            if isinstance(frame, GoAwayFrame) and codes:
                check(frame.error_code in codes, f"GOAWAY has code {frame.error_code}")


def good():
    """An honest client, by h2, is served."""
    s = socket.create_connection((HOST, int(PORT)), timeout=20)
    c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    c.initiate_connection()
    c.send_headers(1, headers())
    c.send_data(1, request(), end_stream=True)
    s.sendall(c.data_to_send())
    body, status = b"", None
    while status is None:
        piece = s.recv(65536)
        check(piece, "an honest connection is closed")
        for event in c.receive_data(piece):
            if isinstance(event, h2.events.DataReceived):
                body += event.data
            if isinstance(event, h2.events.TrailersReceived):
                status = dict(event.headers)[b"grpc-status" if isinstance(event.headers[0][0], bytes) else "grpc-status"]
            check(not isinstance(event, h2.events.StreamReset), "an honest call is reset")
        s.sendall(c.data_to_send())
    s.close()
    answer = pb.ModelInferResponse.FromString(body[5:])
    check(status in ("0", b"0") and struct.unpack("<2f", answer.raw_output_contents[0]) == (2, 4), (status, answer))


def case_http():
    """Requests that are no gRPC."""
    for fields, status in ((headers(method="GET"), "405"), (headers(content="application/json"), "415"),
                           (headers(content="application/grpc+json"), "415"), (headers(content="application/grpcx"), "415")):
        c = Connection()
        c.open(1, fields, end=True)
        kind, answer, _ = c.response(1)
        check(kind == "ended" and answer[":status"] == status, (fields, kind, answer))
    for content in ("application/grpc", "application/grpc+proto", "application/grpc;x=y"):
        c = Connection()
        c.open(1, headers(content=content))
        c.send(1, request(), end=True)
        check(c.status(1)[0] == 0, content)
    c = Connection(preface=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    c.expect_end()
    Connection(preface=b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64).expect_end()


def case_messages():
    """Messages that do not keep the rules of gRPC."""
    import zlib

    gzip = zlib.compressobj(wbits=31)
    packed = gzip.compress(request()[5:]) + gzip.flush()
    encoding = [("grpc-encoding", "gzip")]
    for more, data, code, part in (
            ((), b"", 12, "no message"), ((), request() * 2, 12, "several messages"), ((), request() + framed(b""), 12, "several"),
            ((), request()[:-3], 13, "within a message"), ((), request()[:3], 13, "within a message"),
            ((), b"\2" + request()[1:], 13, "flag of compression"), ((), framed(packed, 1), 13, "grpc-encoding"),
            (encoding, framed(packed, 1), 0, ""), (encoding, request(), 0, ""), (encoding, framed(packed[:-9], 1), 13, "end too early"),
            (encoding, framed(packed + b"x", 1), 13, "follow"), (encoding, framed(b"no gzip", 1), 13, "not valid"),
            (encoding, framed(b"", 1), 13, "end too early"), ([("grpc-encoding", "identity")], request(), 0, ""),
            ([("grpc-encoding", "brotli")], framed(b"x", 1), 12, "not supported"),
            ((), b"\0\xff\xff\xff\xff", 8, "limit"), ([("grpc-timeout", "5")], request(), 13, "grpc-timeout"),
            ([("grpc-timeout", "123456789m")], request(), 13, "grpc-timeout"), ([("grpc-timeout", "-1S")], request(), 13, "grpc-timeout"),
            ([("grpc-timeout", "0n")], request(), 4, "deadline"), ([("grpc-timeout", "99999999H")], request(), 0, ""),
            (encoding, framed(zlib.compress(b"\0" * 100_000_000), 1), 13, "not valid"),
            ([("grpc-encoding", "deflate")], framed(zlib.compress(b"\x7a\x80\x80\x80\x30" + b"\0" * 100_000_000), 1), 8, "limit")):
        c = Connection()
        c.open(1, headers(more=more))
        for i in range(0, len(data), 16384):
            c.send(1, data[i:i + 16384])
        c.send(1, b"", end=True)
        answer = c.status(1)
        check(answer[0] == code and part in answer[1], (more, data[:20], answer))
    # One byte in each frame.
    c = Connection()
    c.open(1)
    for byte in request():
        c.send(1, bytes([byte]))
    c.send(1, b"", end=True)
    check(c.status(1)[0] == 0, "a message of single bytes")
    # An error is answered before the end of the request, and the client is told to stop.
    c = Connection()
    c.open(1, headers(path="/none"))
    check(c.status(1)[0] == 12, "an unknown method")
    frame = c.read()
    check(isinstance(frame, RstStreamFrame) and frame.error_code == 0, frame)


def case_flow_control():
    """A client that does not read: its responses wait, and others are served."""
    c = Connection({SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    for stream in range(1, 61, 2):
        c.open(stream)
        c.send(stream, request(), end=True)
    good()
    for stream in range(1, 61, 2):
        c.write(WindowUpdateFrame(stream, window_increment=100000).serialize())
    ended = set()
    while len(ended) < 30:
        frame = c.read()
        check(frame is not None, "the connection of a slow reader is closed")
        if isinstance(frame, HeadersFrame) and "END_STREAM" in frame.flags:
            check(frame.fields["grpc-status"] == "0", frame.fields)
            ended.add(frame.stream_id)
    # Nor does it read the socket: large responses fill the buffers, and then wait in the server.
    c = Connection({SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1})
    c.greet()
    c.write(WindowUpdateFrame(0, window_increment=2**30).serialize())
    size = 1 << 20
    message = pb.ModelInferRequest(model_name="bytes", raw_input_contents=[bytes(size)])
    message.inputs.add(name="x", datatype="UINT8", shape=[size])
    data = framed(message.SerializeToString())
    for stream in range(1, 13, 2):
        c.open(stream)
        for i in range(0, len(data), 16384):
            c.send(stream, data[i:i + 16384], end=i + 16384 >= len(data))
        good()
    ended = set()
    while len(ended) < 6:
        frame = c.read()
        check(frame is not None, "the connection of a slow reader is closed")
        if "END_STREAM" in frame.flags:
            ended.add(frame.stream_id)


def case_slow():
    """A client that sends a byte at a time, and one that opens its window in small steps: others are served meanwhile."""
    c = Connection({SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    whole = HeadersFrame(1, c.encoder.encode(headers()), flags=["END_HEADERS"]).serialize()
    whole += DataFrame(1, request(), flags=["END_STREAM"]).serialize()
    for i, byte in enumerate(whole):
        check(c.write(bytes([byte])), "the connection of a slow sender is closed")
        if i % 50 == 0:
            good()
    c.greet()
    c.write(WindowUpdateFrame(1, window_increment=1).serialize() * 1000)
    check(c.status(1)[0] == 0, "a window of single bytes")
    # Updates of the connection's window have no answer and cost nothing; too many of them are no error.
    check(c.write(WindowUpdateFrame(0, window_increment=1).serialize() * 20000), "window updates")
    c.open(3)
    c.write(WindowUpdateFrame(3, window_increment=1000).serialize())
    c.send(3, request(), end=True)
    check(c.status(3)[0] == 0, "after window updates")


def case_unanswered():
    """A client that resets its calls while they run, or never sends the message: the others are served."""
    held = [Connection() for _ in range(5)]
    for c in held:
        for stream in range(1, 101, 2):
            c.open(stream)
            c.send(stream, request()[:-1] if stream % 4 == 1 else request(), end=stream % 4 == 3)
    good()
    for c in held:
        for stream in range(1, 101, 2):
            c.write(RstStreamFrame(stream, error_code=8).serialize())
    good()
    for c in held:
        c.open(101)
        c.send(101, request(), end=True)
        check(c.status(101)[0] == 0, "a call after resets")


def case_streams():
    """Many streams, half-open ones, and streams in wrong states."""
    c = Connection()
    for stream in range(1, 401, 2):
        c.open(stream)
    refused = 0
    while refused < 100:
        frame = c.read()
        if frame is None or isinstance(frame, GoAwayFrame):
            break
        if isinstance(frame, RstStreamFrame):
            check(frame.stream_id > 200 and frame.error_code == 7, frame)
            refused += 1
    good()
    c.socket.close()
    for what in ("data", "headers"):
        c = Connection()
        c.open(1)
        c.send(1, request(), end=True)
        check(c.status(1)[0] == 0, "a call")
        c.send(1, request()) if what == "data" else c.open(1)
        c.open(3)
        c.send(3, request(), end=True)
        kind, fields, _ = c.response(3)
        check(kind == "closed" or fields["grpc-status"] == "0", (what, kind, fields))
    for frames in (b"\0\0\1\0\0\0\0\0\0x", DataFrame(2, b"x").serialize(), DataFrame(5, b"x").serialize(),
                   HeadersFrame(2, b"", flags=["END_HEADERS"]).serialize(), WindowUpdateFrame(0, window_increment=2**31 - 1).serialize() * 2,
                   ContinuationFrame(1, b"x").serialize(), b"\xff\xff\xff\0\0\0\0\0\1", b"\0\0\x05\x06\0\0\0\0\0xxxxx",
                   b"\0\0\1\4\0\0\0\0\0x", b"\0\0\6\4\0\0\0\0\0\0\5\0\0\0\1"):
        c = Connection()
        c.write(frames)
        c.expect_end()
    c = Connection()
    c.open(1, block=b"\xff\xff\xff\xff\xff\xff\xff")
    c.expect_end()
    for fields in ([(":method", "POST")], headers() + [(":path", "/again")], headers(more=[("Upper", "x")]), headers(more=[("connection", "close")])):
        c = Connection()
        c.open(1, fields, end=True)
        kind, code, _ = c.response(1)
        check(kind == "reset", (fields, kind, code))


def flood(frames, codes, count=60000):
    """Sends frames until the server closes the connection."""
    c = Connection()
    c.socket.settimeout(20)
    for n in range(0, count, 500):
        if not c.write(b"".join(frames(c, i) for i in range(n, n + 500))):
            break
    c.expect_end(codes)


CALM = (11, 1, 0)


def case_floods():
    """Pings, settings, priorities, empty data, unknown frames, resets, and headers without an end."""
    flood(lambda c, i: PingFrame(0, b"12345678").serialize(), CALM)
    flood(lambda c, i: SettingsFrame(0).serialize(), CALM)
    flood(lambda c, i: PriorityFrame(1, depends_on=0, stream_weight=1).serialize(), CALM)
    # Frames of unknown types must be ignored.
    c = Connection()
    check(c.write(b"\0\0\1\x7f\0\0\0\0\1x" * 20000), "unknown frames")
    c.open(1)
    c.send(1, request(), end=True)
    check(c.status(1)[0] == 0, "after unknown frames")

    def empty(c, i):
        return (HeadersFrame(1, c.encoder.encode(headers()), flags=["END_HEADERS"]).serialize() if i == 0 else b"") + DataFrame(1, b"").serialize()

    flood(empty, None)

    def more_headers(c, i):
        return HeadersFrame(1, c.encoder.encode(headers())).serialize() if i == 0 else ContinuationFrame(1, b"\0\1a\1b" * 10).serialize()

    flood(more_headers, None)
    c = Connection()
    for stream in range(1, 40001, 2):
        reset = RstStreamFrame(stream, error_code=8).serialize()
        if not c.open(stream) or not c.write(reset):
            break
    check(c.closed or c.expect_end((11, 2)) is None, "rapid resets")


def case_headers():
    """Metadata beyond the limits."""
    c = Connection()
    c.open(1, headers(more=[("a", "b" * 14000)]))
    c.send(1, request(), end=True)
    check(c.status(1)[0] == 0, "headers of 14 KB")
    # A large header in the table, which is then repeated by an index.
    encoder = Encoder()
    fields = headers(more=[("a", "b" * 3000)])
    block = encoder.encode(fields)
    c = Connection()
    c.open(1, block=block + b"\xbe" * 10)
    c.send(1, request(), end=True)
    answer = c.status(1)
    check(answer[0] == 8 and "the limit is 16384" in answer[1], answer)
    c = Connection()
    c.open(1, block=block + b"\xbe" * 10000)
    c.expect_end()
    c = Connection()
    c.open(1, headers(path="/" + "p" * 5000), end=True)
    check(c.status(1)[0] == 12, "a long path")


def case_leaves():
    """Connections that end in the middle, each at another place."""
    whole = PREFACE + SettingsFrame(0).serialize() + HeadersFrame(1, Encoder().encode(headers()), flags=["END_HEADERS"]).serialize()
    whole += DataFrame(1, request(), flags=["END_STREAM"]).serialize()
    for length in range(1, len(whole), 7):
        s = socket.create_connection((HOST, int(PORT)), timeout=20)
        s.sendall(whole[:length])
        s.close()
    large = [framed(b"\x0a\x05bytes\x2a\x10\x0a\x01x\x12\x05UINT8\x1a\x04" + b"\x80\x80\x80\x10" + b"\x3a\x80\x80\x80\x10" + b"x" * 5000)]
    for data in large:
        c = Connection()
        c.open(1)
        c.write(DataFrame(1, b"\0\x02\0\0\x30" + data[5:]).serialize())
        c.socket.close()


def case_connections():
    """More connections than the limit of 20: the others are closed, and served again when there is room."""
    held = [Connection() for _ in range(40)]
    closed = sum(c.read() is None for c in held)
    check(20 <= closed < 40, f"{closed} of 40 connections are closed")
    for c in held:
        c.socket.close()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        c = Connection()
        if c.read() is not None:
            return
    check(False, "no connection is accepted any more")


for current in sys.argv[2:]:
    globals()["case_" + current]()
    good()

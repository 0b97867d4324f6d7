"""Talks to `xcvm serve` as its clients do, and as they should not: serve_client.py ADDRESS CASE [ARGUMENT...].
With the environment variable CA, a file of certificates, it speaks TLS.

Uses sockets and the standard library only, so that nothing repairs a request on its way.
"""
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time

HOST, PORT = sys.argv[1].rsplit(":", 1)
TLS = ssl.create_default_context(cafile=os.environ["CA"]) if "CA" in os.environ else None


class HalfClosed(ssl.SSLSocket):
    def shutdown(self, how):
        """Ends sending, and still reads TLS."""
        socket.socket.shutdown(self, how)


if TLS:
    TLS.sslsocket_class = HalfClosed


def connect():
    s = socket.create_connection((HOST, int(PORT)), timeout=20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return TLS.wrap_socket(s, server_hostname="localhost") if TLS else s


def read_response(s):
    """Returns status, headers and body, or None if the connection was closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(65536)
        if not piece:
            return None
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
    length = int(headers.get("content-length", 0))
    while len(body) < length:
        piece = s.recv(65536)
        if not piece:
            return None
        body += piece
    return int(lines[0].split()[1]), headers, body


def request(method, path, body=b"", headers=None, s=None):
    own = s is None
    s = s or connect()
    if isinstance(body, str):
        body = body.encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    for key, value in (headers or {}).items():
        head += f"{key}: {value}\r\n"
    s.sendall(head.encode() + b"\r\n" + body)
    response = read_response(s)
    if own:
        s.close()
    return response


def infer(model, inputs, headers=None, **more):
    return request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": inputs, **more}), headers)


def check(condition, what):
    if not condition:
        sys.exit(f"serve_client.py {sys.argv[2]}: {what}")


def statistics(model):
    return json.loads(request("GET", f"/v2/models/{model}/stats")[2])["model_stats"][0]


def x(data, shape=None, datatype="FP32", name="x", **more):
    return {"name": name, "shape": shape or [len(data)], "datatype": datatype, "data": data, **more}


def case_digits(images, expected):
    """JSON and binary results have the bits of `xcvm run`."""
    import numpy as np

    image, wanted = np.load(images), np.load(expected)
    tensor = {"name": "image", "shape": list(image.shape), "datatype": "FP32"}
    flat = [float(v) for v in image.ravel()]
    nested = image.tolist()
    for data in (flat, nested):
        status, headers, body = infer("digits", [{**tensor, "data": data}], id='q"1')
        answer = json.loads(body)
        check(status == 200, body)
        check(headers["content-type"] == "application/json", headers)
        check(answer["id"] == 'q"1' and answer["model_name"] == "digits" and answer["model_version"] == "1", answer)
        output = answer["outputs"][0]
        check(output["shape"] == list(wanted.shape) and output["datatype"] == "FP32", output)
        check(np.array(output["data"], np.float32).tobytes() == wanted.tobytes(), "JSON result has other bits")
    header = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": image.nbytes}}],
                         "outputs": [{"name": "probabilities", "parameters": {"binary_data": True}}]}).encode()
    status, headers, body = request("POST", "/v2/models/digits/versions/1/infer", header + image.tobytes(),
                                    {"Inference-Header-Content-Length": len(header)})
    check(status == 200, body)
    length = int(headers["inference-header-content-length"])
    output = json.loads(body[:length])["outputs"][0]
    check(output["parameters"]["binary_data_size"] == wanted.nbytes and "data" not in output, output)
    check(body[length:] == wanted.tobytes(), "binary result has other bits")


def case_types():
    """Types other than floats, strings, and states by sequence_id."""
    status, _, body = infer("texts", [x(["a", "b\u00e9"], datatype="BYTES")])
    check(status == 200 and json.loads(body)["outputs"][0]["data"] == ["ax", "b\u00e9x"], body)
    binary = struct.pack("<I", 1) + b"q" + struct.pack("<I", 0)
    header = json.dumps({"inputs": [{"name": "x", "shape": [2], "datatype": "BYTES",
                                     "parameters": {"binary_data_size": len(binary)}}],
                         "parameters": {"binary_data_output": True}}).encode()
    status, headers, body = request("POST", "/v2/models/texts/infer", header + binary,
                                    {"Inference-Header-Content-Length": len(header)})
    check(status == 200 and body.endswith(struct.pack("<I", 2) + b"qx" + struct.pack("<I", 1) + b"x"), body)

    def count(sequence, **more):
        status, _, body = infer("counts", [x([1, 1])], parameters={"sequence_id": sequence, **more})
        check(status == 200, body)
        return json.loads(body)["outputs"][0]["data"][0]

    check([count(7), count(7), count("other"), count(7)] == [11, 12, 11, 13], "states of sequences")
    check([count(0), count(0)] == [11, 11], "no sequence")
    check(count(7, sequence_start=True) == 11, "sequence_start")
    check(count(7, sequence_end=True) == 12 and count(7) == 11, "sequence_end")
    check(statistics("counts")["clients"] == 2, statistics("counts"))


BAD = [
    # status, part of the message, body of a request to "doubles" (x: f32[2])
    (400, "it is empty", ""),
    (400, "not valid", "{"),
    (400, "not valid", "[1,2"),
    (400, "not valid", "nonsense"),
    (400, "not an object", "[1,2]"),
    (400, 'no "inputs"', "{}"),
    (400, 'no "inputs"', '{"inputs":3}'),
    (400, 'input "x" is missing', '{"inputs":[]}'),
    (400, 'input 0 has no "name"', '{"inputs":[3]}'),
    (400, 'no input "y"', json.dumps({"inputs": [x([1, 2], name="y")]})),
    (400, 'given twice', json.dumps({"inputs": [x([1, 2]), x([1, 2])]})),
    (400, 'is not a datatype', json.dumps({"inputs": [x([1, 2], datatype="FLOAT")]})),
    (400, 'has datatype FP64; expected FP32', json.dumps({"inputs": [x([1, 2], datatype="FP64")]})),
    (400, 'dimension 0 is 3; expected 2', json.dumps({"inputs": [x([1, 2, 3])]})),
    (400, 'has 2 dimensions; expected 1', json.dumps({"inputs": [x([1, 2], shape=[1, 2])]})),
    (400, 'not a natural number', json.dumps({"inputs": [x([1, 2], shape=[-1])]})),
    (400, 'not a natural number', json.dumps({"inputs": [x([1, 2], shape=[2.5])]})),
    (400, 'no "shape"', '{"inputs":[{"name":"x","datatype":"FP32","data":[1,2]}]}'),
    (400, 'neither "data"', '{"inputs":[{"name":"x","datatype":"FP32","shape":[2]}]}'),
    (400, 'is not an array', '{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":1}]}'),
    (400, '1 elements; the shape has 2', json.dumps({"inputs": [x([1], shape=[2])]})),
    (400, 'more than 2 elements', json.dumps({"inputs": [x([1, 2, 3], shape=[2])]})),
    (400, '"NaN"; expected a number', json.dumps({"inputs": [x([1, float("nan")])]})),
    (400, 'FP32 can represent', '{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[1,1e39]}]}'),
    (400, 'FP32 can represent', json.dumps({"inputs": [x([1, 10**400])]})),
    (400, 'expected a number', json.dumps({"inputs": [x([1, "2"])]})),
    (400, 'expected a number', json.dumps({"inputs": [x([1, None])]})),
    (400, 'bytes of binary data are left', '{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]}'),
    (400, 'bytes of binary data are left', '{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":-1}}]}'),
    (400, 'no output "z"', json.dumps({"inputs": [x([1, 2])], "outputs": [{"name": "z"}]})),
    (400, '"outputs" is not an array', json.dumps({"inputs": [x([1, 2])], "outputs": 1})),
    (400, '"timeout" is not', json.dumps({"inputs": [x([1, 2])], "parameters": {"timeout": -1}})),
    (400, '"priority" is not', json.dumps({"inputs": [x([1, 2])], "parameters": {"priority": "high"}})),
    (400, '"sequence_id" is', json.dumps({"inputs": [x([1, 2])], "parameters": {"sequence_id": "s" * 200}})),
    (400, '"id" is not a string', json.dumps({"inputs": [x([1, 2])], "id": 1})),
    (400, 'nested more than', '{"a":' + "[" * 100 + "]" * 100 + "}"),
    (400, 'duplicate', '{"inputs":[],"inputs":[]}'),
    (400, 'not valid', '{"inputs":[{"name":"\ud800"}]}'.encode("utf-8", "surrogatepass")),
    (400, 'not valid', b'{"inputs":[{"name":"\xff"}]}'),
    (400, 'not valid', '{"inputs":[],}'),
]


def infer_binary(model, shape, size, data, name="x", s=None):
    """An input of FP32 as binary data, and the output as JSON."""
    tensor = {"name": name, "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": size}}
    header = json.dumps({"inputs": [tensor]}).encode()
    return request("POST", f"/v2/models/{model}/infer", header + data,
                   {"Inference-Header-Content-Length": len(header)}, s=s)


def case_bad_requests():
    """Each is refused with the fields of the protocol, on one connection that stays usable."""
    s = connect()
    for model, name, shape, size, data, part in (
            ("doubles", "x", [2], 4, b"1234", "have 8 bytes"),
            ("doubles", "x", [2], 9, b"123456789", "have 8 bytes"),
            ("doubles", "x", [2], 8, b"1234", "4 bytes of binary data are left"),
            ("doubles", "x", [2], 8, b"123456789", "belong to no input"),
            ("doubles", "x", [2], -1, b"12345678", "8 bytes of binary data are left"),
            ("digits", "image", [10**12, 1, 8, 8], 8, b"12345678", "have 256000000000000 bytes"),
            ("digits", "image", [2**62, 1, 8, 8], 8, b"12345678", "too large")):
        answer = infer_binary(model, shape, size, data, name, s)
        check(answer is not None and answer[0] == 400, f"{shape}, {size}: {answer}")
        check(part in json.loads(answer[2])["error"], answer)
    status, _, body = infer_binary("doubles", [2], 8, struct.pack("<2f", float("nan"), 1), s=s)
    check(status == 200 and json.loads(body)["outputs"][0]["data"] == [None, 2], body)
    for status, part, body in BAD:
        answer = request("POST", "/v2/models/doubles/infer", body, s=s)
        check(answer is not None, f"{body[:80]}: the connection was closed")
        check(answer[0] == status, f"{body[:80]}: status {answer[0]}: {answer[2]}")
        check(part in json.loads(answer[2])["error"], f"{body[:80]}: {answer[2]}")
    paths = [("GET", "/page", 404), ("GET", "//", 404), ("POST", "/", 405), ("POST", "/debug/trace", 405),
             ("GET", "/v2/models", 404), ("GET", "/v2/models/none", 404), ("PUT", "/v2", 405),
             ("GET", "/v2/models/doubles/infer", 405), ("POST", "/v2/models/none/infer", 404),
             ("POST", "/v2/models/doubles/versions/9/infer", 404), ("GET", "/v2/models/none/ready", 503),
             ("POST", "/v2/repository/models/none/load", 400), ("GET", "/v2/" + "a/" * 500, 404),
             ("POST", "/v2/models/" + "m" * 300 + "/infer", 404), ("GET", "/v2/models/%00", 404)]
    for method, path, status in paths:
        answer = request(method, path, s=s)
        check(answer is not None and answer[0] == status, f"{method} {path[:40]}: {answer}")
        if answer[2]:
            check("error" in json.loads(answer[2]), answer)
    for headers, status in (({"Content-Encoding": "gzip"}, 415), ({"Inference-Header-Content-Length": "9999"}, 400),
                            ({"Inference-Header-Content-Length": "-1"}, 400), ({"Inference-Header-Content-Length": "x"}, 400)):
        answer = infer("doubles", [x([1, 2])], headers)
        check(answer is not None and answer[0] == status, f"{headers}: {answer}")
    status, _, body = request("POST", "/v2/models/doubles/infer", json.dumps({"inputs": [x([1, 2])]}), s=s)
    check(status == 200 and json.loads(body)["outputs"][0]["data"] == [2, 4], body)


def case_bad_http():
    """Requests that are no HTTP are answered with an error or a closed connection, and others go on."""
    good = json.dumps({"inputs": [x([1, 2])]}).encode()
    for raw in (b"\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET /v2 HTTP/9.9\r\n\r\n",
                b"GET /v2 HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n", b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\n\r\n",
                b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n" + good,
                b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n" + good,
                b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + good,
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n"):
        s = connect()
        try:
            s.sendall(raw)
            s.shutdown(socket.SHUT_WR)
            answer = s.recv(65536)
            check(not answer or answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 5") or
                  answer.startswith(b"HTTP/1.0 4"), answer[:80])
        except socket.timeout:
            check(False, f"{raw[:40]}: neither an answer nor the end of the connection")
        except OSError:  # the server may have closed the connection before all was sent
            pass
        s.close()
        check(infer("doubles", [x([1, 2])])[0] == 200, f"after {raw[:40]}")
    # Each is refused for its own reason, and the connection is closed.
    post = b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\n"
    for status, raw in ((400, b"GET /v2 HTTP/1.1\r\n\r\n"), (400, b"GET /v2 HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
                        (400, b"GET /v2 HTTP/1.1\r\nHost : x\r\n\r\n"), (400, b"GET /v2 HTTP/1.1\nHost: x\n\n"),
                        (400, b"GET /v2 HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n"),
                        (400, b"GET /v2 HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n"),
                        (505, b"GET /v2 HTTP/2.0\r\nHost: x\r\n\r\n"), (400, b"GE T /v2 HTTP/1.1\r\nHost: x\r\n\r\n"),
                        (414, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
                        (431, b"GET /v2 HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20000 + b"\r\n\r\n"),
                        (431, b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100 + b"\r\n"),
                        (417, post + b"Expect: more\r\nContent-Length: 1\r\n\r\n"),
                        (501, post + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
                        (400, post + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
                        (400, post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
                        (400, post + b"Content-Length: +5\r\n\r\n"), (413, post + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n"),
                        (400, post + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcdeX\r\n"),
                        (400, post + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n")):
        s = connect()
        s.sendall(raw)
        answer = read_response(s)
        check(answer is not None and answer[0] == status, f"{raw[:80]}: {answer}")
        check("error" in json.loads(answer[2]) and answer[1]["connection"] == "close", f"{raw[:80]}: {answer}")
        check(s.recv(1) == b"", f"{raw[:80]}: the connection is open")
        s.close()
    # Forms of requests that other clients send.
    for raw in (b"\r\n\r\nGET /v2/health/live HTTP/1.1\r\nhOST:x\r\n\r\n", b"GET http://x/v2/health/live?a=b HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET /v2/%68ealth/live HTTP/1.1\r\nHost: \t x \r\n\r\n", b"GET /v2/health/live HTTP/1.0\r\n\r\n",
                b"HEAD /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"):
        s = connect()
        s.sendall(raw)
        data = s.recv(65536)
        check(data.startswith(b"HTTP/1.1 200 OK\r\n") and data.endswith(b"\r\n\r\n") == raw.startswith(b"HEAD"), f"{raw}: {data}")
        closes = raw.endswith(b"/1.0\r\n\r\n")
        check((b"Connection: close" in data) == closes and (not closes or s.recv(1) == b""), f"{raw}: {data}")
        s.close()
    # A client that waits before it sends the body.
    s = connect()
    s.sendall(post + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(good))
    check(s.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n", "100-continue")
    s.sendall(good)
    check(read_response(s)[0] == 200, "after 100-continue")
    # Chunked bodies are valid.
    s = connect()
    s.sendall(b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(good), 7):
        piece = good[i:i + 7]
        s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    s.sendall(b"0;last\r\nTrailer: x\r\n\r\n")
    check(read_response(s)[0] == 200, "chunked body")
    # Slow clients, one byte at a time, do not disturb others.
    s.sendall(b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(good))
    for i in range(len(good)):
        s.sendall(good[i:i + 1])
        if i % 40 == 0:
            check(infer("doubles", [x([1, 2])])[0] == 200, "beside a slow client")
    check(read_response(s)[0] == 200, "slow body")
    # Pipelined requests are answered in order.
    head = b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(good)
    s.sendall(head + good + b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    data = b""
    while data.count(b"HTTP/1.1 200") < 2:
        piece = s.recv(65536)
        check(piece, "pipelined requests")
        data += piece


def case_limits():
    """Bodies beyond the limit of 2000 bytes, with and without a length."""
    large = json.dumps({"inputs": [x([1, 2])], "id": "i" * 3000})
    status, _, body = request("POST", "/v2/models/doubles/infer", large)
    check(status == 413 and "the limit is 2000" in json.loads(body)["error"], body)
    s = connect()
    s.sendall(b"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(1000):
            s.sendall(b"400\r\n" + b"a" * 1024 + b"\r\n")
        answer = read_response(s)
        check(answer is None or answer[0] == 413, f"an endless body: {answer}")
    except ConnectionError:
        pass
    check(infer("doubles", [x([1, 2])])[0] == 200, "after a large body")


def case_busy():
    """One worker, a queue of one request: refusals, deadlines, and clients that leave."""
    body = json.dumps({"inputs": [x([1, 2])]}).encode()
    post = "POST /v2/models/{}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: " + str(len(body)) + "\r\n\r\n"

    def wait(model, key, value):
        end = time.monotonic() + 20
        while statistics(model)[key] != value:
            check(time.monotonic() < end, f"{model}: {key} is {statistics(model)[key]}, not {value}")
            time.sleep(0.002)

    busy = connect()
    busy.sendall(post.format("endless").encode() + body)
    wait("endless", "running", 1)
    waiting = connect()
    waiting.sendall(post.format("doubles").encode() + body)
    wait("doubles", "waiting", 1)
    status, headers, answer = request("POST", "/v2/models/doubles/infer", body)
    check(status == 429 and int(headers["retry-after"]) >= 1 and "limit of the queue" in json.loads(answer)["error"], answer)
    check(request("GET", "/v2/health/ready")[0] == 200, "health while busy")
    # A waiting client leaves, and then the running one.
    waiting.close()
    wait("doubles", "cancelled_count", 1)
    late = threading.Thread(target=lambda: results.append(
        infer("doubles", [x([1, 2])], parameters={"timeout": 50000})))
    results = []
    late.start()
    late.join()
    check(results[0][0] == 504 and "deadline" in json.loads(results[0][2])["error"], results)
    busy.close()
    wait("endless", "cancelled_count", 1)
    wait("endless", "running", 0)
    check(infer("doubles", [x([1, 2])])[0] == 200, "after clients that left")
    status, _, answer = infer("endless", [x([1, 2])], parameters={"timeout": 20000})
    # On a busy machine the deadline may pass before the run begins.
    check(status == 504 and json.loads(answer)["error"] in ("the deadline has passed", "the deadline passed in the queue"), answer)


def case_key(key):
    """Everything but health needs the key."""
    check(request("GET", "/v2/health/live")[0] == 200, "health without a key")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": key}, {"X-API-Key": key + "x"}):
        status, answered, _ = request("GET", "/v2", headers=headers)
        check(status == 401 and answered["www-authenticate"] == "Bearer", f"{headers}: {status}")
    check(request("GET", "/v2", headers={"Authorization": "Bearer " + key})[0] == 200, "with the key")
    check(request("GET", "/metrics", headers={"X-API-Key": key})[0] == 200, "with X-API-Key")
    check(request("POST", "/v2/repository/models/doubles/unload", headers={"X-API-Key": key})[0] == 403, "--no-admin")


def case_full_log():
    """Requests are answered although no line of the log can be written."""
    for _ in range(20):
        check(infer("doubles", [x([1, 2])])[0] == 200, "a request with a full disk")


def case_repository():
    """Load, unload and index."""
    check(json.loads(request("POST", "/v2/repository/index")[2])[0]["state"] == "READY", "index")
    check(request("POST", "/v2/repository/models/doubles/unload")[0] == 200, "unload")
    index = {m["name"]: m for m in json.loads(request("POST", "/v2/repository/index")[2])}
    check(index["doubles"]["state"] == "UNAVAILABLE" and index["doubles"]["reason"] == "unloaded", index)
    ready = json.loads(request("POST", "/v2/repository/index", '{"ready":true}')[2])
    check("doubles" not in [m["name"] for m in ready], ready)
    check(infer("doubles", [x([1, 2])])[0] == 404, "an unloaded model")
    check(request("GET", "/v2/models/doubles/ready")[0] == 503, "ready of an unloaded model")
    check(request("POST", "/v2/repository/models/doubles/load")[0] == 200, "load")
    check(infer("doubles", [x([1, 2])])[0] == 200, "a loaded model")


def case_load(seconds):
    """Requests until the server is gone; each that was sent is answered."""
    end = time.monotonic() + float(seconds)
    counts = [0] * 4

    def ask(index):
        s = connect()
        while time.monotonic() < end:
            try:
                answer = request("POST", "/v2/models/doubles/infer", json.dumps({"inputs": [x([1, 2])]}), s=s)
            except ConnectionError:
                return
            if answer is None:
                return
            if answer[0] != 200:
                counts[index] = -1
                return
            data = json.loads(answer[2])["outputs"][0]["data"]
            if data not in ([2, 4], [3, 6]):
                counts[index] = -1
                return
            counts[index] += 1
            if answer[1].get("connection", "").lower() == "close":
                return

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(counts))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(min(counts) > 0, counts)
    print(sum(counts))


globals()["case_" + sys.argv[2]](*sys.argv[3:])

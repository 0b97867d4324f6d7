"""A collector of OTLP/HTTP, and requests with trace contexts: trace_client.py ADDRESS PORT CASE.

The collector listens at PORT and behaves as CASE says. Facts of the OTLP format come from opentelemetry-proto 1.x.
"""
import http.server
import json
import sys
import threading
import time
import urllib.request

ADDRESS, PORT, CASE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=value,other=1"}
PHASES = ["receive", "decode", "queue", "batch", "run", "encode", "send"]
received, answers = [], []


def check(condition, what):
    if not condition:
        sys.exit(f"trace_client.py {CASE}: {what}")


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = answers.pop(0) if answers else "ok"
        if kind == "ok":
            received.append((self.path, dict(self.headers), json.loads(body)))
            self.answer(200, b"{}")
        elif kind == "partial":
            self.answer(200, b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}')
        elif kind == "garbage":
            self.wfile.write(b"\x00\xffSSH-2.0 nonsense\r\n\r\n" + b"x" * 200000)
        elif kind == "hang up":
            self.connection.close()
        elif kind == "silent":
            time.sleep(30)
        else:
            self.answer(int(kind), b"<html>", {"Retry-After": "0"})

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def listen():
    http.server.ThreadingHTTPServer.daemon_threads = True
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def get(path, headers=None, data=None):
    request = urllib.request.Request(f"http://{ADDRESS}{path}", data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def infer(headers=None, model="doubles", data=(1, 2), path="/v2/models/{}/infer"):
    tensor = {"name": "x", "shape": [len(data)], "datatype": "FP32", "data": data}
    return get(path.format(model), {"Content-Type": "application/json", **(headers or {})},
               json.dumps({"inputs": [tensor]}).encode())


def metric(name):
    text = get("/metrics")[2].decode()
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def wait_for(condition, what):
    end = time.monotonic() + 30
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.05)


def last_traces(condition, what, headers=None):
    """The events of the last traces once condition(events) holds. A trace is recorded after its response was sent."""
    events = []

    def there():
        status, said, body = get("/debug/trace", headers)
        check(status == 200 and said["Content-Type"] == "application/json", said)
        events[:] = [e for e in json.loads(body)["traceEvents"] if e["ph"] == "X"]
        return condition(events)

    wait_for(there, what)
    return events


def requests_of(events):
    return [e for e in events if e["cat"] == "Request"]


def spans():
    return [span for _, _, body in received for resource in body["resourceSpans"]
            for scope in resource["scopeSpans"] for span in scope["spans"]]


def attributes(item):
    kinds = {"stringValue": str, "intValue": int, "boolValue": bool}
    return {a["key"]: kinds[kind](value) for a in item["attributes"] for kind, value in a["value"].items()}


def case_spans():
    """Spans of a request: identifiers, times, attributes, and what the response says."""
    listen()
    begin = time.time_ns()
    status, headers, _ = infer(SAMPLED)
    check(status == 200, status)
    version, trace, span_id, flags = headers["Traceresponse"].split("-")
    check((version, trace, flags) == ("00", TRACE, "01"), headers)
    check("Traceresponse" not in infer()[1], "a request without a context is sampled")
    check("Traceresponse" not in infer({"traceparent": SAMPLED["traceparent"][:-1] + "0"})[1], "the flag is ignored")
    check(infer(SAMPLED, data=(1, 2, 3), path="/v2/models/{}/versions/1/infer")[0] == 400, "a bad request")
    wait_for(lambda: len(spans()) >= 11, "no spans")
    path, headers, body = received[0]
    check(path == "/v1/traces" and headers["Content-Type"] == "application/json", headers)
    resource = attributes(body["resourceSpans"][0]["resource"])
    check(resource["service.name"] == "tests" and resource["service.version"] and resource["service.instance.id"], resource)
    roots = [span for span in spans() if span["kind"] == 2]
    check(len(roots) == 2, [span["name"] for span in spans()])
    root = roots[0]
    check(root["traceId"] == TRACE and root["parentSpanId"] == PARENT and root["spanId"] == span_id, root)
    check(root["traceState"] == "vendor=value,other=1" and root["flags"] & 0x301 == 0x301, root)
    check(root["name"] == "POST /v2/models/{model}/infer" and "status" not in root, root)
    facts = attributes(root)
    wanted = {"http.request.method": "POST", "http.route": "/v2/models/{model}/infer", "url.path": "/v2/models/doubles/infer",
              "url.scheme": "http", "network.protocol.version": "1.1", "http.response.status_code": 200,
              "xcvm.model.name": "doubles", "xcvm.model.version": "1", "xcvm.response.sent": True}
    check(wanted.items() <= facts.items() and facts["http.request.body.size"] > 60, facts)
    children = [span for span in spans() if span.get("parentSpanId") == span_id]
    check([span["name"] for span in children] == PHASES, children)
    check(len({span["spanId"] for span in spans()}) == len(spans()), "spans share an identifier")
    check(all(span["kind"] == 1 and span["traceId"] == TRACE and span["traceState"] for span in children), children)
    times = [(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) for span in [root, *children]]
    check(all(begin <= start <= end <= time.time_ns() for start, end in times), times)
    check(all(times[0][0] <= start and end <= times[0][1] for start, end in times), times)
    check(all(a[1] <= b[0] for a, b in zip(times[1:], times[2:])), times)
    check(roots[1]["name"] == "POST /v2/models/{model}/versions/{version}/infer", roots[1])
    check(attributes(roots[1])["http.response.status_code"] == 400 and "status" not in roots[1], roots[1])
    wait_for(lambda: metric("xcvm_exported_spans_total") == len(spans()), "the metric of spans")
    wait_for(lambda: metric("xcvm_traces_total") == 2, "the metric of traces")
    check(metric("xcvm_dropped_spans_total") == 0, "metrics")


def case_chrome():
    """The last traces: instructions are inside of the run, which is inside of the request."""
    before = len(requests_of(last_traces(lambda _: True, "traces")))
    infer(SAMPLED)
    events = last_traces(lambda events: len(requests_of(events)) > before, "a trace of the request")
    last = max(e["tid"] for e in events)
    track = [e for e in events if e["tid"] == last]
    request = track[0]
    check(request["cat"] == "Request" and request["name"] == "doubles" and request["args"]["trace_id"] == TRACE, request)
    check([e["name"] for e in track if e["cat"] == "Phase"] == PHASES, track)
    check([e["name"] for e in track if e["cat"] == "Node"] == ["In", "Add", "Out"], track)

    def inside(inner, outer):
        return outer["ts"] <= inner["ts"] + 0.001 and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.001

    run = next(e for e in track if e["name"] == "run")
    check(all(inside(e, run) for e in track if e["cat"] == "Node"), track)
    check(all(inside(e, request) for e in track[1:]), track)


def case_headers():
    """Headers that are not valid are ignored; the request is served."""
    before = metric("xcvm_traces_total")
    for parent in ("", "00", "nonsense", SAMPLED["traceparent"].upper(), "00-" + "0" * 32 + f"-{PARENT}-01", "x" * 5000,
                   f"00-{TRACE}-{PARENT}-01-00", f"ff-{TRACE}-{PARENT}-01", "\u00e9".encode().decode("latin-1") * 55):
        status, headers, body = infer({"traceparent": parent})
        check(status == 200 and json.loads(body)["outputs"][0]["data"] == [2, 4], parent)
        check("Traceresponse" not in headers, parent)
    check(metric("xcvm_traces_total") == before, "a context that is not valid was used")
    for state in ("x" * 9000, ",".join(f"k{i}=1" for i in range(40)), "a=1,a=2", "=", ",,,", "<b>=<script>"):
        status, headers, _ = infer({**SAMPLED, "tracestate": state})
        check(status == 200 and headers["Traceresponse"].startswith(f"00-{TRACE}-"), state)


def case_failures():
    """A collector that fails in every way delays no request; what it does not accept is counted."""
    answers[:] = ["503", "garbage"]
    infer(SAMPLED)
    time.sleep(1.2)  # the first attempt finds no collector
    listen()
    wait_for(lambda: metric("xcvm_exported_spans_total") == 8, "a batch that was tried again")
    check(len(received) == 1 and not answers, received)
    answers[:] = ["hang up", "400"]
    infer(SAMPLED)
    wait_for(lambda: metric("xcvm_dropped_spans_total") == 8, "a refused batch")
    answers[:] = ["partial"]
    infer(SAMPLED)
    wait_for(lambda: metric("xcvm_dropped_spans_total") == 11, "a partial success")
    answers[:] = ["silent"]
    infer(SAMPLED)
    wait_for(lambda: not answers, "a slow collector")
    for _ in range(600):
        check(infer(SAMPLED)[0] == 200, "a request while the collector is slow")
    wait_for(lambda: metric('xcvm_dropped_spans_total{reason="queue_full"}') == 88 * 8, "the queue has a bound")


def case_key(key="a-key-of-many-characters"):
    """Traces need the key; the files of the page have no data and need none."""
    allowed = {"Authorization": f"Bearer {key}"}
    check(infer(SAMPLED)[0] == 401, "a request without the key")
    check(get("/debug/trace")[0] == 401 and get("/debug/trace", {"Authorization": "Bearer x"})[0] == 401, "no key")
    status, _, body = get("/debug/trace", allowed)
    check(status == 200 and b"Request" not in body, "a request without the key is traced")
    check(infer({**SAMPLED, **allowed})[0] == 200, "a request with the key")
    traced = requests_of(last_traces(requests_of, "a trace of the request with the key", allowed))
    check([e["args"]["trace_id"] for e in traced] == [TRACE], traced)
    for path in ("/", "/page.js", "/page.css"):
        status, headers, _ = get(path)
        check(status == 200 and "default-src 'none'" in headers["Content-Security-Policy"], path)


globals()["case_" + CASE]()

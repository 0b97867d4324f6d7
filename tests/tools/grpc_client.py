"""Talks gRPC to `xcvm serve` with Debian's python3-grpcio: grpc_client.py ADDRESS CASE [ARGUMENT...].

With the environment variable CA, a file of certificates, it speaks TLS. Messages are classes that protoc makes of the service definitions; PYTHONPATH has their directory.
"""
import json
import os
import struct
import sys
import threading
import time
import urllib.request

import grpc
import inference_pb2 as pb

ADDRESS = sys.argv[1]
SERVICE = "/inference.GRPCInferenceService/"


def connect(**options):
    options = list(options.items())
    if "CA" not in os.environ:
        return grpc.insecure_channel(ADDRESS, options=options)
    with open(os.environ["CA"], "rb") as f:
        credentials = grpc.ssl_channel_credentials(f.read())
    return grpc.secure_channel(ADDRESS, credentials, options=options)


channel = connect()


def method(name, on=None):
    return (on or channel).unary_unary(SERVICE + name, request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
                                       response_deserializer=getattr(pb, name + "Response").FromString)


def call(name, message=None, timeout=20, metadata=None, on=None, compression=None):
    request = message if message is not None else getattr(pb, name + "Request")()
    return method(name, on)(request, timeout=timeout, metadata=metadata, compression=compression)


def check(condition, what):
    if not condition:
        sys.exit(f"grpc_client.py {sys.argv[2]}: {what}")


def fails(code, part, name, message=None, **options):
    """The call must fail with the code and a message that contains `part`."""
    try:
        answer = call(name, message, **options)
    except grpc.RpcError as e:
        check(e.code() == code and part in e.details(), f"{code}, {part}: {e.code()}, {e.details()}")
        return
    check(False, f"{code}, {part}: {str(answer)[:200]}")


def infer_request(model, *inputs, raw=(), **fields):
    """Inputs are (name, datatype, shape, field, values); field None: the elements are in `raw`."""
    request = pb.ModelInferRequest(model_name=model, **fields)
    for name, datatype, shape, field, values in inputs:
        tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
        if field:
            getattr(tensor.contents, field).extend(values)
    request.raw_input_contents.extend(raw)
    return request


def x(values, shape=None, datatype="FP32", field="fp32_contents", name="x"):
    return (name, datatype, shape if shape is not None else [len(values)], field, values)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def case_metadata():
    check(call("ServerLive").live and call("ServerReady").ready, "live and ready")
    server = call("ServerMetadata")
    check(server.name == "xcvm" and server.version and "sequence" in server.extensions, server)
    check(call("ModelReady", pb.ModelReadyRequest(name="doubles")).ready, "doubles is ready")
    check(call("ModelReady", pb.ModelReadyRequest(name="doubles", version="1")).ready, "version 1 is ready")
    for request in (pb.ModelReadyRequest(name="none"), pb.ModelReadyRequest(name="doubles", version="9")):
        check(not call("ModelReady", request).ready, request)
    digits = call("ModelMetadata", pb.ModelMetadataRequest(name="digits"))
    check(digits.name == "digits" and digits.versions == ["1"] and digits.platform == "xcvm_program", digits)
    check(digits.inputs[0].name == "image" and digits.inputs[0].datatype == "FP32" and
          digits.inputs[0].shape == [-1, 1, 8, 8], digits)
    check(digits.outputs[0].name == "probabilities" and digits.outputs[0].shape == [-1, 10], digits)
    fails(grpc.StatusCode.NOT_FOUND, 'no model "none" is ready', "ModelMetadata", pb.ModelMetadataRequest(name="none"))


def case_digits(images, expected):
    """Raw and typed results have the bits of `xcvm run`."""
    import numpy as np

    image, wanted = np.load(images), np.load(expected)
    raw = infer_request("digits", ("image", "FP32", image.shape, None, ()), raw=[image.tobytes()], id='q"\u00e9')
    for compression in (None, grpc.Compression.Gzip, grpc.Compression.Deflate):
        answer = call("ModelInfer", raw, compression=compression)
        output = answer.outputs[0]
        check(answer.id == 'q"\u00e9' and answer.model_name == "digits" and answer.model_version == "1", answer)
        check(output.name == "probabilities" and output.datatype == "FP32" and output.shape == list(wanted.shape), output)
        check(list(answer.raw_output_contents) == [wanted.tobytes()], f"raw result has other bits ({compression})")
    typed = infer_request("digits", ("image", "FP32", image.shape, "fp32_contents", image.ravel().tolist()))
    answer = call("ModelInfer", typed)
    check(not answer.raw_output_contents, "the result of typed contents is raw")
    check(np.array(answer.outputs[0].contents.fp32_contents, np.float32).tobytes() == wanted.tobytes(),
          "typed result has other bits")


TYPES = [  # datatype, program's type, format, field, values
    ("BOOL", "bool", "?", "bool_contents", [True, False]),
    ("UINT8", "u8", "B", "uint_contents", [0, 255]), ("UINT16", "u16", "H", "uint_contents", [0, 65535]),
    ("UINT32", "u32", "I", "uint_contents", [0, 2**32 - 1]), ("UINT64", "u64", "Q", "uint64_contents", [0, 2**64 - 1]),
    ("INT8", "i8", "b", "int_contents", [-128, 127]), ("INT16", "i16", "h", "int_contents", [-32768, 32767]),
    ("INT32", "i32", "i", "int_contents", [-2**31, 2**31 - 1]), ("INT64", "i64", "q", "int64_contents", [-2**63, 2**63 - 1]),
    ("FP32", "f32", "f", "fp32_contents", [-0.0, float("inf")]), ("FP64", "f64", "d", "fp64_contents", [1e-320, -2.5]),
    ("FP16", "f16", "e", None, [1.5, -2]), ("BF16", "bf16", "H", None, [0x3f80, 0xffff]),
]


def case_types():
    """Every datatype, raw and typed; strings; states by sequence_id."""
    for datatype, model, code, field, values in TYPES:
        raw = struct.pack(f"<2{code}", *values)
        answer = call("ModelInfer", infer_request(model, x(values, datatype=datatype, field=None), raw=[raw]))
        check(answer.outputs[0].datatype == datatype and list(answer.raw_output_contents) == [raw], (datatype, answer))
        if field is None:
            request = infer_request(model, x(values, datatype=datatype, field="uint_contents" if code == "H" else "fp32_contents"
                                             ) if code == "e" else x([1, 2], datatype=datatype, field="uint_contents"))
            fails(grpc.StatusCode.INVALID_ARGUMENT, f"{datatype} has no typed contents", "ModelInfer", request)
            continue
        answer = call("ModelInfer", infer_request(model, x(values, datatype=datatype, field=field)))
        check(list(getattr(answer.outputs[0].contents, field)) == values, (datatype, answer))
    strings = [b"a", "b\u00e9".encode()]
    answer = call("ModelInfer", infer_request("texts", x(strings, datatype="BYTES", field="bytes_contents")))
    check(list(answer.outputs[0].contents.bytes_contents) == [s + b"x" for s in strings], answer)
    raw = struct.pack("<I", 1) + b"q" + struct.pack("<I", 0)
    answer = call("ModelInfer", infer_request("texts", x(strings, datatype="BYTES", field=None), raw=[raw]))
    check(list(answer.raw_output_contents) == [struct.pack("<I", 2) + b"qx" + struct.pack("<I", 1) + b"x"], answer)
    check(call("ModelInfer", infer_request("empty", x([], [0]))).outputs[0].shape == [0], "an empty tensor")

    def count(sequence, **flags):
        request = infer_request("counts", x([1, 1]))
        if isinstance(sequence, str):
            request.parameters["sequence_id"].string_param = sequence
        else:
            request.parameters["sequence_id"].int64_param = sequence
        for name, value in flags.items():
            request.parameters[name].bool_param = value
        return call("ModelInfer", request).outputs[0].contents.fp32_contents[0]

    check([count(7), count(7), count("other"), count(7)] == [11, 12, 11, 13], "states of sequences")
    check([count(0), count(0)] == [11, 11], "no sequence")
    check(count(7, sequence_start=True) == 11, "sequence_start")
    check(count(7, sequence_end=True) == 12 and count(7) == 11, "sequence_end")


def case_bad_requests():
    """Each is refused with the status of the protocol, on one connection that stays usable."""
    invalid, good = grpc.StatusCode.INVALID_ARGUMENT, infer_request("doubles", x([1, 2]))

    def parameter(name, **value):
        request = infer_request("doubles", x([1, 2]))
        for kind, number in value.items():
            setattr(request.parameters[name], kind, number)
        return request

    for part, request in (
            ('no "model_name"', pb.ModelInferRequest()),
            ('input "x" is missing', infer_request("doubles")),
            ('input 0 has no "name"', infer_request("doubles", x([1, 2], name=""))),
            ('no input "y\u00e9"', infer_request("doubles", x([1, 2], name="y\u00e9"))),
            ("given twice", infer_request("doubles", x([1, 2]), x([1, 2]))),
            ('no "datatype"', infer_request("doubles", x([1, 2], datatype=""))),
            ('"FLOAT" is not a datatype', infer_request("doubles", x([1, 2], datatype="FLOAT"))),
            ("has datatype FP64; expected FP32", infer_request("doubles", x([1, 2], datatype="FP64", field="fp64_contents"))),
            ("dimension 0 is 3; expected 2", infer_request("doubles", x([1, 2, 3]))),
            ("has 2 dimensions; expected 1", infer_request("doubles", x([1, 2], [1, 2]))),
            ("more than 8 dimensions", infer_request("doubles", x([1, 2], [1] * 9))),
            ("is negative", infer_request("doubles", x([1, 2], [-1]))),
            ('1 elements; the shape has 2', infer_request("doubles", x([1], [2]))),
            ("more than 2 elements", infer_request("doubles", x([1, 2, 3], [2]))),
            ('belong into "fp32_contents"', infer_request("doubles", x([1, 2], field="int_contents"))),
            ('has neither "contents" nor', infer_request("doubles", x([], [2], field=None))),
            ("element 1 is 300; INT8 has 8 bits", infer_request("i8", x([1, 300], datatype="INT8", field="int_contents"))),
            ("element 0 is 256; UINT8 has 8 bits", infer_request("u8", x([256, 1], datatype="UINT8", field="uint_contents"))),
            ("have 4 bytes; the shape and datatype have 8", infer_request("doubles", x([1, 2], field=None), raw=[b"1234"])),
            ("have 9 bytes", infer_request("doubles", x([1, 2], field=None), raw=[b"123456789"])),
            ("more \"raw_input_contents\" than inputs", infer_request("doubles", x([1, 2], field=None), raw=[b"12345678"] * 2)),
            ('both "contents" and "raw', infer_request("doubles", x([1, 2]), raw=[b"12345678"])),
            ("neither 0 nor 1", infer_request("bool", x([0, 1], datatype="BOOL", field=None), raw=[b"\0\2"])),
            ("do not have 2 strings", infer_request("texts", x([0, 1], datatype="BYTES", field=None), raw=[b"\1\0\0\0a\5\0\0\0"])),
            ("fewer strings", infer_request("texts", x([0, 1], datatype="BYTES", field=None), raw=[b"\1\0\0\0"])),
            ("have 256000000000000", infer_request("digits", ("image", "FP32", [10**12, 1, 8, 8], None, ()), raw=[b"12345678"])),
            ("too large", infer_request("digits", ("image", "FP32", [2**62, 1, 8, 8], None, ()), raw=[b"12345678"])),
            ("fewer elements", infer_request("digits", ("image", "FP32", [10**12, 1, 8, 8], "fp32_contents", [1]))),
            ('"timeout" is not', parameter("timeout", int64_param=-1)),
            ('"priority" is not', parameter("priority", string_param="high")),
            ('"sequence_id" is', parameter("sequence_id", string_param="s" * 200)),
            ('"sequence_start" is not a boolean', parameter("sequence_start", int64_param=1)),
            ('"id" has', infer_request("doubles", x([1, 2]), id="i" * 5000)),
            ('no output "z"', infer_request("doubles", x([1, 2]), outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="z")])),
            ("contains a NUL", infer_request("doubles\0x", x([1, 2])))):
        fails(invalid, part, "ModelInfer", request)
    fails(grpc.StatusCode.NOT_FOUND, 'no model "n%\u00e9\n" is ready', "ModelInfer", infer_request("n%\u00e9\n", x([1, 2])))
    fails(grpc.StatusCode.NOT_FOUND, 'version 9 is ready', "ModelInfer", infer_request("doubles", x([1, 2]), model_version="9"))
    whole = good.SerializeToString()
    for broken in (b"\xff", whole[:-1], whole + b"\x2a", b"\x0b" + whole, b"\0\0" + whole, whole + b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                   whole.replace(b"\x22", b"\x22", 1)[:20]):
        fails(grpc.StatusCode.INTERNAL, "", "ModelInfer", broken)
    fails(grpc.StatusCode.INTERNAL, "", "ModelReady", b"\x0a\x05ab")
    # Fields in another order, unknown fields, and numbers that are not packed.
    name, rest = pb.ModelInferRequest(model_name="doubles").SerializeToString(), infer_request("", x([1, 2], field=None)).SerializeToString()
    raw = pb.ModelInferRequest(raw_input_contents=[floats(1, 2)]).SerializeToString()
    unpacked = b"\x2a\x11\x0a\x01x\x12\x04FP32\x18\x02\x2a\x04\x35" + floats(1) # cut below
    unpacked = b"\x0a\x01x\x12\x04FP32\x18\x02" + b"\x2a\x0a\x35" + floats(1) + b"\x35" + floats(2)
    unpacked = b"\x2a" + bytes([len(unpacked)]) + unpacked
    for message in (name + rest + raw, rest + raw + name, raw + rest + name, raw + name + rest, rest + name + raw,
                    b"\x78\x01" + name + b"\xa2\x06\x03abc" + unpacked + b"\x7d1234\x7912345678", b"\x10\x07" + whole):
        answer = call("ModelInfer", message)
        values = list(answer.outputs[0].contents.fp32_contents) or list(struct.unpack("<2f", answer.raw_output_contents[0]))
        check(values == [2, 4], (message, answer))
    fails(invalid, "in the order of their numbers", "ModelInfer", whole + pb.ModelInferRequest(model_name="triples").SerializeToString())
    check(call("ModelInfer", good).outputs[0].contents.fp32_contents == [2, 4], "after bad requests")
    stub = channel.unary_unary(SERVICE + "ModelTrain", request_serializer=bytes, response_deserializer=bytes)
    try:
        stub(b"", timeout=20)
        check(False, "an unknown method is served")
    except grpc.RpcError as e:
        check(e.code() == grpc.StatusCode.UNIMPLEMENTED and "ModelTrain" in e.details(), e)


def case_large():
    """Tensors of several megabytes in both directions, many at once, with the bits that were sent."""
    import os

    size = 3 << 20
    results = []

    def one(seed):
        raw = os.urandom(size)
        raw = bytes(raw)
        request = infer_request("bytes", x([], [size], datatype="UINT8", field=None), raw=[raw])
        on = connect(**{"grpc.max_receive_message_length": 1 << 26})
        results.append(call("ModelInfer", request, on=on, compression=grpc.Compression.Gzip if seed == 3 else None,
                            timeout=60).raw_output_contents[0] == raw)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(results == [True] * 6, results)


def case_limits():
    """Messages beyond the limit of 2000 bytes, also after decompression."""
    request = infer_request("doubles", x([1, 2]), id="i" * 3000)
    for compression in (None, grpc.Compression.Gzip):
        fails(grpc.StatusCode.RESOURCE_EXHAUSTED, "limit of 2000 bytes", "ModelInfer", request, compression=compression)
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, "limit of 2000 bytes", "ModelInfer", request)
    check(call("ModelInfer", infer_request("doubles", x([1, 2]))).outputs[0].contents.fp32_contents == [2, 4], "after a large message")


def case_key(key):
    denied = grpc.StatusCode.UNAUTHENTICATED
    check(call("ServerLive").live and call("ServerReady").ready, "health checks need no key")
    request = infer_request("doubles", x([1, 2]))
    for metadata in (None, [("authorization", "Bearer wrong")], [("authorization", key)], [("authorization", f"Bearer {key}x")],
                     [("x-api-key", "wrong")]):
        fails(denied, "the API key is missing or wrong", "ModelInfer", request, metadata=metadata)
    fails(denied, "API key", "ServerMetadata")
    for metadata in ([("authorization", f"Bearer {key}")], [("x-api-key", key)]):
        check(call("ModelInfer", request, metadata=metadata).outputs[0].contents.fp32_contents == [2, 4], metadata)


def case_traces(rest):
    """Metadata carry the trace context; the trace of a call has its phases and instructions."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = ("traceparent", f"00-{trace}-b7ad6b7169203331-01")

    def infer(*metadata):
        answer, made = method("ModelInfer").with_call(infer_request("doubles", x([1, 2])), timeout=20, metadata=metadata)
        check(answer.outputs[0].contents.fp32_contents == [2, 4], metadata)
        return dict(made.initial_metadata()).get("traceresponse")

    check(infer() is None, "a call without a context is traced")
    check(infer((parent[0], parent[1][:-1] + "0")) is None, "the flag is ignored")
    for bad in ("nonsense", parent[1].upper(), "x" * 3000, ""):
        check(infer(("traceparent", bad)) is None, bad)
    check(infer(parent, parent) is None, "two parents")
    for state in ("a=1,b=2", "x" * 3000, ",".join(f"k{i}=1" for i in range(40)), "a=1,a=2"):
        check(infer(("tracestate", state), parent).startswith(f"00-{trace}-"), state)
    events, requests = [], []

    def four_traces():
        with urllib.request.urlopen(f"http://{rest}/debug/trace", timeout=20) as response:
            events[:] = [e for e in json.load(response)["traceEvents"] if e["ph"] == "X"]
        requests[:] = [e for e in events if e["cat"] == "Request"]
        return len(requests) >= 4

    wait_for(four_traces, "four traces")  # each is recorded after its response was sent
    check(len(requests) == 4 and all(e["args"]["trace_id"] == trace and e["args"]["status"] == 0 for e in requests), requests)
    track = [e for e in events if e["tid"] == requests[-1]["tid"]]
    check([e["name"] for e in track if e["cat"] == "Phase"] ==
          ["receive", "decode", "queue", "batch", "run", "encode", "send"], track)
    check([e["name"] for e in track if e["cat"] == "Node"] == ["In", "Add", "Out"], track)


def wait_for(condition, what):
    end = time.monotonic() + 20
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.002)


def case_busy(rest):
    """One worker, a queue of one request: refusals, deadlines, and calls that are cancelled."""
    import json
    import urllib.request

    def statistics(model):
        with urllib.request.urlopen(f"http://{rest}/v2/models/{model}/stats", timeout=20) as answer:
            return json.load(answer)["model_stats"][0]

    endless, doubles = infer_request("endless", x([1, 2])), infer_request("doubles", x([1, 2]))
    infer = method("ModelInfer")
    busy = infer.future(endless, timeout=20)
    wait_for(lambda: statistics("endless")["running"] == 1, "the endless model runs")
    waiting = infer.future(doubles, timeout=20)
    wait_for(lambda: statistics("doubles")["waiting"] == 1, "a request waits")
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, "limit of the queue", "ModelInfer", doubles)
    check(call("ServerReady").ready, "health while busy")
    waiting.cancel()
    wait_for(lambda: statistics("doubles")["cancelled_count"] == 1, "a waiting request is cancelled")
    busy.cancel()
    wait_for(lambda: statistics("endless")["cancelled_count"] == 1, "a running request is cancelled")
    check(call("ModelInfer", doubles).outputs[0].contents.fp32_contents == [2, 4], "after cancellations")
    # The deadline of grpc-timeout, by the client's clock and by the server's.
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, "", "ModelInfer", endless, timeout=0.2)
    wait_for(lambda: statistics("endless")["running"] == 0, "the run ends at the deadline")
    limited = infer_request("endless", x([1, 2]))
    limited.parameters["timeout"].int64_param = 100000
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline", "ModelInfer", limited)
    # A connection that ends cancels its requests.
    own = connect(**{"grpc.use_local_subchannel_pool": 1})
    leaving = method("ModelInfer", own).future(endless, timeout=20)
    wait_for(lambda: statistics("endless")["running"] == 1, "the endless model runs again")
    own.close()
    wait_for(lambda: statistics("endless")["running"] == 0, "the end of a connection cancels")
    del leaving


def case_health():
    """Check and Watch. The script ends the server after "watching" is printed, and the watches see it."""
    import health_pb2 as health

    serializers = {"request_serializer": health.HealthCheckRequest.SerializeToString,
                   "response_deserializer": health.HealthCheckResponse.FromString}
    ask = channel.unary_unary("/grpc.health.v1.Health/Check", **serializers)
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", **serializers)
    for service in ("", "inference.GRPCInferenceService", "grpc.health.v1.Health"):
        check(ask(health.HealthCheckRequest(service=service), timeout=20).status == health.HealthCheckResponse.SERVING, service)
    try:
        ask(health.HealthCheckRequest(service="none"), timeout=20)
        check(False, "an unknown service is healthy")
    except grpc.RpcError as e:
        check(e.code() == grpc.StatusCode.NOT_FOUND, e)
    short = watch(health.HealthCheckRequest(), timeout=0.3)
    check(next(short).status == health.HealthCheckResponse.SERVING, "a short watch")
    try:
        next(short)
        check(False, "a watch has a second status")
    except grpc.RpcError as e:
        check(e.code() == grpc.StatusCode.DEADLINE_EXCEEDED, e)
    watches = [watch(health.HealthCheckRequest(service=service), timeout=60) for service in ("", "inference.GRPCInferenceService", "none")]
    for w, status in zip(watches, ("SERVING", "SERVING", "SERVICE_UNKNOWN")):
        check(health.HealthCheckResponse.ServingStatus.Name(next(w).status) == status, status)
    print("watching", flush=True)
    for w in watches[:2]:
        check(next(w).status == health.HealthCheckResponse.NOT_SERVING, "a watch of a server that ends")
    check(not call("ServerReady", on=connect(**{"grpc.use_local_subchannel_pool": 1})).ready, "ready while it drains")
    print("drained", flush=True)
    for w in watches:
        try:
            next(w)
            check(False, "a watch goes on")
        except grpc.RpcError as e:
            check(e.code() == grpc.StatusCode.UNAVAILABLE, e)


def without_json_names(container):
    """Clears the names that JSON has, which descriptors of the Python library lack."""
    for message in container.message_type if hasattr(container, "message_type") else container.nested_type:
        for field in message.field:
            field.ClearField("json_name")
        without_json_names(message)


def case_reflection():
    """Services, files and symbols, as the definitions have them."""
    import inference_pb2
    import reflection_pb2
    import reflection_v1alpha_pb2
    from google.protobuf import descriptor_pb2

    names = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
             "inference.GRPCInferenceService"]
    for module, version in ((reflection_pb2, "v1"), (reflection_v1alpha_pb2, "v1alpha")):
        info = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                     request_serializer=module.ServerReflectionRequest.SerializeToString,
                                     response_deserializer=module.ServerReflectionResponse.FromString)
        Request = module.ServerReflectionRequest
        found = ["inference.proto", "inference", "ModelInferRequest", "ModelInferRequest.InferInputTensor",
                 "ModelInferRequest.InferInputTensor.shape", "GRPCInferenceService", "GRPCInferenceService.ModelInfer",
                 "InferParameter.parameter_choice", "ModelReadyRequest.name"]
        requests = [Request(host="h", list_services="*"), Request(file_by_filename=found[0])]
        requests += [Request(file_containing_symbol=f"inference.{name}") for name in found[2:]]
        requests += [Request(file_containing_symbol="grpc.health.v1.HealthCheckResponse.SERVING"),
                     Request(all_extension_numbers_of_type="inference.ModelReadyRequest")]
        missing = [Request(file_by_filename="none.proto"), Request(file_containing_symbol="inference.Model"),
                   Request(file_containing_symbol="inference"), Request(file_containing_symbol="inference.GRPCInferenceService.Mode"),
                   Request(file_containing_symbol=""), Request(all_extension_numbers_of_type="inference.None"),
                   Request(file_containing_extension=module.ExtensionRequest(containing_type="x", extension_number=1)), Request()]
        answers = list(info(iter(requests + missing), timeout=20))
        check(len(answers) == len(requests + missing), len(answers))
        for request, answer in zip(requests + missing, answers):
            check(answer.original_request == request and answer.valid_host == request.host, answer)
        check(sorted(s.name for s in answers[0].list_services_response.service) == names, answers[0])
        wanted = descriptor_pb2.FileDescriptorProto()
        inference_pb2.DESCRIPTOR.CopyToProto(wanted)
        for answer in answers[1:len(found)]:
            got = descriptor_pb2.FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])
            without_json_names(got)
            check(got == wanted, answer)
        check(b"HealthCheckResponse" in answers[len(found)].file_descriptor_response.file_descriptor_proto[0], "health")
        check(answers[len(found) + 1].all_extension_numbers_response.base_type_name == "inference.ModelReadyRequest", "extensions")
        for answer in answers[len(requests):-1]:
            check(answer.error_response.error_code == 5, answer)
        check(answers[-1].error_response.error_code == 3, answers[-1])


def case_load():
    """Calls on several threads until the server goes away. Accepted ones complete; others fail with UNAVAILABLE."""
    request = infer_request("doubles", x([1, 2]))
    done, failed, stop = [0], [], threading.Event()

    def work():
        infer = method("ModelInfer", connect(**{"grpc.use_local_subchannel_pool": 1, "grpc.enable_retries": 0}))
        while not stop.is_set():
            try:
                if list(infer(request, timeout=20).outputs[0].contents.fp32_contents) != [2, 4]:
                    failed.append("wrong result")
                done[0] += 1
            except grpc.RpcError as e:
                if e.code() != grpc.StatusCode.UNAVAILABLE:
                    failed.append(f"{e.code()}: {e.details()}")
                stop.set()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    print("begun", flush=True)
    for t in threads:
        t.join(60)
    check(not failed and done[0] > 10, (done, failed[:3]))


globals()["case_" + sys.argv[2]](*sys.argv[3:])

"""The interface of ONNX Runtime: a table of names, argument forms, exceptions, and programs as they are.

Where the real onnxruntime is installed, the table is compared with it as well.
"""

import importlib
import importlib.util
import json
import os
import pathlib
import pickle
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper
from support import DIGITS, python

import xcvm.onnxruntime as ort
from xcvm.onnxruntime.capi import onnxruntime_pybind11_state as state

MODEL = str(DIGITS / "model.onnx")

# Names by tier, as programs use them (the first tier serves three quarters of the programs).
TABLE = {
    "": """InferenceSession SessionOptions get_available_providers set_default_logger_severity get_device __version__
        GraphOptimizationLevel ExecutionMode ExecutionOrder RunOptions NodeArg ModelMetadata OrtValue IOBinding OrtDevice
        OrtAllocatorType OrtMemType OrtMemoryInfo get_all_providers disable_telemetry_events enable_telemetry_events preload_dlls
        get_build_info get_version_string set_seed set_default_logger_verbosity capi""",
    "InferenceSession": """run get_inputs get_outputs get_providers set_providers get_provider_options get_modelmeta
        get_session_options get_overridable_initializers run_async run_with_iobinding run_with_ort_values io_binding
        end_profiling get_profiling_start_time_ns disable_fallback enable_fallback""",
    "SessionOptions": """add_session_config_entry get_session_config_entry add_free_dimension_override_by_name
        add_initializer add_external_initializers register_custom_ops_library""",
    "RunOptions": "add_run_config_entry get_run_config_entry",
    "OrtValue": """ortvalue_from_numpy ortvalue_from_shape_and_type numpy update_inplace device_name shape data_type element_type
        data_ptr has_value is_tensor is_sparse_tensor is_tensor_sequence""",
    "IOBinding": """bind_cpu_input bind_input bind_ortvalue_input bind_output bind_ortvalue_output get_outputs
        copy_outputs_to_cpu clear_binding_inputs clear_binding_outputs synchronize_inputs synchronize_outputs""",
    "GraphOptimizationLevel": "ORT_DISABLE_ALL ORT_ENABLE_BASIC ORT_ENABLE_EXTENDED ORT_ENABLE_ALL",
    "ExecutionMode": "ORT_SEQUENTIAL ORT_PARALLEL",
    "capi.onnxruntime_pybind11_state": """InvalidArgument Fail InvalidGraph NotImplemented NoSuchFile InvalidProtobuf RuntimeException
        NoModel EPFail""",
}
OPTIONS = {
    "SessionOptions": """enable_cpu_mem_arena enable_mem_pattern enable_mem_reuse enable_profiling execution_mode execution_order
        graph_optimization_level inter_op_num_threads intra_op_num_threads log_severity_level log_verbosity_level logid
        optimized_model_filepath profile_file_prefix use_deterministic_compute""",
    "RunOptions": "log_severity_level log_verbosity_level logid only_execute_path_to_fetches terminate training_mode",
}


def find(module, path):
    for part in path.split(".") if path else []:
        module = getattr(module, part)
    return module


def check_table(test, module):
    for path, names in TABLE.items():
        for name in names.split():
            with test.subTest(f"{path}.{name}"):
                test.assertTrue(hasattr(find(module, path), name))
    for path, names in OPTIONS.items():
        options = find(module, path)()
        for name in names.split():
            with test.subTest(f"{path}.{name}"):
                setattr(options, name, getattr(options, name))


def model_of(nodes, inputs, outputs, initializers=(), opset=13, **options):
    graph = helper.make_graph(nodes, "graph of a test", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **options)


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


class Table(unittest.TestCase):
    def test_every_name_is_there(self):
        check_table(self, ort)

    @unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "onnxruntime is not installed")
    def test_every_name_is_in_onnxruntime(self):
        check_table(self, importlib.import_module("onnxruntime"))

    def test_unknown_attributes_and_wrong_types(self):
        options = ort.SessionOptions()
        with self.assertRaises(AttributeError):
            options.no_such_option = 1
        with self.assertRaises(TypeError):
            options.intra_op_num_threads = "two"
        with self.assertRaisesRegex(RuntimeError, "SessionOptions does not have configuration with key: k"):
            options.get_session_config_entry("k")
        options.add_session_config_entry("k", "v")
        self.assertEqual(options.get_session_config_entry("k"), "v")
        self.assertEqual(int(ort.GraphOptimizationLevel.ORT_ENABLE_ALL), 99)

    def test_what_is_out_of_scope_is_refused_by_name(self):
        for name in ("ModelCompiler", "LoraAdapter", "SparseTensor"):
            with self.assertRaisesRegex(NotImplementedError, f"onnxruntime.{name}"):
                getattr(ort, name)
        with self.assertRaises(NotImplementedError):
            ort.SessionOptions().register_custom_ops_library("x.so")
        with self.assertRaises(AttributeError):
            ort.no_such_name


class Sessions(unittest.TestCase):
    def setUp(self):
        self.session = ort.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
        self.x = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
        (self.y,) = self.session.run(None, {"image": self.x})

    def test_forms_of_models_and_arguments(self):
        data = pathlib.Path(MODEL).read_bytes()
        for model in (MODEL, pathlib.Path(MODEL), data):
            for providers in (None, [], ["CPUExecutionProvider"], [("CPUExecutionProvider", {"arena": "0"})]):
                session = ort.InferenceSession(model, providers=providers)
                np.testing.assert_array_equal(session.run([], {"image": self.x})[0], self.y)
        session = ort.InferenceSession(MODEL, ort.SessionOptions(), ["CPUExecutionProvider"], [{}])
        self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])
        self.assertEqual(session.get_provider_options(), {"CPUExecutionProvider": {}})
        self.assertIsInstance(self.y, np.ndarray)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(session_without_options())).run(None, {"image": self.x})[0], self.y)

    def test_unknown_providers_warn(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ort.InferenceSession(MODEL, providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"])
        self.assertEqual(len(caught), 1)
        self.assertIn("Specified provider 'CUDAExecutionProvider' is not in available provider names", str(caught[0].message))
        self.assertEqual(caught[0].filename, __file__)

    def test_inputs_and_outputs(self):
        (x,), (y,) = self.session.get_inputs(), self.session.get_outputs()
        self.assertEqual((x.name, x.type, x.shape), ("image", "tensor(float)", ["batch", 1, 8, 8]))
        self.assertEqual((y.name, y.type, y.shape), ("probabilities", "tensor(float)", ["batch", 10]))
        self.assertEqual(str(x), "NodeArg(name='image', type='tensor(float)', shape=['batch', 1, 8, 8])")

    def test_type_strings(self):
        expected = {
            TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double", TensorProto.FLOAT16: "float16", TensorProto.INT8: "int8",
            TensorProto.UINT8: "uint8", TensorProto.INT16: "int16", TensorProto.UINT16: "uint16", TensorProto.INT32: "int32",
            TensorProto.UINT32: "uint32", TensorProto.INT64: "int64", TensorProto.UINT64: "uint64", TensorProto.BOOL: "bool",
            TensorProto.STRING: "string", TensorProto.BFLOAT16: "bfloat16",
        }  # fmt: skip
        for number, name in expected.items():
            with self.subTest(name):
                model = model_of([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", [None, 2], number)], [tensor("y", None, number)])
                session = ort.InferenceSession(model.SerializeToString())
                self.assertEqual((session.get_inputs()[0].type, session.get_inputs()[0].shape), (f"tensor({name})", [None, 2]))

    def test_sequences(self):
        sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
        model = model_of([helper.make_node("SequenceConstruct", ["x", "x"], ["s"])], [tensor("x", [2])], [sequence])
        session = ort.InferenceSession(model.SerializeToString())
        self.assertEqual(session.get_outputs()[0].type, "seq(tensor(float))")
        (result,) = session.run(None, {"x": np.ones(2, np.float32)})
        self.assertEqual([item.tolist() for item in result], [[1, 1], [1, 1]])

    def test_exceptions(self):
        cases = [
            ({}, None, ValueError, r"Required inputs \(\['image'\]\) are missing from input feed \(\[\]\)"),
            ({"image": self.x, "z": self.x}, None, state.InvalidArgument, "Invalid input name: z"),
            ({"image": self.x.astype("f8")}, None, state.InvalidArgument,
             r"\[ONNXRuntimeError\] : 2 : INVALID_ARGUMENT : Unexpected input data type. Actual: \(tensor\(double\)\) , "
             r"expected: \(tensor\(float\)\)"),
            ({"image": self.x[0]}, None, state.InvalidArgument, "Invalid rank for input: image Got: 3 Expected: 4"),
            ({"image": self.x[:, :, :4]}, None, state.InvalidArgument, "index: 2 Got: 4 Expected: 8"),
            ({"image": self.x}, ["none"], state.InvalidArgument, "Invalid output name:none"),
        ]  # fmt: skip
        for feed, names, kind, message in cases:
            with self.subTest(message), self.assertRaisesRegex(kind, message):
                self.session.run(names, feed)

    def test_exceptions_of_loading(self):
        with self.assertRaisesRegex(state.NoSuchFile, "failed. File doesn't exist"):
            ort.InferenceSession("/nowhere.onnx")
        with self.assertRaises(state.InvalidProtobuf):
            ort.InferenceSession(b"\xff\xff\xff no model")
        with self.assertRaises(TypeError):
            ort.InferenceSession(3)
        unknown = model_of([helper.make_node("NoSuchOperator", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])
        with self.assertRaises((state.NotImplemented, state.InvalidGraph, state.Fail)):
            ort.InferenceSession(unknown.SerializeToString())

    def test_defaults_of_inputs(self):
        weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [10, 20])
        model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [tensor("x", [2]), tensor("w", [2])], [tensor("y", [2])], [weight])
        session = ort.InferenceSession(model.SerializeToString())
        self.assertEqual([item.name for item in session.get_inputs()], ["x"])
        self.assertEqual([item.name for item in session.get_overridable_initializers()], ["w"])
        x = np.ones(2, np.float32)
        self.assertEqual(session.run(None, {"x": x})[0].tolist(), [11, 21])
        self.assertEqual(session.run(None, {"x": x, "w": x})[0].tolist(), [2, 2])
        options = ort.SessionOptions()
        options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(x))
        self.assertEqual(ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0].tolist(), [2, 2])

    def test_metadata(self):
        model = onnx.load(MODEL)
        model.model_version, model.domain, model.doc_string = 7, "d", "about"
        model.metadata_props.add(key="stride", value="32")
        meta = ort.InferenceSession(model.SerializeToString()).get_modelmeta()
        self.assertEqual((meta.version, meta.domain, meta.description, meta.graph_name), (7, "d", "about", model.graph.name))
        self.assertEqual((meta.producer_name, meta.custom_metadata_map), (model.producer_name, {"stride": "32"}))

    def test_options_with_effect(self):
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.add_free_dimension_override_by_name("batch", 3)
        with tempfile.TemporaryDirectory() as folder:
            options.optimized_model_filepath = f"{folder}/optimized.onnx"
            options.enable_profiling = True
            options.profile_file_prefix = f"{folder}/profile"
            session = ort.InferenceSession(MODEL, options)
            self.assertEqual(session.get_inputs()[0].shape, [3, 1, 8, 8])
            np.testing.assert_allclose(session.run(None, {"image": self.x})[0], self.y, rtol=1e-4, atol=1e-6)
            events = json.loads(pathlib.Path(session.end_profiling()).read_text())["traceEvents"]
            self.assertTrue(any("Conv" in event["name"] for event in events))
            optimized = ort.InferenceSession(options.optimized_model_filepath).run(None, {"image": self.x})[0]
            np.testing.assert_allclose(optimized, self.y, rtol=1e-4, atol=1e-6)
        run_options = ort.RunOptions()
        run_options.terminate = True
        with self.assertRaisesRegex(state.Fail, "terminate flag"):
            self.session.run(None, {"image": self.x}, run_options)

    def test_values_and_bindings(self):
        value = ort.OrtValue.ortvalue_from_numpy(self.x)
        self.assertEqual((value.device_name(), value.shape(), value.data_type()), ("cpu", [3, 1, 8, 8], "tensor(float)"))
        self.assertTrue(value.is_tensor() and value.has_value() and value.element_type() == 1)
        (result,) = self.session.run_with_ort_values(None, {"image": value})
        np.testing.assert_array_equal(result.numpy(), self.y)
        for bind in (
            lambda b: b.bind_cpu_input("image", self.x),
            lambda b: b.bind_ortvalue_input("image", value),
            lambda b: b.bind_input("image", "cpu", 0, np.float32, self.x.shape, self.x.ctypes.data),
        ):
            binding = self.session.io_binding()
            bind(binding)
            target = np.zeros((3, 10), np.float32)
            binding.bind_output("probabilities", "cpu", 0, np.float32, target.shape, target.ctypes.data)
            self.session.run_with_iobinding(binding)
            np.testing.assert_array_equal(target, self.y)
            binding.clear_binding_outputs()
            binding.bind_output("probabilities")
            self.session.run_with_iobinding(binding)
            np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], self.y)
            own = ort.OrtValue.ortvalue_from_shape_and_type([3, 10], np.float32)
            binding.bind_ortvalue_output("probabilities", own)
            self.session._sess.run_with_iobinding(binding._iobinding)
            np.testing.assert_array_equal(own.numpy(), self.y)
            np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), self.y)
        with self.assertRaises(RuntimeError):
            binding.bind_input("image", "cuda", 0, np.float32, self.x.shape, 0)
        with self.assertRaises(RuntimeError):
            binding.bind_cpu_input("none", self.x)

    def test_asynchronous_runs(self):
        done, results = threading.Event(), []
        self.session.run_async(None, {"image": self.x}, lambda *args: (results.append(args), done.set()), "mine")
        self.assertTrue(done.wait(30))
        outputs, user, error = results[0]
        np.testing.assert_array_equal(outputs[0], self.y)
        self.assertEqual((user, error), ("mine", ""))

    def test_many_threads(self):
        failures = []

        def work(seed):
            x = np.random.default_rng(seed).random((seed + 1, 1, 8, 8), np.float32)
            expected = ort.InferenceSession(MODEL).run(None, {"image": x})[0]
            for _ in range(50):
                if not np.array_equal(self.session.run(None, {"image": x})[0], expected):
                    failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


def session_without_options():
    return ort.InferenceSession(MODEL)


PROGRAM = """
import importlib.util, sys
assert importlib.util.find_spec("onnxruntime") is not None
import onnxruntime
import onnxruntime as ort
from onnxruntime import InferenceSession
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile
import onnxruntime.capi.onnxruntime_pybind11_state as state
try:
    InferenceSession(sys.argv[1] + ".none")
except NoSuchFile:
    print(type(InferenceSession(sys.argv[1])).__name__, state.NoSuchFile is NoSuchFile, __name__, len(sys.argv))
"""


class Programs(unittest.TestCase):
    def test_a_program_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "neighbor.py").write_text("x = 1\n")
            path = pathlib.Path(folder, "program.py")
            path.write_text("import neighbor\n" + PROGRAM)
            code = "import runpy, sys; sys.argv = ['m'] + sys.argv[1:]; runpy.run_module('xcvm.onnxruntime', run_name='__main__', alter_sys=True)"
            done = python(code, str(path), MODEL)
            self.assertEqual((done.stdout, done.stderr), ("InferenceSession True __main__ 2\n", ""))

    def test_install(self):
        done = python("import xcvm.onnxruntime; xcvm.onnxruntime.install()\n" + PROGRAM, MODEL)
        self.assertEqual((done.stdout, done.stderr), ("InferenceSession True __main__ 2\n", ""))
        done = python("import sys, types; sys.modules['onnxruntime'] = types.ModuleType('o')\nimport xcvm.onnxruntime as o; o.install()")
        self.assertIn("onnxruntime is imported already", done.stderr)


if __name__ == "__main__":
    unittest.main()

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
        OrtAllocatorType OrtMemType OrtMemoryInfo OrtArenaCfg SessionIOBinding get_all_providers disable_telemetry_events
        enable_telemetry_events preload_dlls get_build_info get_version_string set_seed set_default_logger_verbosity capi
        create_and_register_allocator create_and_register_allocator_v2 has_collective_ops package_name version cuda_version""",
    "InferenceSession": """run get_inputs get_outputs get_providers set_providers get_provider_options get_modelmeta
        get_session_options get_overridable_initializers run_async run_with_iobinding run_with_ort_values
        run_with_ortvaluevector io_binding get_tuning_results set_tuning_results end_profiling get_profiling_start_time_ns disable_fallback enable_fallback""",
    "SessionOptions": """add_session_config_entry get_session_config_entry add_free_dimension_override_by_name
        add_initializer add_external_initializers register_custom_ops_library add_free_dimension_override_by_denotation
        add_external_initializers_from_files_in_memory add_provider add_provider_for_devices has_providers
        set_load_cancellation_flag set_provider_selection_policy set_provider_selection_policy_delegate""",
    "RunOptions": "add_run_config_entry get_run_config_entry add_active_adapter",
    "OrtDevice": "make device_id device_type",
    "NodeArg": "name type shape",
    "OrtValue": """ortvalue_from_numpy ortvalue_from_shape_and_type numpy update_inplace device_name shape data_type element_type
        data_ptr has_value is_tensor is_sparse_tensor is_tensor_sequence ortvalue_from_numpy_with_onnx_type as_sparse_tensor
        ort_value_from_sparse_tensor to_dlpack __dlpack__ __dlpack_device__""",
    "IOBinding": """bind_cpu_input bind_input bind_ortvalue_input bind_output bind_ortvalue_output get_outputs
        get_outputs_as_ortvaluevector copy_outputs_to_cpu clear_binding_inputs clear_binding_outputs synchronize_inputs synchronize_outputs""",
    "GraphOptimizationLevel": "ORT_DISABLE_ALL ORT_ENABLE_BASIC ORT_ENABLE_EXTENDED ORT_ENABLE_ALL",
    "ExecutionMode": "ORT_SEQUENTIAL ORT_PARALLEL",
    "ExecutionOrder": "DEFAULT PRIORITY_BASED MEMORY_EFFICIENT",
    "OrtAllocatorType": "INVALID ORT_DEVICE_ALLOCATOR ORT_ARENA_ALLOCATOR",
    "OrtMemType": "CPU_INPUT CPU_OUTPUT CPU DEFAULT",
    "capi.onnxruntime_pybind11_state": """InvalidArgument Fail InvalidGraph NotImplemented NoSuchFile InvalidProtobuf RuntimeException
        NoModel EPFail EngineError ModelLoaded ModelLoadCanceled ModelRequiresCompilation NotFound InferenceSession SessionIOBinding
        SessionOptions RunOptions OrtValue OrtValueVector OrtDevice OrtMemoryInfo NodeArg ModelMetadata get_default_session_options
        get_available_providers get_device""",
    "capi.onnxruntime_pybind11_state.InferenceSession": """run run_with_iobinding run_with_ort_values run_with_ortvaluevector run_async
        initialize_session inputs_meta outputs_meta model_meta overridable_initializers session_options end_profiling get_providers
        get_provider_options get_profiling_start_time_ns get_tuning_results set_tuning_results""",
    "capi.onnxruntime_pybind11_state.SessionIOBinding": """bind_input bind_ortvalue_input bind_output bind_ortvalue_output get_outputs
        copy_outputs_to_cpu clear_binding_inputs clear_binding_outputs synchronize_inputs synchronize_outputs""",
    "capi.onnxruntime_pybind11_state.OrtValue": """from_dlpack ortvalue_from_numpy ortvalue_from_shape_and_type
        ortvalue_from_shape_and_onnx_type ortvalue_from_numpy_with_onnx_type tensor_size_in_bytes numpy shape""",
    "capi.onnxruntime_pybind11_state.OrtValueVector": """push_back reserve shrink_to_fit bool_tensor_indices dlpack_at element_type_at
        to_dlpacks __getitem__ __iter__ __len__""",
    "capi.onnxruntime_pybind11_state.OrtDevice": "cpu cuda dml npu default_memory device_id device_type mem_type vendor_id",
    "capi.onnxruntime_inference_collection": "InferenceSession Session IOBinding OrtValue OrtDevice",
}
# Exceptions, with the numbers and words in their texts.
EXCEPTIONS = """1 FAIL Fail, 2 INVALID_ARGUMENT InvalidArgument, 3 NO_SUCHFILE NoSuchFile, 4 NO_MODEL NoModel, 5 ENGINE_ERROR EngineError,
    6 RUNTIME_EXCEPTION RuntimeException, 7 INVALID_PROTOBUF InvalidProtobuf, 8 MODEL_LOADED ModelLoaded, 9 NOT_IMPLEMENTED NotImplemented,
    10 INVALID_GRAPH InvalidGraph, 11 EP_FAIL EPFail, 12 MODEL_LOAD_CANCELED ModelLoadCanceled,
    13 MODEL_REQUIRES_COMPILATION ModelRequiresCompilation, 14 NOT_FOUND NotFound"""
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
        # Debian has no onnxruntime, so that this half is for those who have installed it.
        if importlib.util.find_spec("onnxruntime"):
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
        for name in ("ModelCompiler", "LoraAdapter", "AdapterFormat", "SparseTensor", "OrtSparseFormat", "get_ep_devices"):
            with self.assertRaisesRegex(NotImplementedError, f"onnxruntime.{name}"):
                getattr(ort, name)
        with self.assertRaises(NotImplementedError):
            ort.SessionOptions().register_custom_ops_library("x.so")
        with self.assertRaises(AttributeError):
            ort.no_such_name


    def test_exception_classes(self):
        for entry in EXCEPTIONS.split(","):
            number, word, name = entry.split()
            kind = getattr(state, name)
            self.assertEqual(kind.__mro__[2:], (Exception, BaseException, object))
            self.assertEqual(str(kind.of("text")), f"[ONNXRuntimeError] : {number} : {word} : text")

    def test_enumerations(self):
        level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        self.assertEqual((str(level), repr(level)), ("GraphOptimizationLevel.ORT_ENABLE_EXTENDED", "<GraphOptimizationLevel.ORT_ENABLE_EXTENDED: 2>"))
        self.assertEqual((level.name, level.value, int(level), ort.GraphOptimizationLevel(2)), ("ORT_ENABLE_EXTENDED", 2, 2, level))
        self.assertEqual(list(ort.ExecutionMode.__members__), ["ORT_SEQUENTIAL", "ORT_PARALLEL"])
        self.assertIs(ort.OrtMemType.CPU, ort.OrtMemType.CPU_OUTPUT)

    def test_defaults_and_types_of_options(self):
        options, run = ort.SessionOptions(), ort.RunOptions()
        expected = dict(
            enable_cpu_mem_arena=True, enable_mem_pattern=True, enable_mem_reuse=True, enable_profiling=False, inter_op_num_threads=0,
            intra_op_num_threads=0, execution_mode=ort.ExecutionMode.ORT_SEQUENTIAL, log_severity_level=-1, log_verbosity_level=0, logid="",
            graph_optimization_level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL, optimized_model_filepath="", use_deterministic_compute=False,
            profile_file_prefix="onnxruntime_profile_", execution_order=ort.ExecutionOrder.DEFAULT, use_per_session_threads=True,
        )  # fmt: skip
        self.assertEqual({name: getattr(options, name) for name in expected}, expected)
        self.assertEqual((run.terminate, run.only_execute_path_to_fetches, run.logid), (False, False, ""))
        for name, wrong in [("graph_optimization_level", 99), ("execution_mode", 0), ("intra_op_num_threads", 1.5), ("logid", 3)]:
            with self.subTest(name), self.assertRaises(TypeError):
                setattr(options, name, wrong)
        options.enable_profiling = 1
        self.assertIs(options.enable_profiling, True)
        with self.assertRaises(AttributeError):
            ort.InferenceSession(MODEL).get_inputs()[0].name = "other"


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

    def test_wrong_providers(self):
        cases = [
            (3, None, "'providers' should be a sequence."),
            ([3], None, "'providers' values must be either strings or (string, dict) tuples."),
            ([("CPUExecutionProvider", 3)], None, "'providers' values must be either strings or (string, dict) tuples."),
            (["CPUExecutionProvider"], 3, "'provider_options' should be a sequence."),
            (["CPUExecutionProvider"], [], "'providers' and 'provider_options' should be the same length if both are given."),
            (["CPUExecutionProvider"], [3], "'provider_options' values must be dicts."),
            ([("CPUExecutionProvider", {})], [{}], "Only string values for 'providers' are supported if 'provider_options' is given."),
        ]
        for providers, options, message in cases:
            with self.subTest(message), self.assertRaises(ValueError) as raised:
                ort.InferenceSession(MODEL, providers=providers, provider_options=options)
            self.assertEqual(str(raised.exception), message)
        with self.assertWarnsRegex(UserWarning, "Duplicate provider 'CPUExecutionProvider' encountered, ignoring."):
            self.session.set_providers(["CPUExecutionProvider"] * 2)

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
            ({"image": self.x}, ["none"], state.InvalidArgument, "Invalid output name: none"),
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
            events = json.loads(pathlib.Path(session.end_profiling()).read_text())
            nodes = [event for event in events if event["cat"] == "Node"]
            self.assertTrue(any(event["args"]["op_name"] == "Conv" for event in nodes))
            self.assertTrue(all({"pid", "tid", "dur", "ts", "ph", "name", "args"} <= set(event) for event in events))
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

    def test_the_extension_modules_classes(self):
        native = self.session._sess
        self.assertIsInstance(native, state.InferenceSession)
        self.assertEqual([item.name for item in native.inputs_meta + native.outputs_meta], ["image", "probabilities"])
        self.assertEqual((native.model_meta.domain, native.get_providers()), ("", ["CPUExecutionProvider"]))
        np.testing.assert_array_equal(native.run(["probabilities"], {"image": self.x}, None)[0], self.y)
        device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
        value = state.OrtValue.ortvalue_from_numpy(self.x, device)
        outputs = native.run_with_ort_values({"image": value}, ["probabilities"], None)
        self.assertIsInstance(outputs, state.OrtValueVector)
        np.testing.assert_array_equal(ort.OrtValue(outputs[0]).numpy(), self.y)
        vector = state.OrtValueVector()
        self.session.run_with_ortvaluevector(ort.RunOptions(), ["image"], [value], ["probabilities"], vector, [device])
        np.testing.assert_array_equal(vector[0].numpy(), self.y)
        self.assertEqual((len(vector), vector.element_type_at(0), vector.bool_tensor_indices()), (1, 1, []))
        binding = state.SessionIOBinding(native)
        binding.bind_input("image", device, np.float32, self.x.shape, self.x.ctypes.data)
        binding.bind_output("probabilities", device)
        native.run_with_iobinding(binding, None)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], self.y)
        made = state.InferenceSession(state.get_default_session_options(), MODEL, True, False)
        made.initialize_session([], [], set())
        np.testing.assert_array_equal(made.run(["probabilities"], {"image": self.x}, None)[0], self.y)
        self.assertEqual((ort.OrtDevice.make("cpu", 0).device_type(), ort.OrtDevice.make("cpu", 2).device_id()), (0, 2))
        for wrong in (lambda: ort.OrtValue(self.x), lambda: ort.OrtDevice("cpu")):
            with self.assertRaises(ValueError):
                wrong()

    def test_types_without_numpys(self):
        model = model_of([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", [2], 16)], [tensor("y", [2], 16)])
        session = ort.InferenceSession(model.SerializeToString())
        bits = np.array([0x3F80, 0xC000], np.uint16)
        value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
        self.assertEqual((value.data_type(), value.element_type()), ("tensor(bfloat16)", 16))
        np.testing.assert_array_equal(session.run(None, {"x": value})[0], bits)
        self.assertEqual(ort.OrtValue.ortvalue_from_shape_and_type([2, 3], TensorProto.BFLOAT16).data_type(), "tensor(bfloat16)")
        with self.assertRaises(RuntimeError):
            ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.FLOAT)

    def test_terminate_ends_a_run(self):
        # A loop of 2^40 rounds.
        body = helper.make_graph(
            [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["a", "a"], ["b"])], "body",
            [tensor("i", [], 7), tensor("c", [], 9), tensor("a", [1])], [tensor("d", [], 9), tensor("b", [1])],
        )  # fmt: skip
        loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
        session = ort.InferenceSession(model_of([loop], [tensor("n", [], 7), tensor("x", [1])], [tensor("y", [1])]).SerializeToString())
        options, failures = ort.RunOptions(), []

        def run():
            try:
                session.run(None, {"n": np.array(1 << 40), "x": np.zeros(1, np.float32)}, options)
            except state.Fail as error:
                failures.append(str(error))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(options._running) < 2:
            pass
        options.terminate = True
        for thread in threads:
            thread.join(60)
        self.assertEqual(failures, ["[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true."] * 2)
        options.terminate = False
        self.assertEqual(session.run(None, {"n": np.array(3), "x": np.ones(1, np.float32)}, options)[0].tolist(), [8])

    def test_cancelled_loading(self):
        options = ort.SessionOptions()
        options.set_load_cancellation_flag(True)
        with self.assertRaises(state.ModelLoadCanceled):
            ort.InferenceSession(MODEL, options)

    def test_overrides_by_denotation(self):
        model = onnx.load(MODEL)
        model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        options = ort.SessionOptions()
        options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
        self.assertEqual(ort.InferenceSession(model.SerializeToString(), options).get_inputs()[0].shape, [3, 1, 8, 8])

    def test_lists_strings_and_objects_as_inputs(self):
        same = ort.InferenceSession(
            model_of([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", [2, 2], 8)], [tensor("y", [2, 2], 8)]).SerializeToString()
        )
        words = np.array([["this", "is"], ["Ol\xe1", "\u4f60\u597d"]])
        for x in (words, words.astype(object), words.tolist()):
            (y,) = same.run([], {"x": x})
            self.assertEqual((y.dtype, y.tolist()), (np.dtype(object), words.tolist()))
        (y,) = same.run([], {"x": np.array([[b"this", b"is"], [b"a", b"test"]])})
        self.assertEqual(y.tolist(), [["this", "is"], ["a", "test"]])
        np.testing.assert_array_equal(self.session.run([], {"image": self.x.tolist()})[0], self.y)
        strided = np.asfortranarray(self.x)
        np.testing.assert_array_equal(self.session.run([], {"image": strided})[0], self.y)

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
import onnxruntime as ort, importlib.metadata
assert importlib.metadata.version("onnxruntime") == ort.__version__
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

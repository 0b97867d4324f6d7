"""Elichika's tests, written anew (source/cases_elichika.py), compiled from source and compared with eager execution."""

import copy
import inspect
import random
import sys
import unittest
from pathlib import Path

import numpy as np

import xcvm

FOLDER = Path(__file__).parent / "source"
sys.path[:0] = [str(FOLDER), str(FOLDER / "stand_in")]
try:
    import cases_elichika
    import cases_torch
    import chainer
    import constructs
    import constructs_page
    import golden_errors
    import torch
except ImportError:
    cases_elichika = None

# Every case of the tests by file. A plus means that gradients are compared. Cases without a name of their own are called main.
NAMES = {
    "model/MLP": "main main+", "model/Alex": "main", "model/GoogleNet": "main", "model/Resnet_with_loss": "main", "model/MyLSTM": "main",
    "model/EspNet_VGG2L": "VGGL VGGL_backprop+", "model/EspNet_BLSTM": "main main+", "model/StatelessLSTM": "main main+",
    "model/EspNet_AttDot": "main main+", "model/EspNet_AttLoc": "main", "model/EspNet_Decoder": "main main+ attloc attloc+",
    "model/EspNet_E2E": "main main+", "chainercv_model/resnet/resnet": "main", "node/AddMul": "main",
    "node/AveragePool2d": "default withpad withoutstride withpadtuple withpadtupleinit", "node/BatchNorm": "main",
    "node/Convolution2D": "main single_param single_param_lambda", "node/ConvolutionND": "1d 1d_nobias 2d 2d_nobias 3d 3d_nobias",
    "node/Id": "main", "node/Linear": "main axes axes+ none_param", "node/PadSequence": "basic length padding slice",
    "node/SoftmaxCrossEntropy": "main", "node/Unpooling2D": "main 3x4 large", "node/Variable": "main self", "node/ChainList": "chain chain_call",
    "node/LRN": "basic", "node/Len": "basic list", "node/ndarray/NpArray": "default cast", "node/ndarray/NpFull": "none dtype",
    "node/ndarray/NpZeros": "main", "node/ndarray/Size": "main", "node/ndarray/Shape": "main concat index", "node/ndarray/Ceil": "main",
    "node/ndarray/Cumsum": "main self",
    "node/Functions/ArgMinMax": "argmin argmin_np argmin_axis argmin_axis_np argmax argmax_np argmax_axis argmax_axis_np",
    "node/Functions/BroadcastTo": "main main+", "node/Functions/Concat": "main list", "node/Functions/Dropout": "main",
    "node/Functions/ExpandDims": "main", "node/Functions/Hstack": "main list", "node/Functions/Matmul": "main",
    "node/Functions/Maximum": "main np", "node/Functions/Minimum": "main np", "node/Functions/MaxPool2d": "main pad no_stride",
    "node/Functions/Mean": "main keepdims tuple_axis all_axis", "node/Functions/Reshape": "main B", "node/Functions/ResizeImages": "main",
    "node/Functions/Roi": "max_pool avg_pool max_align avg_align", "node/Functions/Separate": "main axis_0 axis_1 axis_2",
    "node/Functions/Sigmoid": "main",
    "node/Functions/MathMisc": "sin sinh sign cos cosh tan tanh arcsin arccos arctan exp log clip clip_np abs abs_np sqrt round abs_builtin "
    "abs_builtin_scalar_float abs_builtin_scalar_int",
    "node/Functions/MinMax": "min_simple min_axis min_keepdims min_axiskeepdims max_simple max_axis max_keepdims max_axiskeepdims",
    "node/Functions/SplitAxis": "main axis1 sections sections_axis1", "node/Functions/Squeeze": "main axes noaxes",
    "node/Functions/Stack": "main axis0 axis1 axis2",
    "node/Functions/Sum": "main self keepdims tuple_axis all_axis axis0_kdFalse+ axis0_kdTrue+ axis1_kdFalse+ axis1_kdTrue+ axis2_kdFalse+ "
    "axis2_kdTrue+ axis(0,2)_kdFalse+ axis(0,2)_kdTrue+ axis(1,2)_kdFalse+ axis(1,2)_kdTrue+ axisNone_kdFalse+ axisNone_kdTrue+",
    "node/Functions/SwapAxes": "main self", "node/Functions/Vstack": "main list",
    "node/Functions/Activations": "clipped_relu_simple leaky_relu_simple log_softmax_simple elu_simple relu_simple selu_simple sigmoid_simple "
    "softmax_simple clipped_relu_param1 leaky_relu_param1 log_softmax_param1 elu_param1 selu_param1 softmax_param1 selu_param2",
    "node/Functions/Transpose": "main", "node/Links/NStepLSTM": "main", "node/Links/NStepBiLSTM": "main", "node/Links/EmbedID": "main+",
    "syntax/Alias": "add_int add_np if_false_int if_true_int if_false_np if_true_np add_list",
    "syntax/BoolOp": "boolop0 boolop_if0 boolop1 boolop_if1 boolop2 boolop_if2 boolop3 boolop_if3",
    "syntax/Break": "break break_nested break_continue_mixed",
    "syntax/Cmp": "4_eq_5 4_eq_4 4_eq_3 4_neq_5 4_neq_4 4_neq_3 4_gt_5 4_gt_4 4_gt_3 4_ge_5 4_ge_4 4_ge_3 4_lt_5 4_lt_4 4_lt_3 4_le_5 4_le_4 "
    "4_le_3 None_is_None 42_is_None True_is_None True_is_False True_is_True False_is_False True_is_42 43_is_43 45_is_45 None_isnt_None "
    "42_isnt_None True_isnt_None True_isnt_False True_isnt_True False_isnt_False True_isnt_42 43_isnt_43 45_isnt_45",
    "syntax/Continue": "continue continue_nested continue_nested_multiple",
    "syntax/For": "basic1 a closure_bug forloop_bug multi_ref leak update_self for_unroll update_self_literal update_self_literal_in_init for+ "
    "double_for+ gen_bool gen_none gen_tuple gen_list",
    "syntax/ForAndIf": "lazy_init lazy_self_init",
    "syntax/If": "duplicate_input static_true static_false static_true_no_else static_false_no_else false true false_no_else true_no_else "
    "leak_false leak_true alias_false alias_true update_self_true update_self_false lazy_init lazy_init_use if_bp+ global user_func "
    "nparray_shape nparray_shape_self lazy_init_with_func_use",
    "syntax/LinkInFor": "main", "syntax/ListComp": "Basic1 A", "syntax/MultiClass": "main", "syntax/MultiFunction": "main",
    "syntax/Range": "main stop step list_comp", "syntax/Return": "return_middle return return_continue_mixed return_continue_break_mixed",
    "syntax/Sequence": "Basic Index Slice Append A", "syntax/Slice": "main list step step_second all all_second",
    "syntax/UserDefinedFunc": "main external_func external_class", "syntax/Tuple": "ret_tuple substitute_tuple substitute_tuple_self",
    "syntax/Print": "main const_prop", "syntax/With": "basic multiple enter_exit self_not_returned ignore_branch for_unroll",
    "syntax/Dict": "simple_dictionary dictionary_subscript assign_by_value_ref dictionary_iterate_keys dictionary_iterate_values "
    "dictionary_nested dictionary_in_constructor",
    "syntax/GetItem": "GetItemSimple GetItemFunction GetItemGetter StrConstantPropagation", "syntax/HasItem": "has_item_simple has_item_property",
    "syntax/Lambda": "lambda_local_simple lambda_local_with_outside_variable lambda_global_simple lambda_constructor",
    "syntax/List": "simple_list list_iterate list_in_constructor list_subscript if_list_subscript_assign array_subscript "
    "array_subscript_fancy tensor_to_list",
}  # fmt: skip
# Cases that the tests name and do not run, as known bugs.
DISABLED = {
    "Alias": "add_tuple", "Dict": "dictionary_iterate_items", "For": "update_self_local", "GetItem": "GetItemCustom", "If": "list_modify_elem",
    "Lambda": "lambda_local_nested lambda_global_nested lambda_inside_iterable lambda_constructor_nested "
    "lambda_constructor_with_outside_variable",
    "List": "list_assign_by_value_ref list_nested", "ListComp": "listcomp_bug", "Return": "return_nested", "UserDefinedFunc": "bug class_func_bug",
}  # fmt: skip
# Three more, in tests that no list has.
MORE = {"NpArray": "2d", "MinMax": "basic with_tensor"}


def listed(names, prefix=""):
    return [f"{prefix}{file}:{name}" for file, texts in names.items() for name in texts.split()]


def plain(value):
    """Return a result with arrays in the place of variables."""
    if isinstance(value, chainer.Variable):
        return value.array
    if isinstance(value, range):
        return list(value)
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    return value


if cases_elichika is not None:

    class Summed(chainer.Chain):
        """The sum of a result, since gradients belong to one number."""

        def __init__(self, inner):
            super().__init__()
            with self.init_scope():
                self.inner = inner

        def forward(self, *xs):
            return chainer.functions.sum(self.inner(*xs))


@unittest.skipIf(cases_elichika is None, "torch is not installed")
class Elichika(unittest.TestCase):
    def same(self, got, wanted, name):
        if isinstance(wanted, (np.ndarray, np.generic)):
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-5, err_msg=name)
            self.assertEqual((np.asarray(got).dtype, np.shape(got)), (wanted.dtype, wanted.shape), name)
        elif isinstance(wanted, (list, tuple)):
            self.assertEqual((type(got), len(got)), (type(wanted), len(wanted)), name)
            for one, other in zip(got, wanted):
                self.same(one, other, name)
        else:
            self.assertEqual((got, type(got)), (wanted, type(wanted)), name)

    def check(self, name, make, arguments):
        # The program is compiled from an object that was not called, but has the parameters that a call makes.
        model, fresh = make(), make()
        given = [argument.value if isinstance(argument, type(xcvm.const(0))) else argument for argument in arguments]
        expected = plain(model(*copy.deepcopy(given)))
        if isinstance(model, chainer.Link):
            for (_, own), (_, other) in zip(fresh.namedparams(), model.namedparams()):
                own.tensor = other.tensor
        if name.endswith("+"):
            return self.check_gradients(name, model, fresh, arguments, given)
        program = xcvm.compile(fresh, *copy.deepcopy(arguments), fresh=True)
        self.same(program(*copy.deepcopy(given)), expected, name)

    def check_gradients(self, name, model, fresh, arguments, given):
        program = xcvm.compile(Summed(fresh), *copy.deepcopy(arguments), backprop=True, loss="y", fresh=True)
        outputs = program.run(program.arguments(*copy.deepcopy(given)))
        parameters = dict(Summed(model).namedparams())
        for parameter in parameters.values():
            parameter.tensor.grad = None
        model(*given).tensor.sum().backward()
        reached = {path: parameter.tensor.grad for path, parameter in parameters.items() if parameter.tensor.grad is not None}
        self.assertTrue(reached, name)
        for path, gradient in reached.items():
            got = outputs["grad_out@" + path.strip("/").replace("/", ".")].numpy()
            np.testing.assert_allclose(got, gradient.numpy(), rtol=1e-3, atol=1e-5, err_msg=f"{name}: {path}")

    def test_every_case_is_there(self):
        every = listed(NAMES)
        self.assertEqual((len(every), sum(name.endswith("+") for name in every), len(listed(DISABLED))), (351, 26, 16))
        self.assertEqual(
            sorted(name for name, _, _ in cases_elichika.CASES), sorted([*every, *listed(DISABLED, "disabled/"), *listed(MORE, "more/")])
        )

    def test_cases(self):
        torch.manual_seed(3)
        for name, make, arguments in cases_elichika.CASES:
            with self.subTest(name):
                self.check(name, make, arguments)

    def test_functions_of_the_stand_in_have_rows(self):
        """Without a row a function would be compiled from the source of the stand-in."""
        from xcvm.source.tables import Tables

        tables = Tables()
        names = [name for name, value in vars(chainer.functions).items() if callable(value) and name[0] != "_" and name not in ("Variable", "tensor")]
        self.assertEqual([name for name in names if tables.function(getattr(chainer.functions, name)) is None], [])
        self.assertGreater(len(names), 50)


@unittest.skipIf(cases_elichika is None, "torch is not installed")
class ESPnet(unittest.TestCase):
    """Encoder, attention and decoder as they were before Elichika's edits, with scheduled sampling of a seed."""

    same = Elichika.same

    def compare(self, model, program, arguments, name):
        random.seed(7)
        self.same(program(*arguments), plain(model(*arguments)), name)

    def inputs(self, lengths, width, steps):
        numbers = np.random.RandomState(sum(lengths))
        sequences = [numbers.rand(length, width).astype(np.float32) for length in lengths]
        return sequences, np.array(lengths), numbers.randint(2, 10, size=(len(lengths), steps)).astype(np.int32)

    def test_decoder_for_lengths(self):
        models = cases_elichika.models
        for attention in (lambda: models.AttDot(3, 4, 5), lambda: models.AttLoc(3, 4, 5, 7, 6)):
            model = models.Decoder(3, 11, 2, 4, 10, 10, attention(), sampling_probability=0.5)
            for lengths, steps in (((4, 3, 2), 4), ((7,), 1), ((6, 6), 9)):
                hs, _, ys = self.inputs(lengths, 3, steps)
                random.seed(7)
                program = xcvm.compile(model, hs, ys, fresh=True)
                self.compare(model, program, (hs, ys), f"{lengths} {steps}")

    def test_one_program_for_all_lengths(self):
        for etype in ("blstm", "vggblstm"):
            model = cases_elichika.models.E2E(etype, sampling_probability=0.5)
            arguments = self.inputs((9, 7, 4), 5, 4)
            model(*arguments)
            dims = {"xs": {index: {0: xcvm.dim(f"t{index}")} for index in range(3)}}
            random.seed(7)
            program = xcvm.compile(model, *arguments, fresh=True, dims=dims)
            for lengths in ((9, 7, 4), (12, 12, 12), (17, 5, 5)):
                self.compare(model, program, self.inputs(lengths, 5, 4), f"{etype} {lengths}")

    def test_random_numbers_of_a_run_time_loop(self):
        def drawn(x, n: int):
            for i in range(n):
                x = x + random.random()
            return x

        with self.assertRaisesRegex(xcvm.SourceErrors, "random numbers are drawn when the program is compiled"):
            xcvm.compile(drawn, np.ones(2), 3)


def outcome(function, arguments):
    """Return a result with arrays, or the exception as a text."""
    try:
        with torch.no_grad():
            return arrays(function(*copy.deepcopy(arguments)))
    except Exception as error:
        return f"{type(error).__name__}: {error if isinstance(error, (AssertionError, ValueError)) else ''}"


def open_sizes(subject, calls):
    """Return the dimensions of arguments that the calls give different sizes."""
    dims = {}
    for index, name in enumerate(inspect.signature(getattr(subject, "forward", subject)).parameters):
        shapes = [call[index].shape for call in calls if isinstance(call[index], torch.Tensor)]
        changed = [axis for axis, sizes in enumerate(zip(*shapes)) if len(set(sizes)) > 1]
        dims[name] = {axis: xcvm.dim(f"n{axis}") for axis in changed}
    return dims


def arrays(value):
    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {key: arrays(item) for key, item in value.items()}
    return type(value)(arrays(item) for item in value) if isinstance(value, (list, tuple)) else value


@unittest.skipIf(cases_elichika is None, "torch is not installed")
class Constructs(unittest.TestCase):
    same = Elichika.same

    def test_constructs(self):
        """Each construct is right for inputs that take every path, or refused by name."""
        for _, made, calls, refused in constructs.CONSTRUCTS:
            with self.subTest(made.__name__):
                subject = made().eval() if isinstance(made, type) else made
                if refused:
                    with self.assertRaisesRegex(xcvm.SourceErrors, refused):
                        xcvm.compile(subject, *copy.deepcopy(calls[0]))
                    continue
                program = xcvm.compile(subject, *copy.deepcopy(calls[0]), dims=open_sizes(subject, calls))
                for arguments in calls:
                    got, wanted = outcome(program, arguments), outcome(subject, arguments)
                    if isinstance(wanted, dict):
                        self.assertEqual(list(got), list(wanted))
                        got, wanted = list(got.values()), list(wanted.values())
                    self.same(got, wanted, f"{made.__name__}{arguments[1:]}")

    def test_page(self):
        """The page has every construct, and says what the other compilers do with it."""
        page = constructs_page.page()
        self.assertEqual(len(constructs.CONSTRUCTS), 131)
        self.assertEqual([name for _, name, _, _ in constructs_page.rows()], [made.__name__ for _, made, _, _ in constructs.CONSTRUCTS])
        titles = [title for _, _, title, _ in constructs_page.rows()]
        self.assertEqual(len(set(titles)), 131)
        for title in titles:
            self.assertIn(f"| {title} |", page)


@unittest.skipIf(cases_elichika is None, "torch is not installed")
class Gradients(unittest.TestCase):
    def test_gradients(self):
        """Each parameter that PyTorch trains has its gradient, also those that one instruction has together."""
        for index, (model, arguments) in enumerate(cases_torch.trained()):
            with self.subTest(f"{type(model.inner).__name__} {index}"):
                given = [argument.value if isinstance(argument, type(xcvm.const(0))) else argument for argument in arguments]
                model(*given).backward()
                wanted = {f"grad_out@{name}": p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
                program = xcvm.compile(model, *arguments, backprop=True)
                found = program.run(program.arguments(*given))
                self.assertEqual({name for name in found if "@" in name}, set(wanted))
                for name, gradient in wanted.items():
                    np.testing.assert_allclose(found[name], gradient, rtol=1e-3, atol=1e-6, err_msg=name)

    def test_training(self):
        """Steps of a loss are PyTorch's. The learning rate is an argument more."""
        for model, arguments in cases_torch.trained()[1:10:4]:
            program = xcvm.Session(xcvm.compile(model, *arguments, train="sgd:lr=0.1"))
            optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(*arguments)
                loss.backward()
                optimizer.step()
                got = program.run({"xs_0": arguments[0].numpy(), "learning_rate": np.float32(0.1)})["y"]
                np.testing.assert_allclose(got, loss.item(), rtol=1e-4)

    def test_statistics_of_normalization(self):
        """Buffers are not trained, but running statistics follow the batches."""
        torch.manual_seed(0)
        model = cases_torch.Loss(torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3), torch.nn.Flatten())).eval()
        x = torch.randn(4, 2, 3, 3)
        program = xcvm.Session(xcvm.compile(model, x, train="sgd:lr=0.1", train_batch_normalization=True))
        optimizer = torch.optim.SGD(model.train().parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x)
            loss.backward()
            optimizer.step()
            np.testing.assert_allclose(program.run({"xs_0": x.numpy(), "learning_rate": np.float32(0.1)})["y"], loss.item(), rtol=1e-4)

    def test_arguments_and_exceptions_of_programs_with_gradients(self):
        class Checked(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))

            def forward(self, x):
                if x.sum() > 100:
                    raise ValueError("too large")
                return (x * self.weight).sum()

        program = xcvm.compile(Checked(), torch.ones(2), backprop=True)
        self.assertEqual(program(torch.ones(2)), 2)
        with self.assertRaisesRegex(ValueError, "too large"):
            program(torch.full((2,), 100.0))
        with self.assertRaisesRegex(xcvm.InvalidArgument, "there is no argument 'y'"):
            program(torch.ones(2), y=1)
        with self.assertRaisesRegex(xcvm.InvalidArgument, "'x' is given twice"):
            program(torch.ones(2), x=torch.ones(2))
        step = xcvm.compile(Checked(), torch.ones(2), train="sgd:lr=1")
        step(torch.ones(2), learning_rate=1.0)
        with self.assertRaisesRegex(ValueError, "too large"):
            step(torch.full((2,), 100.0), learning_rate=1.0)


@unittest.skipIf(cases_elichika is None, "torch is not installed")
class Errors(unittest.TestCase):
    maxDiff = None

    def test_everything_that_is_reported(self):
        """At least 40 sources: every error, file, line, columns, expression, calls, reason, and similar name."""
        golden = (FOLDER / "erroneous.txt").read_text()
        self.assertGreaterEqual(len(list(golden_errors.sources())), 40)
        self.assertEqual(golden.count("\n## ") + 1, len(list(golden_errors.sources())))
        self.assertEqual(golden_errors.text().splitlines(), golden.splitlines())


if __name__ == "__main__":
    unittest.main()

"""Whole models (source/models.py, torchvision) compiled from source, compared with eager PyTorch."""

import copy
import dataclasses
import sys
import unittest
from pathlib import Path

import numpy as np

import xcvm

sys.path.insert(0, str(Path(__file__).parent / "source"))
try:
    import models
    import torch
except ImportError:
    models = None


if models is not None:

    class Members(torch.nn.Module):
        """Lists of a module's members, and items that next() takes."""

        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 3)
            self.b = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
            self.register_buffer("h", torch.ones(2))

        def forward(self, x):
            total = sum((p**2).sum() for p in self.parameters())
            names = [name for name, _ in self.named_parameters()], [name for name, _ in self.named_children()]
            kinds = [type(module).__name__ for module in self.modules()], [name for name, _ in self.named_modules()]
            buffers = [(name, b.sum()) for name, b in self.named_buffers(prefix="z", recurse=False)]
            iterator = iter([x, x * 2, x * 3, x * 4])
            first, second = next(iterator), next(iterator)
            rest = [item for item in iterator]
            generator = (item + 1 for item in [x, x * 2])
            ends = next(generator), next(generator, None), next(generator, None), next(iter([]), 7)
            dtype = next(self.parameters()).dtype
            return total, names, kinds, buffers, first, second, rest, ends, torch.finfo(dtype).eps, torch.iinfo(torch.int32).max


def largest(x):
    items = iter(x)
    best = next(items)
    for item in items:
        best = max(best, item)
    return best


def next_of_a_consumed_iterator(x):
    items = iter(x)
    total = sum(items)
    return total + next(items)


def next_of_a_list(x):
    return next(x)


def row_by_row(x):
    h = np.zeros((20, 2), np.float32)
    for i in range(20):
        h[i : i + 1] = np.tanh(x[i : i + 1])
    return h


def rows_of_loops(x, n: int):
    """Slices of one row in loops, some of which do not exist."""
    h = np.zeros((20, 2), np.float32)
    for i in range(20):
        h[i : i + 1] = x[i : i + 1] + i
    for i in range(1, 19, 2):
        h[i - 1 : i] = x[i : 1 + i]
    for i in range(18, -1, -1):
        h[i] = h[i] + h[i + 1 : i + 2]
    total, empty = 0.0, 0
    for i in range(10, 30):
        empty += len(x[i : i + 1])
        total += x[i : i + 1].sum()
    for i in range(-10, 10):
        total += x[i : i + 1].sum() + len(x[i : i + 1])
    for i in range(n):
        empty += len(x[i : i + 1])
    for i in range(20):
        h[-1] = x[i:i].sum() + x[i : i + 3].sum()
        h[i:] = h[i:] * 0.5
    return h, total, empty


def parts(value):
    """Return a result with NumPy arrays, and dicts in the place of dataclasses."""
    if dataclasses.is_dataclass(value):
        return parts(vars(value))
    if isinstance(value, dict):
        return {key: parts(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(parts(item) for item in value)
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


@unittest.skipIf(models is None, "torch is not installed")
class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def same(self, got, wanted, where):
        self.assertEqual(type(got), type(wanted), where)
        if isinstance(wanted, np.ndarray):
            self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape), where)
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4, err_msg=where)
        elif isinstance(wanted, (list, tuple, dict)):
            self.assertEqual(len(got), len(wanted), where)
            if isinstance(wanted, dict):
                self.assertEqual(list(got), list(wanted), where)
                got, wanted = got.values(), wanted.values()
            for one, other in zip(got, wanted):
                self.same(one, other, where)
        else:
            self.assertEqual(got, wanted, where)

    def check(self, model, *calls, **options):
        """Compile a model for its first call, and compare all calls."""
        model.eval()
        program = xcvm.compile(model, *copy.deepcopy(calls[0]), optimize=1, **options)
        for number, call in enumerate(calls):
            with torch.no_grad():
                wanted = model(*copy.deepcopy(call))
            self.same(parts(program(*copy.deepcopy(call))), parts(wanted), f"{type(model).__name__}, call {number}")
        return program

    def test_members(self):
        self.check(Members(), (torch.randn(2),))

    def test_next(self):
        program = xcvm.compile(largest, np.ones(3), dims={"x": {0: xcvm.dim("n")}})
        for x in ([1.0, 4.0, 2.0], [5.0, -1.0], [3.0]):
            self.assertEqual(program(np.array(x)), max(x))
        with self.assertRaises(StopIteration):
            program(np.zeros(0))
        with self.assertRaisesRegex(xcvm.SourceErrors, "used again"):
            xcvm.compile(next_of_a_consumed_iterator, [1.0, 2.0])
        with self.assertRaisesRegex(xcvm.SourceErrors, "'list' object is not an iterator"):
            xcvm.compile(next_of_a_list, [1.0, 2.0])

    def test_rows_of_loops(self):
        x = np.random.RandomState(3).rand(20, 2).astype(np.float32)
        program = xcvm.compile(rows_of_loops, x, 3)
        for n in (3, 25):
            for got, wanted in zip(program(x, n), rows_of_loops(x, n)):
                np.testing.assert_allclose(got, wanted, rtol=1e-5)
        # The size of a slice that exists for certain is known.
        self.assertNotRegex(xcvm.compile(row_by_row, x).disassemble(), "Slice|Expand|Shape")

    def test_bert(self):
        def batch(size, length):
            mask = torch.ones(size, length, dtype=torch.int64)
            mask[-1, length // 2 :] = 0
            return torch.randint(1, 97, (size, length)), mask, torch.randint(0, 2, (size, length))

        first, second = batch(2, 7), batch(3, 11)
        dims = {name: {0: xcvm.dim("batch"), 1: xcvm.dim("length")} for name in ("input_ids", "attention_mask", "token_type_ids")}
        self.check(models.BertModel(models.Config()), first, second, dims=dims)
        self.check(models.BertModel(models.Config(output_attentions=True, output_hidden_states=True)), first)
        labels = torch.tensor([0, 1])
        program = self.check(models.BertForSequenceClassification(models.Config()), (*first, labels))
        self.assertIsInstance(program(*first, labels), models.SequenceClassifierOutput)
        self.check(models.BertForSequenceClassification(models.Config()), first[:2])

    def test_gpt_with_a_cache_of_arguments(self):
        model = models.GPT2LMHeadModel(models.Config())
        ids = torch.randint(1, 97, (2, 7))
        self.check(model, (ids,))

        def past(length):
            return tuple((torch.randn(2, 4, length, 4), torch.randn(2, 4, length, 4)) for _ in range(2))

        calls = [(ids[:, :1], past(length), torch.ones(2, length + 1)) for length in (5, 9, 0)]
        self.check(model, *calls, dims={"past_key_values": {2: xcvm.dim("past")}, "attention_mask": {1: xcvm.dim("all")}})

    def test_gpt_with_a_cache_that_is_kept(self):
        model = models.Generator(models.Config()).eval()
        token = torch.tensor([[5]])
        program = xcvm.compile(model, token, keep=["cache"], dims={"cache": {2: xcvm.dim("past")}})
        for _ in range(6):
            with torch.no_grad():
                wanted = model(token)
            self.same(program(token), wanted.numpy(), "token")
            token = wanted[:, None]
        self.same(program.kept["cache"], parts(model.cache), "cache")

    def test_gpt_with_a_cache_in_a_loop(self):
        ids = torch.randint(1, 97, (1, 7))
        self.check(models.GreedySearch(models.Config(), 5), *[(ids, length) for length in (9, 20, 3)])

    def test_transformer(self):
        def words(length, batch, end):
            made = torch.randint(2, 53, (length, batch))
            made[end:, 0] = 1
            return made

        dims = {"src": {0: xcvm.dim("s"), 1: xcvm.dim("n")}, "tgt": {0: xcvm.dim("t"), 1: xcvm.dim("n")}}
        first, second = (words(9, 2, 6), words(6, 2, 4)), (words(5, 3, 4), words(8, 3, 7))
        self.check(models.Seq2SeqTransformer(), first, second, dims=dims)
        # Eager PyTorch takes another way through an encoder whose first dimension is the batch.
        self.check(models.Seq2SeqTransformer(batch_first=True, norm_first=True), tuple(one.t().contiguous() for one in first))

    def test_lstm(self):
        words = torch.randint(0, 41, (2, 9))
        dims = {"sentence": {0: xcvm.dim("n"), 1: xcvm.dim("t")}}
        self.check(models.LSTMTagger(), (words,), (torch.randint(0, 41, (3, 4)),), dims=dims)
        state = torch.randn(2, 2, 12), torch.randn(2, 2, 12)
        self.check(models.LSTMTagger(bidirectional=False), (words, state))

    def test_tree_lstm_of_indices(self):
        leaf = [-1, -1]
        trees = [[leaf, leaf, [0, 1], leaf, leaf, [3, 4], [2, 5]], [leaf, leaf, leaf, [1, 2], [0, 3]]]
        calls = [(torch.randint(0, 31, (len(tree),)), torch.tensor(tree)) for tree in trees]
        dims = {"words": {0: xcvm.dim("n")}, "children": {0: xcvm.dim("n")}}
        self.check(models.TreeLSTMOfIndices(), *calls, (calls[0][0][:3], torch.tensor([leaf, [0, -1], [1, -1]])), dims=dims)
        self.check(models.TreeLSTMOfLists(), *calls, dims=dims)
        self.check(models.TreeLSTMOfLists(), calls[1])

    def test_tree_lstm_of_levels(self):
        calls = []
        for order, pairs in (([0, 0, 1, 0, 0, 1, 2], [[2, 0], [2, 1], [5, 3], [5, 4], [6, 2], [6, 5]]), ([0, 0, 0, 1, 2], [[3, 1], [3, 2], [4, 0], [4, 3]])):
            levels = torch.tensor([order[parent] for parent, _ in pairs])
            calls.append((torch.randn(len(order), 6), torch.tensor(order), torch.tensor(pairs), levels))
        sizes = {"features": "n", "node_order": "n", "adjacency_list": "e", "edge_order": "e"}
        self.check(models.TreeLSTMOfLevels(), *calls, dims={name: {0: xcvm.dim(size)} for name, size in sizes.items()})

    def test_tree_lstm_of_a_known_tree(self):
        tree = models.Tree(4, [models.Tree(0), models.Tree(5, [models.Tree(1), models.Tree(2), models.Tree(6)]), models.Tree(3)])
        program = self.check(models.TreeLSTMOfObjects(tree), (torch.randint(0, 31, (7,)),), (torch.randint(0, 31, (7,)),))
        self.assertNotRegex(program.disassemble(), "Jmp|Sequence")

    def test_tree_lstm_of_transitions(self):
        words, dims = torch.randint(0, 31, (4,)), {"words": {0: xcvm.dim("n")}, "transitions": {0: xcvm.dim("t")}}
        calls = [(words[: len(t) // 2 + 1], torch.tensor(t)) for t in ([0, 0, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1], [0])]
        self.check(models.BinaryTreeLSTM(), *calls, dims=dims)

    def test_torchvision(self):
        """Small instances of the networks that bench/source.py runs in full."""
        try:
            from torchvision import models as vision
        except ImportError:
            self.skipTest("torchvision is not installed")
        from torchvision.models.convnext import CNBlockConfig
        from torchvision.models.regnet import BlockParams

        settings = [vision.efficientnet.MBConvConfig(2, 3, 2, 8, 8, 2, 1.0, 1.0)]
        networks = [
            vision.AlexNet(num_classes=3).features,
            vision.VGG(vision.vgg.make_layers([4, "M", 8, "M"], batch_norm=True), 3, False).features,
            vision.ResNet(vision.resnet.Bottleneck, [1, 1, 1, 1], num_classes=3, width_per_group=8),
            vision.DenseNet(4, (2, 2), 8, num_classes=3),
            vision.GoogLeNet(num_classes=3, aux_logits=False, init_weights=False),
            vision.RegNet(BlockParams([1, 2], [8, 16], [4, 8], [1.0, 1.0], [2, 2], 0.25), num_classes=3),
            vision.EfficientNet(settings, 0.1, num_classes=3),
            vision.ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=3),
            vision.SwinTransformer([4, 4], 8, [2, 2], [2, 2], [4, 4], num_classes=3),
            vision.VisionTransformer(64, 16, 2, 2, 16, 32, num_classes=3),
        ]
        x = torch.randn(1, 3, 64, 64)
        for network in networks:
            with self.subTest(type(network).__name__):
                for parameter in network.parameters():
                    # Some begin with zeros, or with results that hide differences.
                    parameter.data += torch.randn_like(parameter) * 0.05
                self.check(network, (x,))


if __name__ == "__main__":
    unittest.main()

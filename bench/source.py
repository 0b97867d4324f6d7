#!/usr/bin/python3
"""source.py [--seconds N] [--list] [NAME ...]: models compiled from Python source beside torch.onnx.export.

Each model is compiled by xcvm.compile from its source, and from the ONNX model that torch.onnx.export writes, with the same
options. Results are compared with eager PyTorch. Both programs run in turn on one thread. Prints the page in Markdown, and
to stderr which programs from source are more than 2 % slower, by medians. The exit code is 1 if a result is wrong."""

import argparse
import io
import math
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
import torchvision

import xcvm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/tests/source"))
import models  # noqa: E402

# Networks with the size of their images.
VISION = {
    "alexnet": 224, "vgg11": 224, "resnet18": 224, "resnet50": 224, "squeezenet1_1": 224, "densenet121": 224, "googlenet": 224,
    "mobilenet_v2": 224, "mobilenet_v3_large": 224, "shufflenet_v2_x1_0": 224, "mnasnet1_0": 224, "efficientnet_b0": 224,
    "regnet_y_400mf": 224, "convnext_tiny": 224, "vit_b_16": 224, "swin_t": 224,
}  # fmt: skip
OPSET = 17
LEAST_RUNS = 5
PLACEMENTS = 4
# A program from source that has less than this share of the export's speed is measured again, with more placements.
BOUND = 0.98
REPEATS = 3


def network(name, size):
    options = {"init_weights": True} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(**options), (torch.randn(1, 3, size, size),)


def bert():
    config = models.Config(vocab_size=5000, hidden_size=256, num_hidden_layers=4, intermediate_size=1024, max_position_embeddings=128)
    mask = torch.ones(2, 64, dtype=torch.int64)
    mask[1, 40:] = 0
    model = models.BertModel(config)
    for module in model.modules():
        # As BERT begins. With the weights of the small models in the tests, which are ten times as large, eager PyTorch is
        # 1.4e-4 from the results in f64.
        if isinstance(module, torch.nn.Linear):
            module.weight.data *= 0.1
    return model, (torch.randint(1, 5000, (2, 64)), mask, torch.randint(0, 2, (2, 64)))


def gpt():
    return models.GPT2LMHeadModel(models.Config(vocab_size=5000, hidden_size=256, num_hidden_layers=4, max_position_embeddings=256))


def prompt():
    return gpt(), (torch.randint(0, 5000, (1, 96)),)


def token():
    past = tuple((torch.randn(1, 4, 95, 64), torch.randn(1, 4, 95, 64)) for _ in range(4))
    return gpt(), (torch.randint(0, 5000, (1, 1)), past)


def transformer():
    src, tgt = torch.randint(2, 1000, (48, 2)), torch.randint(2, 1000, (32, 2))
    src[40:, 1] = tgt[25:, 1] = 1
    # The exporter makes an input of the default.
    return models.Seq2SeqTransformer(1000, 256, 8, 3, 1024), (src, tgt, torch.tensor(1))


def lstm():
    return models.LSTMTagger(5000, 128, 256, 16), (torch.randint(0, 5000, (1, 64)),)


def pairs_of(leaves):
    """Return the children of the nodes of a balanced tree, in the order of evaluation."""
    rows = [[-1, -1]] * leaves
    level = list(range(leaves))
    while len(level) > 1:
        above = []
        for left, right in zip(level[::2], level[1::2]):
            above.append(len(rows))
            rows.append([left, right])
        level = above
    return rows


def tree_of_data():
    rows = pairs_of(16)
    return models.TreeLSTMOfIndices(1000, 128, 128), (torch.randint(0, 1000, (len(rows),)), torch.tensor(rows))


def tree_of_objects():
    rows = pairs_of(16)
    nodes = []
    for word, children in enumerate(rows):
        nodes.append(models.Tree(word, [nodes[child] for child in children if child >= 0]))
    return models.TreeLSTMOfObjects(nodes[-1], 1000, 128, 128), (torch.randint(0, 1000, (len(rows),)),)


OTHERS = {
    "BERT-like, 4 layers, 2 x 64 tokens": bert, "GPT-like, 4 layers, prompt of 96": prompt, "GPT-like, a token with a cache of 95": token,
    "nn.Transformer, 3 + 3 layers": transformer, "nn.LSTM, 2 layers, both directions": lstm,
    "tree-LSTM, 31 nodes, tree is data": tree_of_data, "tree-LSTM, 31 nodes, tree of objects": tree_of_objects,
}  # fmt: skip


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)]


def agree(got, wanted):
    got, wanted = leaves(got), leaves(wanted)
    return len(got) == len(wanted) and all(np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(got, wanted))


def exported(model, arguments):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, arguments, file, opset_version=OPSET)
    return file.getvalue()


def timed(function):
    begun = time.perf_counter()
    made = function()
    return made, time.perf_counter() - begun


class Runner:
    """A session with the arrays of its inputs, in the order of the arguments."""

    def __init__(self, program, arguments):
        arrays = leaves(arguments)
        if len(arrays) != len(program.inputs):
            raise SystemExit(f"{len(program.inputs)} inputs are expected, but there are {len(arrays)}")
        self.session = xcvm.Session(program, threads=1)
        self.feeds = {parameter.name: array for parameter, array in zip(program.inputs, arrays)}

    def results(self):
        return [value.numpy() for value in self.session.run(self.feeds).values()]

    def seconds(self):
        """Run once, and return the seconds of the processor, which other processes disturb less than those of a clock."""
        begun = time.thread_time()
        self.session._run(self.feeds)
        return time.thread_time() - begun


def instructions(runner):
    """Return the instructions of a run that do work, in any order."""
    names = (event.instruction for event in runner.session.profile(**runner.feeds).events)
    return sorted(name for name in names if name not in ("In", "Out", "Free", "Reshape", "Flatten"))


def ratio(times):
    """Return the speed of the program from source, as a share of the export's, by medians of all runs."""
    return statistics.median(times[1]) / statistics.median(times[0])


def measure(make, seconds):
    """Return the measurements of a model: seconds of compilation and of runs, for the source and for the export, whether
    results agree with PyTorch, and whether both programs have the same instructions."""
    torch.manual_seed(1)
    model, arguments = make()
    model.eval()
    for module in model.modules():
        # As BERT and GPT-2 begin. With a deviation of 1, scores reach 80, and PyTorch's own errors 1e-3.
        if isinstance(module, torch.nn.Embedding):
            module.weight.data *= 0.02
    for parameter in model.parameters():
        # Initial weights of deep networks leave nothing of the input in the output.
        if parameter.dim() == 1:
            parameter.data += torch.rand_like(parameter) * 0.1
    with torch.no_grad():
        wanted = model(*arguments)
    source, source_time = timed(lambda: xcvm.compile(model, *arguments))
    export, export_time = timed(lambda: xcvm.compile(exported(model, arguments)))
    saved = [source.source, export.source]
    right, times = [True, True], [[], []]
    for placement in range(PLACEMENTS * REPEATS):
        if placement and placement % PLACEMENTS == 0 and ratio(times) >= BOUND:
            break
        # Where weights and registers lie in memory changes a time by some percent, so programs are loaded again.
        loaded = [xcvm.Program(bytes(bytearray(data))) for data in saved]
        runners = [Runner(program, arguments) for program in loaded]
        right = [one and agree(runner.results(), wanted) for one, runner in zip(right, runners)]
        end = time.perf_counter() + seconds / PLACEMENTS
        while time.perf_counter() < end or len(times[0]) < LEAST_RUNS * (placement + 1):
            # The one that begins alternates.
            for side in (0, 1) if len(times[0]) % 2 else (1, 0):
                times[side].append(runners[side].seconds())
    return source_time, export_time, right, times, instructions(runners[0]) == instructions(runners[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models whose name contains one of these")
    parser.add_argument("--seconds", type=float, default=4.0, help="time of the runs of each model")
    parser.add_argument("--list", action="store_true", help="list the models")
    given = parser.parse_args()
    makers = {name: (lambda name=name, size=size: network(name, size)) for name, size in VISION.items()}
    makers.update(OTHERS)
    chosen = {name: make for name, make in makers.items() if not given.names or any(part in name for part in given.names)}
    if given.list:
        print("\n".join(makers))
        return
    if not chosen:
        sys.exit("no model has such a name; --list lists them")
    print("# Models from source\n")
    print(f"[Models compiled from Python source](python/source.md) beside `torch.onnx.export` of PyTorch {torch.__version__}, opset {OPSET}.")
    print("Both are compiled by XCVM with the same options. Times of runs are in ms of the processor, on one thread, in turn. Ratios")
    print("are times of the export divided by times of the source. Above 1, the program from source is faster. A model whose median is")
    print(f"below {BOUND} gets up to {REPEATS} times the runs; all count. Compile times are in seconds; those of the export include")
    print("`torch.onnx.export`. Results agree with eager PyTorch with rtol 1e-3 and atol 1e-4. `make bench-source`")
    print("renews this page.\n")
    print("The last column says if both programs have the same instructions, except `Reshape` and `Flatten`. If they do, the difference")
    print("is one of the measurement.\n")
    print("| model | source, least | export, least | ratio | source, median | export, median | ratio | source compiles | export compiles | same |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    ratios, failed = [], []
    for name, make in chosen.items():
        source_time, export_time, right, (source, export), same = measure(make, given.seconds)
        least, median = min(export) / min(source), ratio((source, export))
        ratios.append((least, median, export_time / source_time))
        numbers = [min(source) * 1e3, min(export) * 1e3, least, statistics.median(source) * 1e3, statistics.median(export) * 1e3, median]
        cells = [f"{number:.{3 if number < 10 else 1}f}" for number in numbers]
        print(f"| {name} | {' | '.join(cells)} | {source_time:.2f} | {export_time:.2f} | {'yes' if same else 'no'} |", flush=True)
        if not right[0]:
            failed.append(f"{name}: the program from source is wrong")
        if not right[1]:
            print(f"{name}: the exported model is wrong", file=sys.stderr)
        if median < BOUND:
            print(f"{name}: the program from source is slower, {median:.3f}", file=sys.stderr)
    means = [math.exp(statistics.mean(math.log(row[column]) for row in ratios)) for column in range(3)]
    print(f"\nGeometric means of the ratios: {means[0]:.3f} (least), {means[1]:.3f} (median), {means[2]:.2f} (compilation).")
    sys.exit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()

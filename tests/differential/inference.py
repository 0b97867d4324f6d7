"""Models that were trained, beside PyTorch's eval(): inference.py XCVM FOLDER make|judge.

make exports networks with BatchNormalization and Dropout as TrainingMode.TRAINING, has xcvm train them, writes them in
every form, and runs what XCVM runs. It prints the folders that ONNX Runtime is to run (ort_run.c). judge compares all
results with those of the same weights in PyTorch after eval(), for a batch and for one example at a time."""
import glob
import os
import subprocess
import sys
import warnings

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

warnings.filterwarnings("ignore")
SIZES = (1, 7)  # examples of a run


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                      nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8, momentum=0.3), nn.ReLU(),
                                      nn.Dropout(0.3), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(8 * 5 * 5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))

    def forward(self, x):
        return self.head(self.features(x))


class Signals(nn.Module):
    """Normalizations that nothing can be merged into, behind a sum and in front of a convolution."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv1d(2, 6, 3, padding=1), nn.BatchNorm1d(6)
        self.second, self.last, self.plain = nn.Conv1d(6, 6, 3, padding=1), nn.Linear(6, 3), nn.BatchNorm1d(6, affine=False)
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        a = self.first(x)
        b = self.second(self.drop(torch.relu(self.norm(a)))) + a
        return self.last(self.plain(b).mean(2))


NETWORKS = {"images-13": (Images, (1, 12, 12), 13), "images-17": (Images, (1, 12, 12), 17), "images-11": (Images, (1, 12, 12), 11),
            "signals-14": (Signals, (2, 20), 14)}


def run(*arguments, expect=0):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    assert done.returncode == expect, f"{arguments}: {done.returncode} {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def export(network, shape, opset, path):
    torch.onnx.export(network.train(), torch.randn(4, *shape), path, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, opset_version=opset,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    model = onnx.load(path)
    model.doc_string = "of a test"
    model.metadata_props.add(key="author", value="somebody")
    onnx.save(model, path)


def data(shape, path):
    random = np.random.default_rng(7)
    labels = random.integers(0, 3, 400)
    x = random.normal(size=(400, *shape)) + 0.6 * labels.reshape(-1, *[1] * len(shape)) + 2
    np.savez(path, x=x.astype(np.float32), labels=labels)
    return x.astype(np.float32)


def run_c(xcvm, folder, model, size, x):
    """What C gives that is compiled for this number of examples."""
    source = f"{folder}/{size}.c"
    run(xcvm, "compile", model, "--emit", "c", "--with-main", "--dim", f"N={size}", "-o", source)
    run("cc", "-std=c99", "-O1", source, "-lm", "-o", f"{folder}/{size}")
    x.tofile(f"{folder}/x.bin")
    with open(f"{folder}/y.bin", "wb") as out:
        subprocess.run([f"{folder}/{size}", f"{folder}/x.bin"], stdout=out, check=True)
    return np.fromfile(f"{folder}/y.bin", np.float32).reshape(size, -1)


def run_vm(xcvm, folder, model, x, *options):
    np.save(f"{folder}/x.npy", x)
    told = run(xcvm, "run", model, *options, "-i", f"x=@{folder}/x.npy", "-o", f"y=@{folder}/y.npy")
    return np.load(f"{folder}/y.npy"), told


def peer_case(folder, name, model, x):
    case = f"{folder}/peer-{name}-{len(x)}"
    os.makedirs(f"{case}/test_data_set_0", exist_ok=True)
    os.symlink(os.path.abspath(model), f"{case}/model.onnx")
    with open(f"{case}/test_data_set_0/input_0.pb", "wb") as file:
        file.write(numpy_helper.from_array(x, "x").SerializeToString())
    print(case)


def make(xcvm, base):
    for name, (network, shape, opset) in NETWORKS.items():
        folder = f"{base}/{name}"
        os.makedirs(folder)
        torch.manual_seed(5)
        export(network(), shape, opset, f"{folder}/model.onnx")
        x = data(shape, f"{folder}/data.npz")[:max(SIZES)]
        train = [xcvm, "train", f"{folder}/model.onnx", "-d", f"{folder}/data.npz", "-l", "labels=labels", "--loss",
                 "softmax_cross_entropy", "--epochs", "3", "-b", "20", "--threads", "1"]
        for form, options in (("onnx", []), ("bin", []), ("training.onnx", ["--training-form"])):
            run(*train, *options, "-o", f"{folder}/trained.{form}")
        quantize = [xcvm, "quantize", "-d", f"{folder}/data.npz", "-b", "20"]
        run(*quantize, f"{folder}/trained.onnx", "-o", f"{folder}/int8.onnx")
        run(*quantize, f"{folder}/trained.training.onnx", "-o", f"{folder}/int8.bin")
        run(xcvm, "compile", "--inference", "--emit", "onnx", f"{folder}/trained.training.onnx", "-o", f"{folder}/plain.onnx")
        for size in SIZES:
            parts = [x[i:i + size] for i in range(0, len(x) - size + 1, size)]
            results = {"c": [run_c(xcvm, folder, f"{folder}/trained.onnx", size, p) for p in parts]}
            for model in ("trained.onnx", "trained.bin", "int8.onnx", "int8.bin", "plain.onnx"):
                results[model] = [run_vm(xcvm, folder, f"{folder}/{model}", p)[0] for p in parts]
            results["inference"] = [run_vm(xcvm, folder, f"{folder}/trained.training.onnx", p, "--inference")[0] for p in parts]
            by_letter = [run_vm(xcvm, folder, f"{folder}/trained.training.onnx", p) for p in parts]
            results["letter"] = [y for y, _ in by_letter]
            assert all("results depend on the batch" in told and "--inference" in told for _, told in by_letter)
            np.savez(f"{folder}/results-{size}.npz", **{k: np.concatenate(v) for k, v in results.items()})
            for model in ("trained", "int8", "plain"):
                peer_case(folder, f"{model}.onnx", f"{folder}/{model}.onnx", x[:size])


def unchanged(before, after):
    """All but the weights, the attribute and the results of BatchNormalization, and the inputs of Dropout with the constants
    that nothing else reads."""
    reads = lambda nodes: {name for n in nodes for name in n.input}
    modes = {n.input[2] for n in before.graph.node if n.op_type == "Dropout" and len(n.input) > 2}
    gone = modes - reads(n for n in before.graph.node if n.op_type != "Dropout") - {o.name for o in before.graph.output}
    strip = lambda m, gone: (m.ir_version, m.producer_name, m.doc_string, m.graph.name, [o.SerializeToString() for o in m.opset_import],
                       [p.SerializeToString() for p in m.metadata_props], [i.SerializeToString() for i in m.graph.input],
                       [o.SerializeToString() for o in m.graph.output], [(t.name, t.dims) for t in m.graph.initializer],
                       [n.name if n.op_type in ("BatchNormalization", "Dropout") else n.SerializeToString() for n in m.graph.node
                        if n.op_type != "Constant" or n.output[0] not in gone])
    return strip(before, gone) == strip(after, set())


def judge(base):
    failed = compared = 0
    for name, (network, shape, _) in NETWORKS.items():
        folder = f"{base}/{name}"
        trained = onnx.load(f"{folder}/trained.onnx")
        onnx.checker.check_model(trained)
        if not unchanged(onnx.load(f"{folder}/model.onnx"), trained):
            print(f"{name}: trained.onnx is not the model that was trained")
            failed += 1
        weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in trained.graph.initializer}
        peer = network().eval()
        own = peer.state_dict()
        peer.load_state_dict({k: weights.get(k, v) for k, v in own.items()})
        assert all(k in weights for k in own if not k.endswith("num_batches_tracked"))
        x = torch.from_numpy(np.load(f"{folder}/data.npz")["x"][:max(SIZES)])
        with torch.no_grad():
            expected = peer(x).numpy()
        scale = expected.max() - expected.min()
        results = []
        for size in SIZES:
            results += [(f"{k} by {size}", v) for k, v in np.load(f"{folder}/results-{size}.npz").items()]
            for case in glob.glob(f"{folder}/peer-*-{size}"):
                with open(f"{case}/test_data_set_0/output_0.pb", "rb") as file:
                    y = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
                results.append((f"{os.path.basename(case)} in ONNX Runtime", y))
        rows = {what: y for what, y in results if "ONNX Runtime" not in what and not what.startswith("letter")}
        for what in rows:
            # For every form: the result of an example does not depend on other examples.
            other = rows[what.rsplit(" ", 1)[0] + f" {max(SIZES)}"]
            if np.abs(rows[what] - other[:len(rows[what])]).max() > 1e-5 * scale:
                print(f"{name}: {what}: another result than in a batch")
                failed += 1
        for what, y in results:
            error = np.abs(y - expected[:len(y)]).max() / scale
            bound = 0.05 if "int8" in what else 1e-5
            compared += 1
            # The result by ONNX's definition must differ, or the test would detect nothing.
            if (error < 0.01) if what.startswith("letter") else not error <= bound:
                print(f"{name}: {what}: {error:.2g} of the range")
                failed += 1
    print(f"{compared} results compared with PyTorch's eval(), {failed} differ")
    return failed


if sys.argv[3] == "make":
    make(sys.argv[1], sys.argv[2])
else:
    sys.exit(judge(sys.argv[2]) > 0)

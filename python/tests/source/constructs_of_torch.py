"""Determine what compilers of torch do with each construct, and write source/constructs.json.

Run once by hand with the torch whose version the file then names: python3 constructs_of_torch.py
"""

import copy
import functools
import inspect
import io
import json
import multiprocessing
import sys
import warnings
from pathlib import Path

import torch
from constructs import CONSTRUCTS

import xcvm

warnings.filterwarnings("ignore")


@functools.cache
def object_of(made):
    return made().eval() if isinstance(made, type) else made


def outcome(function, arguments):
    try:
        with torch.no_grad():
            return function(*copy.deepcopy(arguments))
    except Exception as error:
        return type(error).__name__


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, str) and isinstance(b, str):
        # Exceptions of other libraries have types of their own.
        return True
    return type(a) is type(b) and a == b


def right(function, eager, calls):
    return [same(outcome(function, c), outcome(eager, c)) for c in calls]


def script(made, calls):
    try:
        compiled = torch.jit.script(object_of(made))
    except Exception:
        return "no", None
    return ("yes" if all(right(compiled, object_of(made), calls)) else "wrong"), compiled


def tensors_only(arguments):
    return all(isinstance(a, torch.Tensor) or isinstance(a, list) and all(isinstance(i, torch.Tensor) for i in a) for a in arguments)


def trace(made, calls):
    if not all(map(tensors_only, calls)):
        return "constants"
    try:
        traced = torch.jit.trace(object_of(made), copy.deepcopy(calls[0]), check_trace=False)
    except Exception:
        return "no"
    answers = right(traced, object_of(made), calls)
    return "yes" if all(answers) else "frozen" if answers[0] else "wrong"


def number_or_array(argument):
    if isinstance(argument, list):
        return [item.numpy() for item in argument]
    return argument.numpy() if isinstance(argument, torch.Tensor) else torch.tensor(argument, dtype=torch.float64 if isinstance(argument, float) else None).numpy()


def export(made, compiled, calls):
    if compiled is None:
        return "-"
    file = io.BytesIO()
    try:
        names = list(inspect.signature(getattr(object_of(made), "forward", object_of(made))).parameters)
        sizes = {
            name: [axis for axis in range(calls[0][i].ndim) if len({call[i].shape[axis] for call in calls}) > 1]
            for i, name in enumerate(names[: len(calls[0])])
            if isinstance(calls[0][i], torch.Tensor)
        }
        dynamic = {name: axes for name, axes in sizes.items() if axes}
        torch.onnx.export(compiled, copy.deepcopy(calls[0]), file, opset_version=16, input_names=names, dynamic_axes=dynamic or None)
    except Exception:
        return "no"
    try:
        program = xcvm.compile(file.getvalue())
    except xcvm.Error:
        return "invalid"
    eager = object_of(made)
    for arguments in calls:
        inputs = [number_or_array(argument) for argument in arguments][: len(program.inputs)]
        wanted = outcome(eager, arguments)
        got = outcome(lambda *values: [torch.from_numpy(v.numpy()) for v in (lambda r: r if isinstance(r, (list, tuple)) else [r])(program(*values))], inputs)
        flat_wanted = list(wanted.values()) if isinstance(wanted, dict) else list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
        if isinstance(wanted, str):
            continue
        if isinstance(got, str) or not same([g for g in got], flat_wanted):
            return "wrong"
    return "yes"


def answers(made, calls):
    """Ask in a process of its own, since some exports crash."""
    receive, send = multiprocessing.Pipe(False)

    def ask():
        scripted, compiled = script(made, calls)
        send.send(scripted)
        send.send(trace(made, calls))
        send.send(export(made, compiled, calls))

    process = multiprocessing.get_context("fork").Process(target=ask)
    process.start()
    process.join()
    send.close()
    found = []
    while len(found) < 3:
        try:
            found.append(receive.recv())
        except EOFError:
            found.append("crash")
    return found


def main():
    table = {}
    for _, made, calls, _ in CONSTRUCTS:
        table[made.__name__] = answers(made, calls)
        print(made.__name__, *table[made.__name__], file=sys.stderr)
    path = Path(__file__).with_name("constructs.json")
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table.items())
    path.write_text(f'{{\n "torch": {json.dumps(torch.__version__)},\n "constructs": {{\n{rows}\n }}\n}}\n')


if __name__ == "__main__":
    main()

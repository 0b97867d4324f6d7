"""References that calls keep, by a debug interpreter (Debian's python3-dbg).

The extension modules must be compiled with -DPy_DEBUG, so that they count as the interpreter does: scripts/python_references.sh
does that. The number of calls is an argument.
"""

import array
import copy
import gc
import pickle
import sys

from support import ADD, COUNTER, DIGITS, program, unary

import xcvm

sys.modules["numpy"] = None  # NumPy is of the other interpreter, and failing imports of it keep references

CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
HOST = (
    'input x f32[4]\noutput y f32[4]\n$1 = In(name="x")\n'
    '$2 = HostCall([$1], function="f", dtypes=[1], ranks=[1])\nOut($2, name="y")\n'
)
PRINT = 'input x f32[4]\noutput y f32[4]\n$1 = In(name="x")\nPrint([$1])\nOut($1, name="y")\n'
TWO = 'input x f32[4]\noutput y f32[4]\noutput z f32[4]\n$1 = In(name="x")\n$2 = Neg($1)\nOut($1, name="y")\nOut($2, name="z")\n'


def kept_references(call, calls):
    for _ in range(min(100, calls)):
        call()
    gc.collect()
    before = sys.gettotalrefcount()
    for _ in range(calls):
        call()
    gc.collect()
    return sys.gettotalrefcount() - before


def main():
    add = program(ADD, threads=1)
    session = add.session(threads=1)
    x, wrong = array.array("f", [0, 1, 2, 3]), array.array("f", [0])
    data = xcvm.assemble("xcvm 1\n" + ADD)

    def attempt(call, *kinds):
        def run():
            try:
                call()
            except kinds:
                return
            raise AssertionError("nothing was raised")

        return run

    def fail(*args):
        raise LookupError("no such luck")

    class Own:
        """A callable in a cycle with its session."""

        def __call__(self, value):
            return value

    def make_cycle():
        own = Own()
        own.session = host.session(functions={"f": own}, threads=1)
        own.session(x)

    host, talk, two = program(HOST, threads=1), program(PRINT, threads=1), program(TWO, threads=1)
    echo, failing = host.session(functions={"f": lambda v: v}), host.session(functions={"f": fail})
    listening, deaf = talk.session(print=lambda text: None), talk.session(print=fail)
    counter, words = program(COUNTER).session(threads=1), unary("str", "2")
    out = array.array("f", [0] * 4)
    model = (DIGITS / "model.onnx").read_bytes()
    digits = xcvm.compile(model, dim={"batch": 1})
    image = memoryview(bytes(256)).cast("f", (1, 1, 8, 8))
    few = max(1, CALLS // 100)
    cases = {
        "call": lambda: add(x),
        "keyword": lambda: add(x=x),
        "run": lambda: session.run({"x": x}),
        "several outputs": lambda: (two(x), two.run({"x": x})),
        "lists and numbers": lambda: (unary("f32", "")(3.5), words(["a", "b"]).tolist(), words((b"a", "b")).tolist()),
        "bound outputs": lambda: (session.bind_output("y", out), session(x), session.bind_output("y", None)),
        "states": lambda: (counter(1.0), counter.state("total"), counter.set_state("total", 2.0), counter.states, counter.reset()),
        "saved states": lambda: counter.restore_states(counter.save_states()),
        "host function": lambda: echo(x),
        "print": lambda: listening(x),
        "cycle": make_cycle,
        "tolist": lambda: add(x).tolist(),
        "buffer": lambda: memoryview(add(x)).tolist(),
        "items": lambda: (add(x).shape, add(x).dtype, add(x).nbytes, repr(add(x)), len(add(x)), add(x)._repr_html_()),
        "dlpack": lambda: add(x).__dlpack__(),
        "exchange": lambda: add(Exchange(add(x))),
        "pickle": lambda: (pickle.loads(pickle.dumps(add(x))), copy.copy(add), pickle.loads(pickle.dumps(add))(x)),
        "load": lambda: xcvm.load(data).session(threads=1)(x),
        "parameters": lambda: (add.inputs, add.info, add.states),
        "profile": lambda: session.profile(x),
        "picture": lambda: digits._repr_svg_(),
        "compile": lambda: xcvm.compile(model, progress=lambda name, fraction: None)(image),
        "check": lambda: xcvm.check(model),
        "export": lambda: xcvm.export_c(digits),
        "failure": attempt(lambda: add(wrong), xcvm.ShapeMismatch),
        "failures of conversion": attempt(lambda: add([1, object(), 2, 3]), Exception),
        "failure of names": attempt(lambda: add(z=x), xcvm.InvalidArgument),
        "failure of a host function": attempt(lambda: failing(x), LookupError),
        "failure of print": attempt(lambda: deaf(x), LookupError),
        "failure of loading": attempt(lambda: xcvm.load(b"none"), xcvm.InvalidProgram),
        "failure of options": attempt(lambda: add.session(threads="two"), TypeError),
        "failure of compiling": attempt(lambda: xcvm.compile(b"none"), xcvm.InvalidModel),
        "failure of progress": attempt(lambda: xcvm.compile(model, progress=fail), LookupError),
    }
    slow = {"compile", "check", "export", "picture", "failure of progress"}
    failed = 0
    for name, call in cases.items():
        calls = few if name in slow else CALLS
        kept = kept_references(call, calls)
        # The interpreter itself keeps some, as in caches.
        if kept > min(20, calls // 2):
            failed += 1
            print(f"{name}: {kept} references are kept by {calls} calls")
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


class Exchange:
    """An object with DLPack alone."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


if __name__ == "__main__":
    main()

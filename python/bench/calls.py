"""Cost of a call from Python beside C, and of the import: python3 calls.py BUILD.

BUILD is the build directory of the C libraries. The package must be importable. Each number is a median over batches of
100 calls; C and Python alternate, so that both see the same load.
"""

import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import xcvm

ROOT = pathlib.Path(__file__).resolve().parents[2]
TWO = 'xcvm 1\ninput x f32[16]\noutput y f32[16]\n$1 = In(name="x")\n$2 = Relu($1)\n$3 = Neg($2)\nOut($3, name="y")\n'
ROUNDS, BATCHES, CALLS = 9, 40, 100


def python_time(call, x):
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            call(x)
        times.append((time.perf_counter_ns() - begin) / CALLS)
    return statistics.median(times)


def measure(name, path, c_program):
    program = xcvm.load(path, threads=1)
    session = program.session(threads=1)
    x = np.zeros([size if isinstance(size, int) else 1 for size in program.inputs[0].shape], np.float32)
    rows = []
    for _ in range(ROUNDS):
        c = float(subprocess.run([c_program, path, str(BATCHES)], check=True, capture_output=True, text=True).stdout)
        rows.append((c, python_time(program, x), python_time(session, x)))
    # Other work on the machine disturbs medians; the least ones of the rounds are disturbed least.
    for what, of in (("median", statistics.median), ("least", min)):
        c, program_time, session_time = (of(column) for column in zip(*rows))
        more = f"program +{(program_time - c) / 1e3:5.2f} us  session +{(session_time - c) / 1e3:5.2f} us"
        print(f"{name:18} {what:6} C {c / 1e3:7.2f} us  {more}")


def import_time():
    code = "import time; t = time.perf_counter(); import xcvm; print(time.perf_counter() - t)"
    path = str(pathlib.Path(xcvm.__file__).parents[1])
    runs = [float(subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True).stdout) for _ in range(15)]
    print(f"import xcvm              {statistics.median(runs) * 1e3:.1f} ms (least {min(runs) * 1e3:.1f})")


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main(build):
    print(processor(), "Python", platform.python_version())
    with tempfile.TemporaryDirectory() as folder:
        c_program = f"{folder}/calls"
        flags = ["-O2", f"-I{ROOT}/include", f"-L{build}", f"-Wl,-rpath,{pathlib.Path(build).resolve()}"]
        subprocess.run(["cc", *flags, str(pathlib.Path(__file__).with_name("calls.c")), "-o", c_program, "-lxcvm"], check=True)
        two = f"{folder}/two.bin"
        pathlib.Path(two).write_bytes(xcvm.assemble(TWO))
        measure("two instructions", two, c_program)
        digits = f"{folder}/digits.bin"
        pathlib.Path(digits).write_bytes(xcvm.compile(ROOT / "examples/digits/model.onnx", dim={"batch": 1}).source)
        measure("digits", digits, c_program)
    import_time()


if __name__ == "__main__":
    main(sys.argv[1])

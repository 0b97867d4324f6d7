"""The process around: import, threads, signals, fork, subinterpreters, shutdown."""

import os
import threading
import unittest

import numpy as np
from support import ADD, LONG_LOOP, program, python

import xcvm


class Process(unittest.TestCase):
    def check(self, code, *args, **environment):
        done = python(code, *args, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.strip()

    def test_import_loads_neither_numpy_nor_the_compiler(self):
        loaded = self.check("import sys, xcvm\nprint([n for n in sys.modules if 'numpy' in n or n == 'xcvm._compiler'])")
        self.assertEqual(loaded, "[]")

    def test_calls_work_without_numpy(self):
        code = (
            "import sys\nsys.modules['numpy'] = None\nimport array\nfrom support import *\n"
            "p = program(ADD)\nprint(p(array.array('f', [0, 1, 2, 3])).tolist())\n"
            "print(p([0, 1, 2, 3]).tolist(), unary('i64', '2x2')([[1, 2], (3, 4)]).tolist())\n"
            "try: p([object()])\nexcept TypeError as error: print('NumPy' in str(error))"
        )
        self.assertEqual(self.check(code), "[1.0, 3.0, 5.0, 7.0]\n[1.0, 3.0, 5.0, 7.0] [[1, 2], [3, 4]]\nTrue")

    def test_interrupt_ends_a_run(self):
        code = (
            "import os, signal, threading, time\nfrom support import *\n"
            "s = program(LONG_LOOP).session()\n"
            "for call in range(3):\n"
            "    sent = []\n"
            "    def send():\n"
            "        time.sleep(0.2); sent.append(time.monotonic()); os.kill(os.getpid(), signal.SIGINT)\n"
            "    threading.Thread(target=send).start()\n"
            "    try: s(FOREVER)\n"
            "    except KeyboardInterrupt: print(time.monotonic() - sent[0] < 0.1)\n"
            "print(int(s(5)))"
        )
        self.assertEqual(self.check(code), "True\nTrue\nTrue\n5")

    LONG_COMPILATION = (
        "import os, signal, sys, threading, time\nimport xcvm\nfrom onnx import helper\n"
        "names = ['x'] + [f'v{i}' for i in range(30000)]\n"
        "nodes = [helper.make_node('Relu' if i % 2 else 'Sigmoid', [a], [b]) for i, (a, b) in enumerate(zip(names, names[1:]))]\n"
        "ends = [helper.make_tensor_value_info(name, 1, [4]) for name in (names[0], names[-1])]\n"
        "graph = helper.make_graph(nodes, 'g', ends[:1], ends[1:])\n"
        "model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13)], ir_version=8).SerializeToString()\n"
    )

    def test_interrupt_ends_a_compilation(self):
        code = self.LONG_COMPILATION + (
            "begin = time.monotonic(); xcvm.compile(model); whole = time.monotonic() - begin\n"
            "for share in (0.1, 0.2, 0.3):\n"
            "    sent = []\n"
            "    def send():\n"
            "        time.sleep(whole * share); sent.append(time.monotonic()); os.kill(os.getpid(), signal.SIGINT)\n"
            "    threading.Thread(target=send).start()\n"
            "    try: xcvm.compile(model); print('finished')\n"
            "    except KeyboardInterrupt: print('interrupted' if time.monotonic() - sent[0] < whole / 2 else 'late')\n"
        )
        self.assertEqual(self.check(code), "\n".join(["interrupted"] * 3))

    def test_a_handler_that_raises_nothing_repeats_the_compilation(self):
        code = self.LONG_COMPILATION + (
            "seen = []\nsignal.signal(signal.SIGINT, lambda *a: seen.append(1))\n"
            "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "print(xcvm.compile(model).info['instructions'] > 30000, seen)"
        )
        self.assertEqual(self.check(code), "True [1]")

    def test_a_progress_function_that_raises_ends_the_compilation(self):
        code = self.LONG_COMPILATION + (
            "steps = []\n"
            "def progress(name, fraction): steps.append(name); raise RuntimeError('enough')\n"
            "try: xcvm.compile(model, progress=progress)\nexcept RuntimeError as error: print(error, len(steps))"
        )
        self.assertEqual(self.check(code), "enough 1")

    # Work of seconds in each of several calls, and a thread that counts while the main one works.
    TAPE = (
        "import os, signal, threading, time\nimport numpy as np\nimport xcvm\n"
        "x = xcvm.parameter(np.random.default_rng(0).normal(size=(300, 300)).astype('f') / 18)\n"
        "def chain(x, n):\n    y = x\n    for _ in range(n): y = xcvm.matmul(y, x)\n    return xcvm.sum(y)\n"
        "once = xcvm.static(lambda x: chain(x, 4))\n"
        "def forever(call):\n    while True: call()\n"
    )

    def test_interrupt_ends_tape_calls(self):
        code = self.TAPE + (
            "def lazily():\n    with xcvm.lazy():\n        return float(chain(xcvm.asarray(np.asarray(x.detach())), 20))\n"
            "loss = chain(x, 10)\n"
            "for call in (lambda: loss.backward(retain_graph=True), lambda: chain(x.detach(), 20), lambda: once(x), lazily):\n"
            "    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "    try: forever(call)\n    except KeyboardInterrupt: print('interrupted')\n"
            "x.grad = None\nxcvm.sum(x * 2).backward()\n"
            "print(float(x.grad[0, 0]))"
        )
        self.assertEqual(self.check(code), "\n".join(["interrupted"] * 4 + ["2.0"]))

    def test_other_threads_go_on_during_tape_calls(self):
        code = self.TAPE + (
            "import sys\nsys.setswitchinterval(1000)\n"  # the lock changes hands only where it is released
            "loss = chain(x, 20)\nseen = []\n"
            "for call in (lambda: loss.backward(retain_graph=True), lambda: chain(x.detach(), 20)):\n"
            "    begun, go_on = threading.Event(), threading.Event()\n"
            "    def other():\n        begun.set(); go_on.wait(); seen.append('other')\n"
            "    thread = threading.Thread(target=other); thread.start(); begun.wait()\n"
            "    go_on.set()\n"
            "    for _ in range(1000):\n"  # one call may end before the other thread wakes up
            "        call()\n"
            "        if seen[-1:] == ['other']: break\n"
            "    seen.append('call'); thread.join()\n"
            "print(seen)"
        )
        self.assertEqual(self.check(code), "['other', 'call', 'other', 'call']")

    def test_callbacks_while_the_lock_is_released(self):
        code = self.TAPE + (
            "names = []\nloss = chain(x, 3)\n"
            "x.add_hook(lambda gradient: names.append(float(gradient[0, 0]) == float(gradient[0, 0])))\n"
            "x.tape.set_observer(lambda *event: names.append(event[0]))\n"
            "loss.backward()\nxcvm.matmul(x.detach(), x.detach())\nx.tape.set_observer(None)\n"
            "print(True in names, 'MatMul' in names)\n"
            "def fail(gradient): raise RuntimeError('in the hook')\n"
            "loss = chain(x, 3)\nx.add_hook(fail)\n"
            "try: loss.backward()\nexcept RuntimeError as error: print(error)"
        )
        self.assertEqual(self.check(code), "True True\nin the hook")

    WORK = (
        "import os, signal, threading\nimport numpy as np\nimport xcvm\nfrom onnx import helper, numpy_helper\n"
        "g = np.random.default_rng(0)\nnames = ['x', *'abcdef']\n"
        "nodes = [helper.make_node('MatMul', [a, 'w' + b], [b]) for a, b in zip(names, names[1:])]\n"
        "weights = [numpy_helper.from_array((g.normal(size=(256, 256)) / 16).astype('f'), 'w' + b) for b in names[1:]]\n"
        "ends = [helper.make_tensor_value_info(name, 1, ['n', 256]) for name in 'xf']\n"
        "graph = helper.make_graph(nodes, 'g', ends[:1], ends[1:], weights)\n"
        "model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13)], ir_version=8).SerializeToString()\n"
        "x = g.normal(size=(2000, 256)).astype('f')\n"
        "def train(**options): return xcvm.train(model, data={'x': x, 'labels': x}, loss='mse', optimizer='sgd:lr=1e-6', **options)\n"
    )

    def test_interrupt_ends_quantization_and_training(self):
        code = self.WORK + (
            "for call in (lambda: xcvm.quantize(model, data=({'x': x} for _ in range(10000))), lambda: train(batch=2000, epochs=10000)):\n"
            "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "    try: call(); print('finished')\n    except KeyboardInterrupt: print('interrupted')\n"
        )
        self.assertEqual(self.check(code), "interrupted\ninterrupted")

    def test_a_handler_that_raises_nothing_lets_training_go_on(self):
        code = self.WORK + (
            "seen = []\nsignal.signal(signal.SIGINT, lambda *a: seen.append(1))\n"
            "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "steps = 0\n"
            "while not seen:\n    trained = train(batch=100, epochs=2)\n    steps += 1\n"
            "print(seen, steps > 0)"
        )
        self.assertEqual(self.check(code), "[1] True")

    def test_interrupt_after_short_runs(self):
        code = (
            "import os, signal, threading, time\nfrom support import *\n"
            "s = program(LONG_LOOP).session()\n"
            "for i in range(1000): s(1)\n"
            "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "try: s(FOREVER)\nexcept KeyboardInterrupt: print('interrupted')"
        )
        self.assertEqual(self.check(code), "interrupted")

    def test_handler_that_raises_nothing(self):
        code = (
            "import os, signal, threading\nfrom support import *\n"
            "seen = []\nsignal.signal(signal.SIGINT, lambda *a: seen.append(1))\n"
            "s = program(LONG_LOOP).session()\n"
            "threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "print(int(s(2000000)), seen)"
        )
        self.assertEqual(self.check(code), "2000000 [1]")

    def test_ignored_interrupts_stay_ignored(self):
        code = (
            "import os, signal, threading\nfrom support import *\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "s = program(LONG_LOOP).session()\n"
            "threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "print(int(s(2000000)))"
        )
        self.assertEqual(self.check(code), "2000000")

    def test_fork(self):
        # With an address sanitizer the child may wait for a lock of the allocator, which a thread of the parent had.
        for threads in (1,) if os.environ.get("XCVM_SANITIZED") else (1, 4):
            code = (
                "import os, sys\nimport numpy as np\nfrom support import *\n"
                "p = unary('f32', '1000x100', 'Exp'); x = np.ones((1000, 100), np.float32)\n"
                f"s = p.session(threads={threads}); s(x)\n"
                "pid = os.fork()\nif pid == 0:\n    s(x); p(x); del s, p; os._exit(7)\n"
                "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
            )
            self.assertEqual(self.check(code), "7")

    def test_multiprocessing(self):
        code = (
            "import multiprocessing as m\nfrom support import *\np = program(ADD)\n"
            "def call(p): return p([0, 1, 2, 3]).tolist()\n"
            "for kind in ('fork', 'forkserver'):\n"
            "    with m.get_context(kind).Pool(2) as pool: print(pool.map(p, [[0, 1, 2, 3]] * 3)[2].tolist())"
        )
        self.assertEqual(self.check(code), "[1.0, 3.0, 5.0, 7.0]\n" * 1 + "[1.0, 3.0, 5.0, 7.0]")

    def test_shutdown_with_live_objects(self):
        code = (
            "from support import *\nimport sys, builtins\np = program(ADD); s = p.session(print=lambda t: s)\n"
            "y = s([1, 2, 3, 4])\nbuiltins.keep = [p, s, y, memoryview(y)]\nsys.modules['kept'] = keep"
        )
        self.check(code)

    def test_exit_while_a_thread_runs(self):
        code = (
            "import threading, time\nfrom support import *\ns = program(LONG_LOOP).session()\n"
            "threading.Thread(target=s, args=(FOREVER,), daemon=True).start()\ntime.sleep(0.1)"
        )
        self.check(code)

    def test_subinterpreters(self):
        code = (
            "import sys, _xxsubinterpreters as sub\nfrom support import *\np = program(ADD)\n"
            "for i in range(3):\n"
            "    id = sub.create()\n"
            "    sub.run_string(id, 'import sys; sys.path[:0] = %r\\nfrom support import *\\nimport array\\n'\n"
            "        'x = array.array(\"f\", [0, 1, 2, 3])\\nassert program(ADD)(x).tolist() == [1, 3, 5, 7]\\n'\n"
            "        'try: program(ADD)(array.array(\"d\", [0]))\\nexcept TypeError: pass' % sys.path)\n"
            "    sub.destroy(id)\n"
            "print(p([0, 1, 2, 3]).tolist())"
        )
        self.assertEqual(self.check(code), "[1.0, 3.0, 5.0, 7.0]")


class Threads(unittest.TestCase):
    def test_one_program_from_many_threads(self):
        add = program(ADD, threads=1)
        failures = []

        def work(seed):
            x = np.random.default_rng(seed).normal(size=4).astype(np.float32)
            for _ in range(500):
                if not np.array_equal(np.asarray(add(x)), x + np.array([1, 2, 3, 4], np.float32)):
                    failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_the_lock_is_released_during_runs(self):
        session = program(LONG_LOOP).session()
        counted = []
        thread = threading.Thread(target=lambda: session.run({"n": 3000000}))
        thread.start()
        while thread.is_alive():
            counted.append(1)
        self.assertGreater(len(counted), 1000)


if __name__ == "__main__":
    unittest.main()

"""Programs and sessions: calls, errors, states, bound outputs, limits, profiles, pickling."""

import array
import copy
import gc
import json
import pickle
import tempfile
import threading
import time
import unittest

import numpy as np
from support import ADD, COUNTER, FOREVER, LONG_LOOP, program, unary

import xcvm


class Calls(unittest.TestCase):
    def setUp(self):
        self.program = program(ADD)
        self.x = np.array([0, 1, 2, 3], np.float32)

    def test_position_name_and_dict(self):
        for y in (self.program(self.x), self.program(x=self.x), self.program.run({"x": self.x})["y"]):
            self.assertIsInstance(y, xcvm.Tensor)
            self.assertEqual(y.tolist(), [1, 3, 5, 7])

    def test_several_outputs_are_a_tuple(self):
        two = program(
            'input x f32[2]\noutput a f32[2]\noutput b f32[2]\n$1 = In(name="x")\n$2 = Neg($1)\n$3 = Abs($2)\n'
            'Out($2, name="a")\nOut($3, name="b")\n'
        )
        a, b = two([1.0, 2.0])
        self.assertEqual((a.tolist(), b.tolist()), ([-1, -2], [1, 2]))
        self.assertEqual(list(two.run({"x": [1.0, 2.0]})), ["a", "b"])

    def test_parameters(self):
        (x,) = program('input x f32[Nx3x?]\noutput y f32[...]\n$1 = In(name="x")\nOut($1, name="y")\n').inputs
        self.assertEqual((x.name, x.kind, x.dtype, x.shape), ("x", "tensor", "f32", ("N", 3, None)))
        (y,) = program('output y f32[...]\nOut(f32[1] 1, name="y")\n').outputs
        self.assertIsNone(y.shape)
        self.assertEqual(repr(self.program), "<xcvm.Program (x: f32[4]) -> (y: f32[4])>")
        self.assertEqual(self.program.info["instructions"], 3)

    def test_wrong_inputs_say_which_and_what(self):
        with self.assertRaisesRegex(xcvm.TypeMismatch, r'input "x" is declared as f32\[4\], but was given f64\[4\]'):
            self.program(self.x.astype("f8"))
        with self.assertRaisesRegex(xcvm.ShapeMismatch, r'input "x"'):
            self.program(self.x[:2])
        with self.assertRaisesRegex(xcvm.InvalidArgument, 'there is no input "z"; the program has "x"'):
            self.program(z=self.x)
        with self.assertRaisesRegex(xcvm.InvalidArgument, 'input "x" is missing'):
            self.program()
        with self.assertRaisesRegex(TypeError, "has 1 inputs, but 2 were given"):
            self.program(self.x, self.x)
        with self.assertRaisesRegex(TypeError, "'x' is given twice"):
            self.program(self.x, x=self.x)
        self.assertEqual(self.program(self.x).tolist(), [1, 3, 5, 7])

    def test_errors_have_status_instruction_and_node(self):
        gather = program(
            'input i i64[]\noutput y f32[]\n$1 = In(name="i")\n$2 = Gather(f32[2] 1 2, $1, axis=0) node="look up"\n'
            'Out($2, name="y")\n'
        )
        with self.assertRaises(xcvm.OutOfRange) as caught:
            gather(7)
        error = caught.exception
        self.assertIsInstance(error, IndexError)
        self.assertEqual((error.status, error.instruction, error.node, error.pc), ("OUT_OF_RANGE", "Gather", "look up", 1))
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))

    def test_every_status_has_a_class(self):
        for number, name, _ in xcvm._run._statuses():
            if name != "OK":
                self.assertEqual(xcvm.errors.from_status(number, "m", -1, "", "").status, name)

    def test_load_refuses_what_is_no_program(self):
        with self.assertRaises(xcvm.InvalidProgram):
            xcvm.load(b"nothing of the kind")
        with self.assertRaises(xcvm.InputOutputError):
            xcvm.load("/nowhere/at/all.bin")
        with self.assertRaises(TypeError):
            xcvm.load(7)

    def test_file_and_disassembly(self):
        data = xcvm.assemble("xcvm 1\n" + ADD)
        with tempfile.NamedTemporaryFile(suffix=".bin") as file:
            file.write(data)
            file.flush()
            loaded = xcvm.load(file.name)
            self.assertIn("Add(", loaded.disassemble())
            self.assertEqual(pickle.loads(pickle.dumps(loaded))(self.x).tolist(), [1, 3, 5, 7])
        self.assertIn("Add(", xcvm.load(data).disassemble())

    def test_copies_and_pickles(self):
        self.assertIs(copy.deepcopy(self.program), self.program)
        self.assertEqual(pickle.loads(pickle.dumps(self.program))(self.x).tolist(), [1, 3, 5, 7])

    def test_outputs_outlive_program_and_session(self):
        y = program(ADD).session()(self.x)
        gc.collect()
        self.assertEqual(y.tolist(), [1, 3, 5, 7])

    def test_lists_optionals_and_maps(self):
        sequence = program(
            'input s seq(f32)\noutput n i64[]\noutput t seq(f32)\n$1 = In(name="s")\n$2 = SequenceLength($1)\n'
            'Out($2, name="n")\nOut($1, name="t")\n'
        )
        n, t = sequence([self.x, self.x[:2]])
        self.assertEqual(int(n), 2)
        self.x[0] = 9  # the results do not share the caller's memory
        self.assertEqual([item.tolist() for item in t], [[0, 1, 2, 3], [0, 1]])
        optional = program(
            'input o optional(f32)\noutput b bool[]\n$1 = In(name="o")\n$2 = OptionalHasElement([$1])\nOut($2, name="b")\n'
        )
        self.assertEqual((bool(optional(None)), bool(optional(self.x))), (False, True))

    def test_identity_does_not_alias_the_input(self):
        same = unary("f32", "4")
        y = same(self.x)
        self.x[:] = 9
        self.assertEqual(y.tolist(), [0, 1, 2, 3])


class Sessions(unittest.TestCase):
    def test_states(self):
        session = program(COUNTER).session()
        self.assertEqual([float(session(2.0)) for _ in range(3)], [2, 4, 6])
        self.assertEqual(session.states["total"].tolist(), 6)
        session.set_state("total", np.float32(10).reshape(()))
        self.assertEqual(float(session(1.0)), 11)
        other = pickle.loads(pickle.dumps(session))
        self.assertEqual(float(other(1.0)), 12)
        session.reset()
        self.assertEqual(float(session(1.0)), 1)
        saved = session.save_states()
        session(5.0)
        session.restore_states(saved)
        self.assertEqual(float(session(1.0)), 2)
        with self.assertRaisesRegex(xcvm.InvalidArgument, 'no state "sum"; the program has "total"'):
            session.state("sum")

    def test_program_calls_start_from_the_initial_states(self):
        counter = program(COUNTER)
        self.assertEqual([float(counter(2.0)) for _ in range(3)], [2, 2, 2])

    def test_states_keep_their_own_memory(self):
        text = 'input x f32[2]\noutput y f32[2]\nstate s f32[2]\n$1 = In(name="x")\n$2 = Load(name="s")\n'
        session = program(text + 'Store($1, name="s")\nOut($2, name="y")\n').session()
        x = np.array([1, 2], np.float32)
        session(x)
        x[:] = 7
        self.assertEqual(session(x).tolist(), [1, 2])
        own = np.array([3, 4], np.float32)
        session.set_state("s", own)
        own[:] = 0
        self.assertEqual(session(x).tolist(), [3, 4])

    def test_shared_states(self):
        counter = program(COUNTER)
        first = counter.session()
        second = counter.session(states_of=first)
        first(2.0)
        self.assertEqual(float(second(3.0)), 5)
        with self.assertRaises(TypeError):
            pickle.dumps(second)

    def test_bound_outputs(self):
        session = program(ADD).session()
        y = np.zeros(4, np.float32)
        session.bind_output("y", y)
        result = session(np.arange(4, dtype=np.float32))
        self.assertEqual(y.tolist(), [1, 3, 5, 7])
        self.assertEqual(np.asarray(result).ctypes.data, y.ctypes.data)
        session.bind_output("y", None)
        session(np.zeros(4, np.float32))
        self.assertEqual(y.tolist(), [1, 3, 5, 7])
        for bad in (y[::2], np.zeros(4, ">f4"), np.frombuffer(bytes(16), np.float32)):
            with self.assertRaises((BufferError, ValueError)):
                session.bind_output("y", bad)
        session.bind_output("y", np.zeros(3, np.float32))
        with self.assertRaises(xcvm.ShapeMismatch):
            session(np.zeros(4, np.float32))

    def test_limits(self):
        session = program(LONG_LOOP).session()
        begin = time.monotonic()
        with self.assertRaises(xcvm.OutOfTime) as caught:
            session.run({"n": FOREVER}, timeout=0.05)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertLess(time.monotonic() - begin, 5)
        with self.assertRaises(xcvm.OutOfTime):
            session.run({"n": 1000}, fuel=100)
        self.assertEqual(int(session(10)), 10)
        with self.assertRaises(ValueError):
            session.run({"n": 1}, timeout=-1)
        with self.assertRaises(xcvm.OutOfMemory) as caught:
            text = 'input x f32[1048576]\noutput y f32[2097152]\n$1 = In(name="x")\n$2 = Neg($1)\n'
            pair = program(text + '$3 = Concat([$1, $2], axis=0)\nOut($3, name="y")\n')
            pair.session(memory_limit=100000)(np.zeros(1 << 20, np.float32))
        self.assertIsInstance(caught.exception, MemoryError)

    def test_cancel_from_another_thread(self):
        session = program(LONG_LOOP).session()
        timer = threading.Timer(0.1, session.cancel)
        timer.start()
        with self.assertRaises(xcvm.Cancelled):
            session(FOREVER)
        timer.join()
        self.assertEqual(int(session(10)), 10)

    def test_a_session_serves_one_call_at_a_time(self):
        session = program(LONG_LOOP).session()
        errors = []

        def call():
            try:
                session(FOREVER)
            except xcvm.Error as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(0.1)
        with self.assertRaisesRegex(xcvm.InvalidArgument, "in use by another call"):
            session(1)
        session.cancel()
        thread.join()
        self.assertEqual(errors[0].status, "CANCELLED")

    def test_host_functions(self):
        text = (
            'input x f32[2]\noutput y f32[2]\n$1 = In(name="x")\n'
            '$2 = HostCall([$1], function="twice", dtypes=[1], ranks=[1])\nOut($2, name="y")\n'
        )
        twice = program(text)
        x = np.array([1, 2], np.float32)
        self.assertEqual(twice.session(functions={"twice": lambda v: np.asarray(v) * 2})(x).tolist(), [2, 4])

        def fail(_):
            raise LookupError("no such luck")

        session = twice.session(functions={"twice": fail})
        with self.assertRaisesRegex(LookupError, "no such luck"):
            session(x)
        with self.assertRaises(TypeError):
            twice.session(functions={"twice": lambda v: object()})(x)
        with self.assertRaises(TypeError):
            twice.session(functions={"twice": 3})
        with self.assertRaises(xcvm.Error):
            twice.session()(x)
        # A function that uses its own session, and a session that is part of a cycle.
        holder = []
        session = twice.session(functions={"twice": lambda v: holder[0](v)})
        holder.append(session)
        with self.assertRaisesRegex(xcvm.InvalidArgument, "in use by another call"):
            session(x)

    def test_print(self):
        lines = []
        talk = program('input x f32[2]\noutput y f32[2]\n$1 = In(name="x")\nPrint([$1])\nOut($1, name="y")\n')
        talk.session(print=lines.append)([1.0, 2.0])
        self.assertIn("1", "".join(lines))

        def fail(_):
            raise KeyError("print")

        with self.assertRaises(KeyError):
            talk.session(print=fail)([1.0, 2.0])

    def test_profile(self):
        session = program(ADD).session(threads=1)
        profile = session.profile(np.zeros(4, np.float32), runs=3)
        self.assertEqual((profile.runs, len(profile)), (3, 9))
        self.assertEqual([event.instruction for event in profile.events[:3]], ["In", "Add", "Out"])
        rows = {row.name: row for row in profile.table(by="kind")}
        self.assertEqual(rows["Add"].calls, 3)
        self.assertAlmostEqual(sum(row.share for row in profile), 1)
        self.assertIn("Add", str(profile))
        trace = json.loads(profile.to_chrome_trace())
        self.assertEqual(len(trace["traceEvents"]), 9)
        self.assertIn("Add", profile._repr_html_())

    def test_warm_up_and_memory(self):
        session = program(ADD).session(threads=1)
        session.warm_up()
        self.assertEqual(session.threads, 1)
        session(np.zeros(4, np.float32))
        self.assertGreater(session.memory["peak_bytes"], 0)
        self.assertIs(type(session.program), xcvm.Program)

    def test_interpreter_lock_may_be_kept(self):
        session = program(ADD).session(release_lock=False)
        self.assertEqual(session(np.zeros(4, np.float32)).tolist(), [1, 2, 3, 4])


class Holding(unittest.TestCase):
    """Arrays are free again as soon as a call has returned."""

    def test_buffers_can_be_resized_after_a_run(self):
        for call in (program(ADD), program(ADD).session()):
            data = array.array("f", [0, 1, 2, 3])
            self.assertEqual(call(data).tolist(), [1, 3, 5, 7])
            data.append(4)  # BufferError while a buffer is exported

    def test_buffers_cannot_be_resized_during_a_run(self):
        data = array.array("f", [0, 1])
        errors = []

        def resize(value):
            try:
                data.append(2)
            except BufferError as error:
                errors.append(error)
            return value

        text = (
            'input x f32[2]\noutput y f32[2]\n$1 = In(name="x")\n'
            '$2 = HostCall([$1], function="f", dtypes=[1], ranks=[1])\nOut($2, name="y")\n'
        )
        program(text).session(functions={"f": resize})(data)
        self.assertEqual(len(errors), 1)
        data.append(2)

    def test_large_arrays_are_not_copied(self):
        negate = program('input x f32[Nx1024]\noutput y f32[Nx1024]\n$1 = In(name="x")\n$2 = Neg($1)\nOut($2, name="y")\n')
        x = np.ones((25600, 1024), np.float32)  # 100 MB
        negate(x)
        before = xcvm._run._copied_bytes()
        y = np.asarray(negate(x))
        self.assertEqual(xcvm._run._copied_bytes(), before)
        self.assertEqual(float(y.max()), -1)
        self.assertTrue(y.flags.writeable)

    def test_wrong_names_of_output_dimensions(self):
        # The model claims that the output has as many rows as the input.
        twice = program(
            'input x f32[Nx8192]\noutput y f32[Nx8192]\n$1 = In(name="x")\n$2 = Concat([$1, $1], axis=0)\nOut($2, name="y")\n'
        )
        for rows in (2, 3, 2):
            self.assertEqual(twice(np.zeros((rows, 8192), np.float32)).shape, (2 * rows, 8192))


if __name__ == "__main__":
    unittest.main()

"""Differentiation, modules, optimizers, lazy tapes, static functions, and training of the digits."""

import pathlib
import tempfile
import unittest

import numpy as np
from support import DIGITS

import xcvm
import xcvm.array as xp
from xcvm import nn, optim

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])



class Transforms(unittest.TestCase):
    def test_backward_and_modes(self):
        x = xp.parameter(X)
        loss = xp.sum(x**2 * 3)
        loss.backward(retain_graph=True)
        loss.backward()
        np.testing.assert_allclose(x.grad, 12 * X)
        x.zero_grad()
        self.assertIsNone(x.grad)
        with xcvm.no_grad():
            self.assertFalse((x * 2).requires_grad)
        self.assertFalse(xcvm.no_grad()(lambda: x * 2)().requires_grad)
        self.assertTrue((x * 2).requires_grad)
        self.assertFalse((x * 2).detach().requires_grad)
        with self.assertRaises(xcvm.ShapeMismatch):
            (x * 2).backward()
        (x * 2).backward(np.ones_like(X))
        np.testing.assert_allclose(x.grad, 2 + 0 * X)

    def test_grad(self):
        cube = lambda v: xp.sum(v**3)
        np.testing.assert_allclose(xcvm.grad(cube)(X), 3 * X**2)
        np.testing.assert_allclose(xcvm.grad(lambda v: xp.sum(xcvm.grad(cube)(v)))(X), 6 * X)
        value, (a, b) = xcvm.value_and_grad(lambda u, v: xp.sum(u * v), argnums=(0, 1))(X, 2 * X)
        self.assertAlmostEqual(float(value), 2 * (X**2).sum())
        np.testing.assert_allclose(a, 2 * X)
        np.testing.assert_allclose(b, X)
        tree = {"w": [xp.asarray(X), xp.asarray(2.0, dtype="float64")], "unused": xp.asarray(X)}
        gradient = xcvm.grad(lambda p, s: xp.sum(p["w"][0] * p["w"][1]) * s)(tree, 3.0)
        np.testing.assert_allclose(gradient["w"][0], 6 + 0 * X)
        np.testing.assert_allclose(gradient["unused"], 0 * X)
        (value, extra), _ = xcvm.value_and_grad(lambda v: (xp.sum(v), "aux"), has_aux=True)(X)
        self.assertEqual(extra, "aux")
        self.assertFalse(value.requires_grad)
        with self.assertRaises(TypeError):
            xcvm.grad(cube, argnums=1)(X)
        with self.assertRaises(TypeError):
            xcvm.grad(lambda s: s)("text")

    def test_products(self):
        f = lambda v: xp.sum(v**3)
        np.testing.assert_allclose(xcvm.vjp(lambda v: v * v, [X], seed=xp.asarray(X))[1][0], 2 * X * X)
        value, change = xcvm.jvp(f, [X], [xp.asarray(np.ones_like(X))])
        self.assertAlmostEqual(float(change), 3 * (X**2).sum())
        np.testing.assert_allclose(xcvm.hvp(f, X, xp.asarray(X)), 6 * X * X)
        np.testing.assert_allclose(xcvm.jacobian(lambda v: v[0] * 2, X)[:, 0], 2 * np.eye(3))
        xcvm.check_gradients(f, [X], order=2)
        with self.assertRaises(xcvm.OutOfRange):
            xcvm.check_gradients(lambda v: xp.sum(v.detach() * v), [X])

    def test_custom_function(self):
        calls = []

        @xcvm.custom_function
        def clipped(x):
            calls.append("forward")
            return xp.clip(x, -1, 1)

        @clipped.backward
        def _(inputs, results, gradients):
            calls.append("backward")
            return [gradients[0]]

        x = xp.parameter(X)
        xp.sum(clipped(x) * 2).backward()
        np.testing.assert_allclose(x.grad, 2 + 0 * X)
        self.assertEqual(calls, ["forward", "backward"])
        both = xcvm.custom_function(lambda x: (x + 1, x + 2), results=2)
        a, b = both(x)
        np.testing.assert_allclose(b, X + 2)
        with self.assertRaisesRegex(TypeError, "has no gradient"):
            xp.sum(a).backward()


class Modules(unittest.TestCase):
    def test_layers(self):
        x = xp.asarray(X.astype(np.float32))
        linear = nn.Linear(3, 2)
        np.testing.assert_allclose(linear(x), X.astype(np.float32) @ np.asarray(linear.W).T + np.asarray(linear.b), rtol=1e-6)
        self.assertEqual([name for name, _ in linear.named_parameters()], ["W", "b"])
        self.assertEqual(nn.MLP(3, 5, 5, 2)(x).shape, (2, 2))
        image = xp.ones((2, 3, 8, 8))
        self.assertEqual(nn.Conv(3, 4, 3, padding=1)(image).shape, (2, 4, 8, 8))
        self.assertEqual(nn.Conv(3, 4, (3, 1), stride=2, bias=False)(image).shape, (2, 4, 3, 4))
        self.assertEqual(nn.Conv(3, 6, (3,), groups=3)(xp.ones((2, 3, 9))).shape, (2, 6, 7))
        self.assertEqual(nn.ConvTranspose(3, 4, 2, stride=2)(image).shape, (2, 4, 16, 16))
        norm = nn.BatchNorm(3)
        self.assertLess(abs(float(norm(image + 1).sum())), 1e-3)
        norm.eval()
        self.assertEqual(set(norm.state_dict()), {"gamma", "beta", "avg_mean", "avg_var", "N"})
        self.assertAlmostEqual(float(nn.LayerNorm(3)(x).sum()), 0, 5)
        self.assertEqual(nn.Embedding(5, 3)(xp.asarray([1, 4, 1])).shape, (3, 3))
        for kind in (nn.LSTM, nn.GRU):
            cell = kind(3, 4)
            first = np.asarray(cell(x))
            self.assertFalse(np.allclose(first, cell(x)))
            cell.reset()
            np.testing.assert_array_equal(first, cell(x))
        drop = nn.Dropout(0.5)
        self.assertTrue((np.asarray(drop(xp.ones(1000))) == 0).any())
        drop.eval()
        np.testing.assert_array_equal(drop(x), x)
        self.assertEqual(nn.max_pool(image, 2).shape, (2, 3, 4, 4))
        self.assertEqual(nn.average_pool(image, 3, 1, 1).shape, (2, 3, 8, 8))
        for call in [lambda: nn.Linear(3, -1), lambda: nn.Linear(3, 2, weight="no"), lambda: nn.Linear(3, 2, weight=np.ones((9, 9), np.float32))(x), lambda: linear(xp.ones((2, 4))), lambda: linear.missing]:
            with self.assertRaises((ValueError, AttributeError, xcvm.Error)):
                call()

    def test_losses(self):
        s = xp.asarray(X)
        target = [2, 0]
        log = X - np.log(np.exp(X).sum(1, keepdims=True))
        expected = -log[[0, 1], target]
        np.testing.assert_allclose(nn.cross_entropy(s, target), expected.mean())
        np.testing.assert_allclose(nn.cross_entropy(s, target, reduction="none"), expected)
        np.testing.assert_allclose(nn.pick_neg_log_softmax(s, target), expected)
        np.testing.assert_allclose(nn.mse_loss(s, s + 2), 4)

    def make(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.l1 = nn.Linear(3, 4)
                self.rest = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm(4)])
                self.scale = nn.Parameter(np.ones(4, np.float32))

            def forward(self, x):
                x = nn.relu(self.l1(x))
                for module in self.rest:
                    x = module(x)
                return x * self.scale

        return Net()

    def test_trees(self):
        net, other = self.make(), self.make()
        names = ["scale", "l1.W", "l1.b", "rest.0.W", "rest.0.b", "rest.1.gamma", "rest.1.beta"]
        self.assertEqual([name for name, _ in net.named_parameters()], names)
        self.assertEqual(len(net.state_dict()), len(names) + 3)
        x = xp.asarray(X.astype(np.float32))
        other.load_state_dict(net.state_dict())
        np.testing.assert_array_equal(net(x), other(x))
        with tempfile.TemporaryDirectory() as folder:
            for file in ("net.npz", "net.safetensors"):
                path = pathlib.Path(folder, file)
                net.save(path)
                fresh = self.make()
                fresh.load(path)
                for name, value in net.state_dict().items():
                    np.testing.assert_array_equal(fresh.state_dict()[name], value)
            with np.load(pathlib.Path(folder, "net.npz")) as arrays:
                np.testing.assert_array_equal(arrays["rest/0/W"], net.state_dict()["rest.0.W"])
                self.assertIn("rest/1/avg_mean", arrays)
        with self.assertRaisesRegex(ValueError, "'l1.W' is missing.*'l1.V' is unknown"):
            net.load_state_dict({"l1.V": 0})
        xp.sum(net(x) * x[:, :1]).backward()
        self.assertTrue(all(p.grad is not None for p in net.parameters()))
        net.zero_grad()
        self.assertTrue(all(p.grad is None for p in net.parameters()))
        net.requires_grad_(False)
        self.assertFalse(net(x).requires_grad)
        self.assertIn("l1=Linear(3, 4)", repr(net))
        self.assertFalse(net.eval().rest[1].training)

    def test_optimizers(self):
        for make in [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Adadelta, optim.LARS, optim.Lion]:
            w = xp.parameter(np.ones(4, np.float32))
            o = make([w])
            before = None
            for _ in range(3):
                loss = xp.sum(w * w)
                self.assertTrue(before is None or float(loss) < before, make)
                before = float(loss)
                loss.backward()
                o.step()
                o.zero_grad()
        o = optim.SGD([("w", w)], lr=0.5, momentum=0.9, nesterov=True, clip_norm=1.0)
        self.assertEqual(o.lr, 0.5)
        o.lr = 0.25
        self.assertEqual(o.lr, 0.25)
        seen = []
        o.add_hook(lambda name, parameter, gradient, step: seen.append((name, step)) or gradient * 0)
        xp.sum(w).backward()
        kept = np.asarray(w).copy()
        o.step()
        np.testing.assert_array_equal(w, kept)
        self.assertEqual(seen, [("w", 1)])
        state = o.state_dict()
        o.load_state_dict(state)
        for call in [lambda: optim.SGD([]), lambda: optim.SGD([w], rate=1), lambda: optim.SGD([3]), lambda: optim.Optimizer([w], "no")]:
            with self.assertRaises((ValueError, TypeError)):
                call()

    def test_resumed_training_has_the_same_bits(self):
        def train(net, o, steps):
            for _ in range(steps):
                nn.mse_loss(net(xp.asarray(X.astype(np.float32))), xp.zeros((2, 2))).backward()
                o.step()
                o.zero_grad()

        net = nn.MLP(3, 5, 2)
        o = optim.Adam(net, lr=0.01)
        train(net, o, 3)
        checkpoint = o.state_dict()
        train(net, o, 3)
        wanted = net.state_dict()
        other = nn.MLP(3, 5, 2)
        p = optim.Adam(other)
        p.load_state_dict(checkpoint)
        train(other, p, 3)
        for name, value in other.state_dict().items():
            self.assertEqual(value.tobytes(), wanted[name].tobytes(), name)


class Lazy(unittest.TestCase):
    def test_batches(self):
        def losses(tape):
            with tape:
                rows = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
                w = xp.parameter(np.eye(4, dtype=np.float32))
                parts = []
                for i, row in enumerate(rows):
                    h = xp.asarray(row[None])
                    for _ in range(i % 3 + 1):
                        h = nn.tanh(h @ w)
                    parts.append(xp.sum(h * h))
                total = xp.sum(xp.stack(parts))
                total.backward()
                return float(total), np.asarray(w.grad), tape.info()["calls"]

        eager = losses(xcvm.Tape("eager", threads=1))
        for batching in (None, "agenda", "depth", "timed"):
            got = losses(xcvm.lazy(batching=batching, threads=1))
            self.assertAlmostEqual(got[0], eager[0], 5)
            np.testing.assert_allclose(got[1], eager[1], rtol=1e-5, atol=1e-6)
        with xcvm.lazy() as tape:
            self.assertIs(xcvm.current_tape(), tape)
        self.assertIsNot(xcvm.current_tape(), tape)


class Static(unittest.TestCase):
    def test_steps(self):
        runs = []

        def train(wrap):
            xcvm.seed(3)
            net = nn.MLP(3, 8, 2)
            o = optim.SGD(net, lr=0.1, momentum=0.9)

            def step(x, y, scale=1.0):
                runs.append(1)
                loss = nn.cross_entropy(net(x), y) * scale
                loss.backward()
                o.step()
                o.zero_grad()
                return {"loss": loss}

            step = wrap(step)
            x, y = xp.asarray(X.astype(np.float32)), xp.asarray([1, 0])
            return [float(step(x, y)["loss"]) for _ in range(10)], step

        eager, _ = train(lambda f: f)
        runs.clear()
        static, step = train(xcvm.static)
        np.testing.assert_allclose(static, eager, rtol=1e-5)
        self.assertEqual(len(runs), 2)
        self.assertEqual(step.report()["replayed"], 8)
        self.assertGreater(len(step.dump()), 100)
        self.assertGreater(len(step.save()), 100)
        x, y = xp.asarray(X[:1].astype(np.float32)), xp.asarray([1])
        self.assertEqual(step(x, y, scale=2.0)["loss"].shape, ())
        self.assertEqual(step.report()["structures"], 2)
        step.enable(False)
        step(xp.asarray(X.astype(np.float32)), xp.asarray([1, 0]))
        with self.assertRaisesRegex(TypeError, "hashable"):
            step(x, y, scale=set())

    def test_guards(self):
        class Model:
            @xcvm.static
            def double(self, x, times):
                return [x * times, "text"]

        model = Model()
        for times in (2, 3, 2, 3, 2, 3):
            array, text = model.double(xp.asarray([1.0, 2.0]), times)
            self.assertEqual((array.tolist(), text), ([times, 2 * times], "text"))
        branches = iter([True] * 3 + [False] * 5)

        @xcvm.static
        def host(x):
            return x + 1 if next(branches) else x - 1

        x = xp.parameter([1.0])
        host.check()
        for _ in range(5):
            host(x)
        self.assertTrue(any("was Add" in line for line in host.report()["log"]), host.report())
        changing = iter([1, 2, 1])
        other = xcvm.static(lambda x: [x] * next(changing))
        other(x)
        with self.assertRaisesRegex(TypeError, "returned"):
            other(x)

    def test_exceptions(self):
        count = iter(range(9))

        @xcvm.static
        def fails(x):
            if next(count) == 1:
                raise KeyError("own")
            return x * 2

        x = xp.parameter([1.0])
        fails(x)
        with self.assertRaises(KeyError):
            fails(x)
        self.assertEqual(fails(x).tolist(), [2.0])
        self.assertEqual(fails(x).tolist(), [2.0])


class Digits(unittest.TestCase):
    def test_training(self):
        data = np.load(DIGITS / "digits.npz")
        images = (data["images"] / np.float32(16)).astype(np.float32)
        labels = data["labels"].astype(np.int64)
        order = np.random.default_rng(3).permutation(len(labels))
        test, train = order[:360], order[360:]
        xcvm.seed(3)
        net = nn.Sequential(
            nn.Conv(1, 16, 3, padding=1), nn.ReLU(), lambda x: nn.max_pool(x, 2), nn.Conv(16, 32, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(512, 10),
        )
        adam = optim.Adam(net, lr=5e-3)

        @xcvm.static
        def step(x, y):
            loss = nn.cross_entropy(net(x), y)
            loss.backward()
            adam.step()
            adam.zero_grad()
            return loss

        generator = np.random.default_rng(1)
        epochs = 12
        for epoch in range(epochs):
            adam.lr = 5e-3 * (1 - epoch / epochs)
            shuffled = generator.permutation(train)
            for i in range(0, len(shuffled) - 63, 64):
                step(images[shuffled[i : i + 64]], labels[shuffled[i : i + 64]])
        net.eval()
        with xcvm.no_grad():
            answers = xp.argmax(net(xp.asarray(images[test])), axis=1)
        self.assertGreaterEqual(float(np.mean(np.asarray(answers) == labels[test])), 0.97)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""make_learning_values.py > tests/tape/learning_values.h: what PyTorch's optimizers and layers make of numbers that the
tests compute, too: element i of a tensor `seed` is sin(0.37 i + seed) / 2."""
import io

import numpy as np
import torch

torch.set_default_dtype(torch.float32)
STEPS, SKIPPED = 5, 2


def wave(seed, *dims):
    count = int(np.prod(dims))
    return torch.tensor((np.sin(0.37 * np.arange(count) + seed) / 2).astype(np.float32).reshape(dims))


def show(name, *tensors):
    numbers = np.concatenate([t.detach().numpy().astype(np.float64).ravel() for t in tensors])
    text = ", ".join("%.9gf" % x if "." in "%.9g" % x or "e" in "%.9g" % x else "%.9g.0f" % x for x in numbers)
    print(f"static const float {name}[] = {{{text}}};")


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                b1, b2 = group["betas"]
                update = (b1 * m + (1 - b1) * p.grad).sign()
                m.mul_(b2).add_(p.grad, alpha=1 - b2)
                p.sub_(group["lr"] * (update + group["weight_decay"] * p))


class LARS(torch.optim.Optimizer):
    """You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks" (2017), with the momentum of SGD."""

    def __init__(self, params, lr, momentum, weight_decay, trust):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                norm, decay = p.norm(), group["weight_decay"]
                local = group["trust"] * norm / (p.grad.norm() + decay * norm + 1e-8)
                v = self.state[p].setdefault("v", torch.zeros_like(p))
                v.mul_(group["momentum"]).add_(local * (p.grad + decay * p))
                p.sub_(group["lr"] * v)


OPTIMIZERS = [
    ("sgd", "sgd:lr=0.1", lambda p: torch.optim.SGD(p, lr=0.1)),
    ("momentum", "sgd:lr=0.1,momentum=0.9,dampening=0.3,weight_decay=0.02",
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.02)),
    ("nesterov", "sgd:lr=0.1,momentum=0.8,nesterov=true,maximize=true",
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, maximize=True)),
    ("adam", "adam:lr=0.05,betas=0.8/0.95,weight_decay=0.01",
     lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), weight_decay=0.01)),
    ("amsgrad", "adam:lr=0.05,amsgrad=true", lambda p: torch.optim.Adam(p, lr=0.05, amsgrad=True)),
    ("adamw", "adamw:lr=0.05,weight_decay=0.1", lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)),
    ("rmsprop", "rmsprop:lr=0.02,centered=true,momentum=0.5,alpha=0.9",
     lambda p: torch.optim.RMSprop(p, lr=0.02, centered=True, momentum=0.5, alpha=0.9)),
    ("adagrad", "adagrad:lr=0.1,lr_decay=0.1,initial_accumulator_value=0.2",
     lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.2)),
    ("adadelta", "adadelta:lr=0.5,rho=0.8", lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8)),
    ("lars", "lars:lr=0.5,momentum=0.9,weight_decay=0.01,trust_coefficient=0.1", lambda p: LARS(p, 0.5, 0.9, 0.01, 0.1)),
    ("lion", "lion:lr=0.02,betas=0.8/0.9,weight_decay=0.1", lambda p: Lion(p, 0.02, (0.8, 0.9), 0.1)),
]


def learn(make, clip=None, hook=None, average=None):
    """Parameters of seeds 1 and 2; the gradient in step s is the wave of 10 + s, or 20 + s; the second parameter has
    none in one step."""
    w, b = wave(1, 3, 4).requires_grad_(), wave(2, 3).requires_grad_()
    averages = [w.detach().clone(), b.detach().clone()]
    optimizer = make([w, b])
    for s in range(STEPS):
        w.grad = wave(10 + s, 3, 4)
        b.grad = None if s == SKIPPED else wave(20 + s, 3)
        if hook:
            for p in (w, b):
                if p.grad is not None:
                    p.grad = hook(p)
        if clip:
            clip([w, b])
        optimizer.step()
        if average:
            for a, p in zip(averages, (w, b)):
                if p.grad is not None:
                    a.mul_(average).add_(p.detach(), alpha=1 - average)
    return averages if average else (w, b)


def optimizers():
    for name, _, make in OPTIMIZERS:
        show(f"after_{name}", *learn(make))
    print("static const struct {\n    const char *text;\n    const float *after;\n} optimizers[] = {")
    for name, text, _ in OPTIMIZERS:
        print(f'    {{"{text}", after_{name}}},')
    print("};")
    sgd = lambda p: torch.optim.SGD(p, lr=0.1)
    show("after_clip_norm", *learn(sgd, clip=lambda p: torch.nn.utils.clip_grad_norm_(p, 0.7)))
    show("after_clip_value", *learn(sgd, clip=lambda p: torch.nn.utils.clip_grad_value_(p, 0.2)))
    show("after_decay", *learn(sgd, hook=lambda p: p.grad + 0.3 * p.detach()))
    show("after_lasso", *learn(sgd, hook=lambda p: p.grad + 0.3 * p.detach().sign()))
    show("averages", *learn(sgd, average=0.9))


def sparse():
    """A table of 6 rows, of which each step uses some, twice."""
    rows = torch.tensor([[1, 4, 1], [3, 1, 5]])
    for name, make in (("sgd", lambda p: torch.optim.SGD(p, lr=0.1)), ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1))):
        e = torch.nn.Embedding(6, 2, sparse=True)
        e.weight.data = wave(3, 6, 2)
        optimizer = make(e.parameters())
        for s in range(STEPS):
            optimizer.zero_grad()
            (e((rows + s) % 6) * wave(30 + s, 2, 3, 2)).sum().backward()
            optimizer.step()
        show(f"table_{name}", e.weight)


def gradients(name, y, *inputs):
    (y * wave(50, *y.shape)).sum().backward()
    show(name + "_y", y)
    show(name + "_gradients", *[x.grad for x in inputs])


def layers():
    x = wave(5, 2, 4, 5, 6).requires_grad_()
    conv = torch.nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
    conv.weight.data, conv.bias.data = wave(6, 6, 2, 3, 2), wave(7, 6)
    gradients("convolution", conv(x), x, conv.weight, conv.bias)
    x = wave(5, 2, 4, 3, 4).requires_grad_()
    deconv = torch.nn.ConvTranspose2d(4, 2, (3, 2), stride=2, padding=(1, 0))
    deconv.weight.data, deconv.bias.data = wave(6, 4, 2, 3, 2), wave(7, 2)
    gradients("deconvolution", deconv(x), x, deconv.weight, deconv.bias)
    x = wave(5, 3, 2, 4).requires_grad_()
    linear = torch.nn.Linear(8, 5)
    linear.weight.data, linear.bias.data = wave(6, 5, 8), wave(7, 5)
    gradients("linear", linear(x.flatten(1)), x, linear.weight, linear.bias)
    x = wave(5, 3, 4).requires_grad_()
    norm = torch.nn.LayerNorm(4, eps=1e-6)
    norm.weight.data, norm.bias.data = wave(6, 4), wave(7, 4)
    gradients("layer_norm", norm(x), x, norm.weight, norm.bias)
    norm = torch.nn.BatchNorm2d(3, eps=2e-5, momentum=0.1)
    norm.weight.data, norm.bias.data = wave(6, 3), wave(7, 3)
    norm(wave(8, 4, 3, 2, 2))
    x = wave(5, 4, 3, 2, 2).requires_grad_()
    norm.zero_grad()
    gradients("batch_norm", norm(x), x, norm.weight, norm.bias)
    show("batch_norm_running", norm.running_mean, norm.running_var)
    norm.eval()
    show("batch_norm_tested", norm(x))


def recurrent():
    """Three steps of the gates that the layers state; what PyTorch has of them is written in another order."""
    upward, bias, lateral = (wave(6, 12, 4).requires_grad_(), wave(7, 12).requires_grad_(), wave(8, 12, 3).requires_grad_())
    cell = torch.nn.LSTMCell(4, 3)
    order = [1, 2, 0, 3]  # PyTorch: i f g o; by unit: a i f o

    def by_gate(w):
        return torch.cat([w.reshape(3, 4, *w.shape[1:])[:, g] for g in order])

    h = c = torch.zeros(2, 3)
    total = 0
    for s in range(3):
        gates = torch.nn.functional.linear(wave(40 + s, 2, 4), by_gate(upward), by_gate(bias))
        gates = gates + torch.nn.functional.linear(h, by_gate(lateral))
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        total = total + (h * wave(50 + s, 2, 3)).sum()
    with torch.no_grad():
        cell.weight_ih.copy_(by_gate(upward))
        cell.weight_hh.copy_(by_gate(lateral))
        cell.bias_ih.copy_(by_gate(bias))
        cell.bias_hh.zero_()
        state = (torch.zeros(2, 3), torch.zeros(2, 3))
        for s in range(3):
            state = cell(wave(40 + s, 2, 4), state)
        assert torch.allclose(state[0], h, atol=1e-6)
    total.backward()
    show("lstm_h", h)
    show("lstm_gradients", upward.grad, bias.grad, lateral.grad)
    w = {n: wave(60 + k, 3, 4 if n[0] == "W" else 3).requires_grad_() for k, n in enumerate(["W_r", "U_r", "W_z", "U_z", "W", "U"])}
    h = torch.zeros(2, 3)
    for s in range(3):
        x = wave(40 + s, 2, 4)
        r = (x @ w["W_r"].T + h @ w["U_r"].T).sigmoid()
        z = (x @ w["W_z"].T + h @ w["U_z"].T).sigmoid()
        h = (1 - z) * h + z * (x @ w["W"].T + (r * h) @ w["U"].T).tanh()
    (h * wave(50, 2, 3)).sum().backward()
    show("gru_h", h)
    show("gru_gradients", *[w[n].grad for n in w])


def functions():
    scores = wave(5, 3, 4).requires_grad_()
    target = torch.tensor([2, 0, 3])
    gradients("pick", torch.nn.functional.cross_entropy(scores, target, reduction="none"), scores)
    scores = wave(5, 4).requires_grad_()
    show("hinge", torch.nn.functional.multi_margin_loss(scores[None], torch.tensor([2]), margin=0.4, reduction="sum") * 4)


def mlp():
    """Steps of SGD with momentum on a perceptron."""
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    for k, l in enumerate((net[0], net[2], net[4])):
        l.weight.data, l.bias.data = wave(6 + k, *l.weight.shape), wave(16 + k, *l.bias.shape)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.5)
    losses = []
    for s in range(10):
        loss = torch.nn.functional.cross_entropy(net(2 * wave(s % 3, 4, 6)), torch.tensor([0, 1, 2, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    show("mlp_losses", torch.stack(losses))
    show("mlp_last", net[4].weight)


def archives():
    """As chainer.serializers.save_npz writes them, deflated; and another order of elements, stored."""
    for name, save, order in (("deflated", np.savez_compressed, "C"), ("stored", np.savez, "F")):
        file = io.BytesIO()
        save(file, **{"predictor/l1/W": np.array(wave(6, 2, 3).numpy(), order=order), "predictor/l1/b": wave(7, 2).numpy()})
        print(f"static const unsigned char {name}[] = {{{', '.join(map(str, file.getvalue()))}}};")


print("/* Made by tests/make_learning_values.py with PyTorch. */")
print(f"enum {{ STEPS = {STEPS}, SKIPPED = {SKIPPED} }};")
print("/* clang-format off */")
print("#ifdef OPTIMIZER_VALUES")
optimizers()
sparse()
print("#else")
layers()
recurrent()
functions()
mlp()
archives()
print("#endif")

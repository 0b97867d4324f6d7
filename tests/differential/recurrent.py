"""RNN, GRU and LSTM."""
from table import operator

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
NAMES = ["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Softplus", "Affine", "LeakyRelu", "ThresholdedRelu",
         "ScaledTanh", "Elu"]
BOUNDED = ["Sigmoid", "Tanh", "HardSigmoid", "Softsign", "ScaledTanh"]
# The parameters of each activation: alpha, beta, both or none.
PARAMETERS = {"HardSigmoid": 2, "Affine": 2, "LeakyRelu": 1, "ThresholdedRelu": 1, "ScaledTanh": 2, "Elu": 1}


def declare(name):
    @operator(name, weight=4)
    def draw(case):
        gates = GATES[name]
        direction = case.choice([None, "forward", "reverse", "bidirectional"])
        directions = 2 if direction == "bidirectional" else 1
        steps, batch = case.choice([1, 2, 3, 5, 9]), case.choice([1, 1, 2, 3, 4, 7])
        inputs, hidden = case.choice([1, 2, 3, 4, 8, 15, 16, 17, 33]), case.choice([1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33])
        x = case.feed(case.values([steps, batch, inputs], "f32", -1, 1), "f32")
        scale = min(1, 3 / max(inputs, hidden) ** 0.5)
        w = case.feed(case.values([directions, gates * hidden, inputs], "f32", -scale, scale), "f32", 0.7)
        r = case.feed(case.values([directions, gates * hidden, hidden], "f32", -scale, scale), "f32", 0.7)
        operands = [x, w, r, "", "", ""]
        if case.chance(0.6):
            operands[3] = case.feed(case.values([directions, 2 * gates * hidden], "f32", -0.5, 0.5), "f32", 0.7)
        if case.chance(0.3):
            operands[4] = case.feed(case.ints([batch], "i32", 1, steps), "i32", 0.3)
        if case.chance(0.4):
            operands[5] = case.feed(case.values([directions, batch, hidden], "f32", -1, 1), "f32")
        if name == "LSTM":
            operands += ["", ""]
            if case.chance(0.4):
                operands[6] = case.feed(case.values([directions, batch, hidden], "f32", -1, 1), "f32")
            if case.chance(0.3):
                operands[7] = case.feed(case.values([directions, 3 * hidden], "f32", -0.5, 0.5), "f32", 0.7)
        attributes = {"hidden_size": hidden, "direction": direction}
        if case.chance(0.35):
            # Activations without bounds give values of any size, without certain digits.
            chosen = [case.choice(NAMES if name == "RNN" or at % ACTIVATIONS[name] else BOUNDED)
                      for at in range(ACTIVATIONS[name] * directions)]
            attributes["activations"] = chosen
            # ONNX Runtime expects a parameter for each activation that has one.
            alphas = [case.real(0.2, 1) for item in chosen if PARAMETERS.get(item, 0) >= 1]
            betas = [case.real(0.1, 0.9) for item in chosen if PARAMETERS.get(item, 0) >= 2]
            # Affine and ScaledTanh have no defaults in the definition; the peer has another one for ThresholdedRelu.
            if any(item in ("Affine", "ScaledTanh", "ThresholdedRelu") for item in chosen) or (alphas and case.chance(0.5)):
                attributes["activation_alpha"] = alphas
                attributes["activation_beta"] = betas or None
        if case.chance(0.2) and name != "LSTM":  # the peer does not clip the cell before its activation
            attributes["clip"] = case.real(0.2, 2)
        if name == "GRU":
            attributes["linear_before_reset"] = case.choice([None, 0, 1])
        if name == "LSTM" and case.chance(0.15):
            attributes["input_forget"] = 1
        count = 3 if name == "LSTM" else 2
        results = case.node(name, operands, count, **attributes)
        for result in results:
            case.output(result, "f32")
        case.within(1e-4, 2e-5)


for _name in GATES:
    declare(_name)

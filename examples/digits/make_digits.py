#!/usr/bin/python3
"""make_digits.py: trains the example's network and writes model.onnx, images/*.png and test_data_set_0 beside itself.

Needs Debian's python3-torch, python3-sklearn, python3-onnx and python3-pil. The data are the 1,797 handwritten digits of
8x8 pixels that scikit-learn ships (E. Alpaydin, C. Kaynak, UCI Optical Recognition of Handwritten Digits, 1998); one in
five is kept for testing, and the images written here are of those.
"""
import os

import numpy as np
import torch
from onnx import numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))


def network():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10), nn.Softmax(1))


def main():
    torch.manual_seed(0)
    digits = load_digits()
    x = torch.tensor(digits.images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x))
    test, train = order[: len(x) // 5], order[len(x) // 5:]
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3, weight_decay=1e-4)
    for epoch in range(40):
        for batch in train[torch.randperm(len(train))].split(64):
            shifted = torch.roll(x[batch], tuple(torch.randint(-1, 2, (2,)).tolist()), (2, 3)) if epoch < 30 else x[batch]
            loss = torch.nn.functional.nll_loss(torch.log(model(shifted) + 1e-9), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x[test]).argmax(1) == y[test]).float().mean().item()
    print(f"accuracy on {len(test)} unseen digits: {accuracy:.4f}")

    torch.onnx.export(model, (x[:1],), os.path.join(HERE, "model.onnx"), opset_version=13, input_names=["image"],
                      output_names=["probabilities"], dynamic_axes={"image": {0: "batch"}, "probabilities": {0: "batch"}})
    os.makedirs(os.path.join(HERE, "images"), exist_ok=True)
    for digit in range(10):
        index = next(int(i) for i in test if y[i] == digit)
        pixels = np.round(x[index, 0].numpy() * 255).astype(np.uint8)
        Image.fromarray(pixels).save(os.path.join(HERE, "images", f"{digit}.png"))
    data = os.path.join(HERE, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    with torch.no_grad():
        for file, name, tensor in (("input_0.pb", "image", x[test[:16]]), ("output_0.pb", "probabilities", model(x[test[:16]]))):
            with open(os.path.join(data, file), "wb") as f:
                f.write(numpy_helper.from_array(tensor.numpy(), name).SerializeToString())


if __name__ == "__main__":
    main()

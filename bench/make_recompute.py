#!/usr/bin/python3
"""make_recompute.py OUT [NAME...]: networks whose activations take most of a training step's memory, as ONNX with their loss

Those that Kusumoto et al. measured: ResNet-50 and -152, DenseNet-121, VGG-19 and GoogLeNet as torchvision has them, a U-Net, and a
PSPNet on ResNet-50. Each OUT/NAME.onnx has inputs x (images) and y (classes, of each pixel where that is what the network tells),
BatchNormalization in training mode, parameters as initializers, and the loss as its only output. Batches are what one core computes
in some seconds. Needs Debian's python3-torch, python3-torchvision and python3-onnx.
"""
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

warnings.filterwarnings("ignore")


def block(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Ronneberger et al. 2015, with padding and BatchNormalization."""

    def __init__(self, width=32, classes=8):
        super().__init__()
        w = [width << i for i in range(5)]
        self.down = nn.ModuleList(block(a, b, b) for a, b in zip([3] + w, w))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(w, w[1:]))
        self.up = nn.ModuleList(block(2 * a, a, a) for a in w[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.up[i](torch.cat([skips[i], self.grow[i](x)], 1))
        return self.head(x)


class PSPNet(nn.Module):
    """Zhao et al. 2017: pyramid pooling over a dilated ResNet-50. x: a multiple of 48."""

    def __init__(self, classes=8):
        super().__init__()
        self.body = nn.Sequential(*list(torchvision.models.resnet50(
            weights=None, replace_stride_with_dilation=[False, True, True]).children())[:-2])
        self.pools = nn.ModuleList(nn.Sequential(nn.Conv2d(2048, 512, 1, bias=False), nn.BatchNorm2d(512), nn.ReLU()) for _ in range(4))
        self.head = nn.Sequential(block(4096, 512), nn.Conv2d(512, classes, 1))

    def forward(self, x):
        y = self.body(x)
        size = int(y.shape[-1])
        parts = [y]
        for n, pool in zip((1, 2, 3, 6), self.pools):
            parts.append(F.interpolate(pool(F.avg_pool2d(y, size // n)), size=(size, size), mode="bilinear", align_corners=False))
        return F.interpolate(self.head(torch.cat(parts, 1)), size=tuple(map(int, x.shape[-2:])), mode="bilinear", align_corners=False)


class Trained(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        return F.cross_entropy(self.net(x), y)


def vision(name, **keys):
    return lambda: getattr(torchvision.models, name)(weights=None, **keys)


# name: (network, batch, size of images, a class for each pixel)
NETWORKS = {
    "resnet50": (vision("resnet50"), 8, 224, False),
    "resnet152": (vision("resnet152"), 4, 224, False),
    "densenet121": (vision("densenet121"), 8, 224, False),
    "vgg19": (vision("vgg19", dropout=0.0), 8, 224, False),
    "googlenet": (vision("googlenet", aux_logits=False, init_weights=False, dropout=0.0), 16, 224, False),
    "unet": (UNet, 2, 256, True),
    "pspnet": (PSPNet, 2, 192, True),
}


def make(out, name):
    torch.manual_seed(0)
    network, batch, size, pixels = NETWORKS[name]
    x = torch.randn(batch, 3, size, size)
    y = torch.randint(0, 8, (batch, size, size) if pixels else (batch,))
    torch.onnx.export(Trained(network().train()), (x, y), os.path.join(out, name + ".onnx"), opset_version=15, input_names=["x", "y"],
                      output_names=["loss"], training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    print(name, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for wanted in sys.argv[2:] or NETWORKS:
        make(sys.argv[1], wanted)

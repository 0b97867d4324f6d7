"""As in PyTorch: z = x**2 + x*2 + x*y + y, and its gradients."""

import numpy as np
from show import show

import xcvm

x = xcvm.parameter([[1.0, 2.0], [3.0, 4.0]])
y = xcvm.parameter([[0.5, -1.0], [2.0, -3.0]])
z = x**2 + x * 2 + x * y + y
z.backward(np.ones((2, 2), np.float32))
show("z", z)
show("dz/dx", x.grad)
show("dz/dy", y.grad)

"""As in Autograd: the gradient of a function of the host's, and the gradient of that."""

from show import show

import xcvm


def tanh(x):
    y = xcvm.exp(-2.0 * x)
    return (1.0 - y) / (1.0 + y)


slope = xcvm.grad(tanh)
curvature = xcvm.grad(slope)
show("tanh(1)", tanh(xcvm.asarray(1.0)))
show("slope", slope(1.0))
show("curvature", curvature(1.0))
xcvm.check_gradients(slope, [1.0])

"""The classes of sessions, by the module that ONNX Runtime has them in."""

from ..binding import IOBinding
from ..session import InferenceSession, Session
from ..values import OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]

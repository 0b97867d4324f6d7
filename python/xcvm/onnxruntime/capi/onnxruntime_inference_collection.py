"""The classes of sessions, by the module that ONNX Runtime has them in."""

from ..binding import IOBinding, OrtDevice, OrtValue
from ..session import InferenceSession, Session

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]

"""The names that programs import from onnxruntime.capi."""

"""Programs of this project with the call sequences of programs that were written for onnxruntime.

Each has a function `run(folder)` that imports onnxruntime, uses the models of the folder as the program that its docstring names
does, and returns arrays. `DRIVERS` lists them.
"""

DRIVERS = ["faster_whisper", "livekit_agents", "openwakeword", "pipecat", "magika", "rapidocr", "basic_pitch"]

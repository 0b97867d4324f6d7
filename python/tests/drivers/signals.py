"""Signals that the drivers use."""

import numpy as np


def speech_like(seconds, rate=16000, seed=0):
    """Bursts of a buzzing voice with pauses between them."""
    time = np.arange(int(seconds * rate)) / rate
    voice = sum(np.sin(2 * np.pi * (120 + 15 * np.sin(2 * np.pi * 3 * time)) * k * time) / k for k in range(1, 20))
    bursts = np.sin(2 * np.pi * 1.5 * time) > 0
    noise = np.random.default_rng(seed).normal(size=len(time)) * 0.01
    return (0.2 * voice * bursts + noise).astype(np.float32)

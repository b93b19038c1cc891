"""The sounds of `crepe_tiny`: synthesised tones of known pitch, and how a pitch is judged. No torch here.

A tone has a few harmonics of random phase. Calibration tones stand 10 to 30 dB above the noise. Evaluation
tones are as loud as the noise (0 dB): on cleaner ones the network errs so seldom that a slightly worse
quantiser could not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

SAMPLE_RATE_HZ, FRAME = 16000, 1024
LOWEST_HZ, HIGHEST_HZ = 50.0, 1000.0  # of voices; the network goes from 32 to 1975
CENTS_PER_BIN, LOWEST_BIN_CENTS = 20.0, 1997.3794084376191  # of CREPE's outputs, in cents above 10 Hz
WITHIN_CENTS = 50.0


def calibration() -> Iterator[Any]:
    """128 tones, 10 to 30 dB above the noise."""
    random = np.random.default_rng(1)
    return (_sample(random, random.uniform(10, 30)) for _ in range(128))


def evaluation() -> Iterator[Any]:
    """600 other tones, as loud as the noise."""
    random = np.random.default_rng(2)
    return (_sample(random, 0.0) for _ in range(600))


def _sample(random: np.random.Generator, above_noise_db: float) -> tuple[dict[str, np.ndarray], float]:
    pitch_hz = float(np.exp(random.uniform(np.log(LOWEST_HZ), np.log(HIGHEST_HZ))))
    noise = random.standard_normal(FRAME) * 10 ** (-above_noise_db / 20)
    return {"frames": normalized(tone(random, pitch_hz) + noise)}, pitch_hz


def tone(random: np.random.Generator, pitch_hz: float) -> np.ndarray:
    """1024 samples of a harmonic sound of variance 1."""
    harmonics = np.arange(1, 9)
    harmonics = harmonics[harmonics * pitch_hz < SAMPLE_RATE_HZ / 2]
    phases = random.uniform(0, 2 * np.pi, len(harmonics))
    seconds = np.arange(FRAME)[:, None] / SAMPLE_RATE_HZ
    sound = (np.sin(2 * np.pi * pitch_hz * harmonics * seconds + phases) / harmonics).sum(1)
    return sound / sound.std()


def normalized(frame: np.ndarray) -> np.ndarray:
    """Mean 0 and deviation 1, as CREPE was trained."""
    centred = frame - frame.mean()
    return (centred / max(float(centred.std()), 1e-10)).astype(np.float32)


def pitch_accuracy(outputs: Mapping[str, np.ndarray], labels: Sequence[float]) -> dict[str, np.ndarray]:
    """For each frame: is the pitch right within 50 cents (raw pitch accuracy)."""
    wanted = 1200 * np.log2(np.asarray(labels, np.float64) / 10)
    return {"pitch_accuracy": (np.abs(cents(outputs["pitch"]) - wanted) <= WITHIN_CENTS).astype(np.float64)}


def cents(pitch: np.ndarray) -> np.ndarray:
    """Cents above 10 Hz: the mean of the nine bins around the strongest, weighted by their probability."""
    bins = pitch.argmax(1)[:, None] + np.arange(-4, 5)
    weights = np.take_along_axis(pitch, bins.clip(0, pitch.shape[1] - 1), 1).astype(np.float64)
    weights[(bins < 0) | (bins >= pitch.shape[1])] = 0
    return (weights * (LOWEST_BIN_CENTS + CENTS_PER_BIN * bins)).sum(1) / weights.sum(1)

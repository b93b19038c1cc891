"""A machine with doubles of TensorRT and of the driver, for the tests of its backend."""

from __future__ import annotations

from pathlib import Path

import fake_gpu
import pytest
from double_machine import Machine


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_gpu.compiled(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def machine(tmp_path: Path, driver: Path) -> Machine:
    return Machine(tmp_path, driver)

"""Timing caches of the TensorRT backend: shared, pinned, none."""

from __future__ import annotations

from pathlib import Path

import fake_gpu
from double_machine import ELEVEN, TEN, Machine, l4


def test_a_timing_cache_grows_from_build_to_build(machine: Machine) -> None:
    first = machine.build(l4(), DOUBLE_TIMING="kernel 1")
    second = machine.build(l4(), DOUBLE_TIMING="kernel 2")

    (slot,) = machine.slots()
    assert slot.read_text().splitlines() == [TEN, "kernel 1", "kernel 2"]
    assert slot.name == "timing_10.16.1.11_13.0_8.9_NVIDIA_L4_58_22500"
    caches = [done["measurements"]["timing_cache"] for done in (first, second)]
    assert caches[0]["before"] == "new"
    assert caches[1]["before"] == caches[0]["after"] != caches[1]["after"]


def test_cards_and_releases_have_timing_caches_of_their_own(machine: Machine) -> None:
    machine.build(l4())
    machine.build(l4(), ELEVEN)
    machine.build(l4(hardware_compatibility="ampere_plus"), gpu=fake_gpu.L20)

    assert len(machine.slots()) == 3


def test_a_damaged_timing_cache_is_begun_anew(machine: Machine) -> None:
    machine.build(l4())
    machine.slots()[0].write_text("rubbish")

    done = machine.build(l4())

    assert done["measurements"]["timing_cache"]["before"] == "new"
    assert machine.slots()[0].read_text().splitlines() == [TEN, "kernel 1"]
    (warning,) = done["warnings"]
    assert warning.startswith(
        f"the timing cache will not be used: '{machine.slots()[0]}': the builder does not take it"
    )
    assert warning.endswith("cut off: nothing is lost but time; a new one is begun)")
    assert machine.build(l4())["warnings"] == []


def test_without_a_timing_cache_nothing_is_remembered(machine: Machine, tmp_path: Path) -> None:
    done = machine.build(l4(timing_cache="none"))

    assert done["measurements"]["timing_cache"] == {"before": "none"}
    assert not (tmp_path / "scratch").exists()


def test_a_pinned_timing_cache_is_read_and_never_written(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "pinned").write_text(f"{TEN}\nkernel 0")

    done = machine.build(l4(timing_cache="timing/l4.cache"), inputs={"timing_cache": tmp_path / "pinned"})

    assert list(done["measurements"]["timing_cache"]) == ["before"]
    assert (tmp_path / "pinned").read_text() == f"{TEN}\nkernel 0"
    assert not (tmp_path / "scratch").exists()


def test_a_pinned_timing_cache_of_another_release_is_refused(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "pinned").write_text("10.9.0.34\nkernel 0")

    done = machine.build(l4(timing_cache="l4.cache"), inputs={"timing_cache": tmp_path / "pinned"})

    assert done["error"] == "NodeFailed"
    assert f"refuses the timing cache '{tmp_path / 'pinned'}'" in done["message"]

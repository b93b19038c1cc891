"""Which records gc chooses: the order, the limits, and content that several records share."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mobuild.fingerprint import Digest, Fingerprint
from mobuild.store import Artifact, Record, Store, gc
from mobuild.store.failures import Owner
from mobuild.store.gc import Entry, Limits, Survey, choose, without
from tests.store import finished

DAY = 86400
OWNER = Owner(Path("/project"), "recipe", "cpu", "node")
NOW_NS = 1000 * DAY * 1_000_000_000


def entry(name: str, *, days: int = 1, seconds: float = 1.0, kept: str = "", digests: str = "") -> Entry:
    """A record that was last used `days` ago; each letter of `digests` is an object of ten bytes."""
    fingerprint = Fingerprint("export", 1, {"name": name})
    record = Record(
        key=fingerprint.key,
        fingerprint=fingerprint,
        artifact=Artifact(Digest(name), "", 10, is_folder=False),
        suffix="",
        seconds=seconds,
        measurements={},
        onnx={},
        warnings=(),
        conditions=(),
        observed_by=(),
        log=None,
        peak_rss_mib=0.0,
        created="",
        seen={},
    )
    used_ns = NOW_NS - days * DAY * 1_000_000_000
    return Entry(name, Path(name), record, used_ns, frozenset(map(Digest, digests or name)), kept)


def survey(*entries: Entry) -> Survey:
    digests = {digest for one in entries for digest in one.digests}
    return Survey(entries, dict.fromkeys(digests, 10), ())


def names(found: Survey, size_bytes: int | None = None, age_days: int = 0) -> str:
    return "".join(one.name for one in choose(found, Limits(size_bytes, age_days * DAY, 0), NOW_NS))


def test_what_was_unused_for_longest_goes_first() -> None:
    assert names(survey(entry("a", days=2), entry("b", days=3), entry("c", days=1))) == "bac"


def test_what_is_cheapest_to_build_again_goes_first() -> None:
    assert names(survey(entry("a", seconds=60), entry("b", seconds=0.1), entry("c", seconds=3600))) == "bac"


def test_no_more_goes_than_the_size_asks_for() -> None:
    found = survey(entry("a", days=3), entry("b", days=2), entry("c", days=1))

    assert names(found, size_bytes=30) == ""
    assert names(found, size_bytes=29) == "a"
    assert names(found, size_bytes=10) == "ab"


def test_content_that_another_record_needs_frees_nothing() -> None:
    found = survey(entry("a", days=3, digests="xy"), entry("b", days=2, digests="x"), entry("c", days=1))

    assert names(found, size_bytes=20) == "a"
    assert without(found, choose(found, Limits(20, 0, 0), NOW_NS)).strays == {"y"}


def test_age_and_size_both_hold() -> None:
    assert names(survey(entry("a", days=3), entry("b", days=2), entry("c", days=1)), size_bytes=1, age_days=2) == "ab"


@given(
    st.lists(st.tuples(st.integers(0, 99), st.floats(0, 1e4), st.booleans(), st.text("xyz", max_size=3)), max_size=8),
    st.integers(1, 90),
)
def test_what_is_kept_never_goes_and_the_size_is_reached_if_it_can_be(
    rows: list[tuple[int, float, bool, str]], size_bytes: int
) -> None:
    entries = [
        entry(chr(97 + i), days=days, seconds=seconds, kept="pinned" if kept else "", digests=digests)
        for i, (days, seconds, kept, digests) in enumerate(rows)
    ]
    found = survey(*entries)

    chosen = choose(found, Limits(size_bytes, 0, 0), NOW_NS)

    left = without(found, chosen)
    assert not any(one.kept for one in chosen)
    assert found.size_bytes(found.objects.keys() - left.strays) <= size_bytes or all(one.kept for one in left.entries)


def test_what_running_builds_tidy_up_meanwhile_is_no_fault(tmp_path: Path) -> None:
    store, ended = Store.open(tmp_path), threading.Event()

    def build() -> None:
        while not ended.is_set():
            staging = store.staging()
            (staging / "in").mkdir()
            (staging / "in/x").symlink_to("/ab/cd")
            store.failures.keep(staging, [OWNER])
            store.failures.drop([OWNER])
            store.staging().rmdir()

    with ThreadPoolExecutor(1) as aside:
        building = aside.submit(build)
        try:
            found = [gc.survey(store, Limits(None, 0, 0)) for _ in range(500)]
        finally:
            ended.set()

    assert building.result() is None and len(found) == 500


def test_what_is_of_a_project_that_cannot_be_looked_at_stays(tmp_path: Path) -> None:
    """As on a mount whose server is down; here the name is longer than the system takes."""
    store = Store.open(tmp_path)
    store.records.publish(finished.record())
    store.refs.put(Path("/", "a" * 300), "recipe", "cpu", {"node": finished.record()})

    (found,) = gc.survey(store, Limits(None, 0, 0)).entries

    assert found.kept == "the last build of a project"

"""One member of a wheel: pip finds, downloads and checks the wheel, with the user's index, proxies and credentials."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Iterator

from mobuild.errors import SourceError, ToolchainError, did_you_mean
from mobuild.fetch.uris import scrubbed


@contextmanager
def opened_member(package: str, member: str) -> Iterator[IO[bytes]]:
    """One file of the wheel of `package` (`name==version`) as a stream; pip finds and checks the wheel.

    Nothing is installed, no dependency is fetched and no code of the package runs.

    Raises:
        ToolchainError: this Python has no pip.
        SourceError: the package, its wheel or the member does not exist, or pip cannot reach it.
    """
    with tempfile.TemporaryDirectory(prefix="mobuild-wheel-") as folder:
        wheel = _download(package, Path(folder))
        try:
            with zipfile.ZipFile(wheel) as archive:
                if member not in archive.namelist():
                    known = did_you_mean(member, archive.namelist())
                    raise SourceError(f"source {package!r}: has no member {member!r}.{known}")
                with archive.open(member) as stream:
                    yield stream
        except zipfile.BadZipFile as error:
            raise SourceError(f"source {package!r}: {wheel.name!r} is damaged: {error}") from error


def _download(package: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels: list[Path] = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise ToolchainError(f"source {package!r}: {sys.executable!r} has no pip", "python -m ensurepip")
    said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
    raise SourceError(
        f"source {package!r}: pip cannot download its wheel",
        "\n".join([*map(scrubbed, said[-2:]), "check its name and version, and that pip reaches its index"]),
    )

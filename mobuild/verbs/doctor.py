"""`mobuild doctor`: what is wrong with this machine, or with the one that a recording stands for."""

from __future__ import annotations

from pathlib import Path

from mobuild.doctor import findings
from mobuild.doctor.diagnosis import diagnose
from mobuild.doctor.live import this_machine
from mobuild.doctor.recording import recorded
from mobuild.doctor.survey import survey
from mobuild.errors import ConfigError, SourceError
from mobuild.hardware import Hardware
from mobuild.report import diagnosis


def doctor(hardware: Hardware | None, as_json: bool = False, words: str = "") -> int:
    """Print the diagnosis; 1 when there is an error in it.

    `words` are a message that was met, the path of a log that holds it, or the path of a recording.

    Raises:
        ConfigError: a single word that names no file.
        SourceError: the file cannot be read.
    """
    text = _content(words)
    other = recorded(text)
    try:
        state = survey(other or this_machine())
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        if other is None:
            raise
        hint = "record it again: python3 -m mobuild.doctor.recording OUT.json"
        raise SourceError(
            f"{words}: an answer of the recording has another form than expected: {error}", hint
        ) from error
    found = diagnose(state, hardware, "" if other else text)
    (diagnosis.show_json if as_json else diagnosis.show)(state, found)
    return findings.status(found)


def _content(words: str) -> str:
    try:
        is_file, is_folder = Path(words).is_file(), bool(words) and Path(words).is_dir()
    except (OSError, ValueError):  # a message may be longer than a name
        is_file = is_folder = False
    if is_folder:
        raise ConfigError(f"doctor: '{words}' is a folder", "give the path of a log or of a recording in it")
    if not is_file and words and " " not in words:
        raise ConfigError(
            f"doctor: there is no file {words!r}",
            "mobuild doctor 'the message', or the path of a log or of a recording",
        )
    if not is_file:
        return words
    try:
        content = Path(words).read_bytes()
    except OSError as error:
        raise SourceError(f"{words}: cannot be read: {error.strerror}") from error
    if not content or b"\0" in content:
        raise SourceError(
            f"{words}: is {'no text' if content else 'empty'}, so it holds no message",
            "mobuild doctor 'the message', or the path of a log or of a recording",
        )
    return content.decode(errors="replace")

"""`mobuild adopt -- LINE`: a recipe from the line that is typed today, and what is wrong with it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from mobuild.adopt.adopting import adopt as read
from mobuild.adopt.place import Place
from mobuild.contract.findings import Finding
from mobuild.errors import ConfigError, MobuildError
from mobuild.job import Job
from mobuild.report import adopted as report
from mobuild.report import messages
from mobuild.report.checked import Checked
from mobuild.report.checked import Place as Where
from mobuild.verbs import check
from mobuild.verbs.init import ignore_what_is_made, write_new


def adopt(
    line: Sequence[str],
    root: Path,
    compose: Callable[[str], Job],
    name: str = "",
    version: str = "",
    taken: Collection[str] = (),
    form: str = "text",
    words: Sequence[str] = (),
) -> int:
    """Write the recipe of a line, and say line by line what changed.

    `compose` makes the job of a recipe by its name, with the overrides `words`, for the rules to judge.
    What the rules find wrong is told and is no failure: the recipe is there.

    Raises:
        MobuildError: the line, its files or its model cannot be understood; nothing is written then.
    """
    asked = [value for word in words for key, _, value in [word.partition("=")] if key == "hardware"]
    made = read(line, Place(Path.cwd(), root), version, name, taken, *asked[-1:])
    paths = write_new(made.files, root, "adopt")
    try:
        found = check.merged([compose(made.name)])
    except ConfigError:
        for path in paths:
            path.unlink()
        raise
    except MobuildError as error:  # the hardware, say: the recipe is good for another
        found = [
            Checked(Where(made.name, "", "", str(paths[0])), Finding("N1", "error", "job", error.message, error.hint))
        ]
    if form == "text":
        ignore_what_is_made(root / ".gitignore")
    report.write(made, [str(path) for path in paths], found, form)
    if made.version and not asked:
        messages.note(f"checked for a CPU; for a card: mobuild check recipe={made.name} hardware=l4")
    if form == "text" and not any(each.finding and each.finding.severity == "error" for each in found):
        print(f"now: mobuild {shlex.join([f'target={made.target}', f'recipe={made.name}', *words])}")
    return 0

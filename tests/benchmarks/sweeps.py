"""A sweep over 3 + 2N nodes of which none is stale: composing, planning, placing, and the answer repeated.

    python tests/benchmarks/sweeps.py [N]

The store is filled with records of steps that never ran, since two thousand processes would take longer than all
that is measured here. Works in a temporary project and cache.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from measures import Row, cpu_seconds, show, sweep_project

FILL = """
import sys
from mobuild import cli
from mobuild.store import Record
from mobuild.verbs import build as verb
from mobuild.verbs.session import Session

def fill(jobs):
    session = Session.open(jobs, make=True)
    store, steps = session.store, dict(session.plan(jobs).steps)
    for identity in steps:
        step = steps[identity] = session.planner.settle(steps[identity], steps)
        if step.state == "stale":
            staging = store.staging()
            (staging / "out").write_text(step.fingerprint.key)
            artifact = store.objects.publish(staging / "out")
            rest = {}, {}, (), (), (), None, 1.0, "2026-01-01T00:00:00+00:00", {}
            store.records.publish(Record(step.fingerprint.key, step.fingerprint, artifact, ".txt", 0.1, *rest))
            steps[identity] = session.planner.settle(step, steps)
            staging.rmdir()
    return 0

verb.build = fill
sys.exit(cli.run(sys.argv[1:]))
"""
PHASES = """
import json, resource, sys, time
from mobuild import cli
from mobuild.answers import Recorder
from mobuild.config.entry import Entry
from mobuild.report import artifacts
from mobuild.verbs import build as verb
from mobuild.verbs.session import Session

took = {}

def timed(owner, name):
    work = getattr(owner, name)
    def run(*arguments, **named):
        begun = time.process_time()
        try:
            return work(*arguments, **named)
        finally:
            took[name] = time.process_time() - begun
    setattr(owner, name, run)

for owner, name in (
    (Entry, "run_all"), (verb, "build"), (Session, "plan"), (verb, "_remember"), (artifacts, "materialise"),
    (Recorder, "end"),
):
    timed(owner, name)
status = cli.run(sys.argv[2:])
took["total"] = time.process_time()
took["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
open(sys.argv[1], "w").write(json.dumps(took))
sys.exit(status)
"""
COMPOSE = """
import json, sys, time
from pathlib import Path
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from mobuild.config.compose import PRIMARY, hydra_for
from mobuild.config.project import find_project

def milliseconds(compose, count):
    begun = time.process_time()
    for i in range(count):
        compose(master, ["recipe=small", "target=end", f"width={i}", "workspace=2GiB"])
    return (time.process_time() - begun) / count * 1000

with hydra_for(find_project(Path.cwd())):
    sharing = GlobalHydra.instance().config_loader()
    own = ConfigLoaderImpl(sharing.config_search_path)
    master = own.load_configuration(PRIMARY, ["recipe=small"], RunMode.MULTIRUN)
    milliseconds(sharing.job, 1)
    print(json.dumps([milliseconds(own.load_sweep_config, 10), milliseconds(sharing.job, 300)]))
"""


def main(jobs: int) -> None:
    nodes = 3 + 2 * jobs
    with sweep_project(jobs) as (folder, environment, words):

        def python(code: str, *arguments: str) -> str:
            command = [sys.executable, "-c", code, *arguments]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            return done.stdout if done.returncode == 0 else sys.exit(done.stderr)

        python(FILL, *words)
        hydras, ours = json.loads(python(COMPOSE))
        runs: list[dict[str, float]] = []
        for _ in range(7):  # the first run places the artifacts, the second notes that all is right, the others count
            shutil.rmtree(folder / "build" / ".answers", ignore_errors=True)
            python(PHASES, str(folder / "phases"), *words)
            runs.append(json.loads((folder / "phases").read_text()))
        took = min(runs[2:], key=lambda one: one["build"] + one["end"])
        mobuild = [str(Path(sys.executable).with_name("mobuild")), *words]
        cpu_seconds(mobuild, folder, environment)
        bare = min(cpu_seconds([sys.executable, "-c", "pass"], folder, environment) for _ in range(5))
        repeated = min(cpu_seconds(mobuild, folder, environment) for _ in range(5))
    composing = took["run_all"] - took["build"]
    show(
        [
            Row("compose one config of a sweep, beside Hydra's load_sweep_config", ours, "ms", hydras, "0.02–0.04"),
            Row(f"{jobs} jobs: compose them and make their nodes, a job", 1000 * composing / jobs, "ms"),
            Row(f"plan {nodes} fresh nodes, a node", 1000 * took["plan"] / nodes, "ms", None, "0.05 ms"),
            Row(f"note the {nodes} records as used", took["_remember"], "CPU s"),
            Row(f"look after {jobs} artifacts, sidecars, run.json", took["materialise"], "CPU s"),
            Row("all beyond composing, the answer kept", took["build"] + took["end"], "CPU s", None, "0.15 CPU s"),
            Row("the whole sweep in which nothing is stale, planned", took["total"], "CPU s", None, "5 s for 1000"),
            Row("its memory", took["mib"], "MiB", None, "200 MiB"),
            Row("the same words again, beside python -c pass", repeated, "CPU s", bare, "0.06 CPU s for 1000"),
        ]
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

"""`import mobuild; mobuild.build(...)`: for notebooks and scripts, which must stay as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.projects import Project, toy_project


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose export is in the cache."""
    made = toy_project(tmp_path_factory.mktemp("toy"))
    made.mobuild("target=onnx")
    return made


def test_build_gives_the_path_of_a_real_engine(toy: Project) -> None:
    done = toy.python('import mobuild\nprint(mobuild.build("engine", hardware="l20").path)')

    path = Path(done.out.strip())
    assert path == toy.root / "build/toy/l20/engine.plan"
    assert path.stat().st_size > 1000


def test_several_targets_are_paths_by_name(toy: Project) -> None:
    done = toy.python(
        "import json, mobuild\n"
        'built = mobuild.build(["onnx", "weights"], cache={"strict": False})\n'
        "print(json.dumps({name: str(path) for name, path in built.paths.items()}))\n"
        "print([one.state for one in built.run.results.values()])\n"
        'several = mobuild.build(["onnx", "sanitized"])\n'
        "try:\n"
        "    several.path\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )

    paths, states, error = done.out.splitlines()
    assert json.loads(paths) == {
        "onnx": str(toy.root / "build/toy/cpu/onnx.onnx"),
        "weights": str(toy.root / "models/toy.pt"),  # used in place
    }
    assert states == "['fresh', 'fresh']"
    assert error == "2 targets were built (onnx, sanitized): use .paths[name]"


def test_what_was_built_shows_its_paths_and_can_be_loaded(toy: Project) -> None:
    done = toy.python(
        "import mobuild\n"
        'built = mobuild.build("onnx")\n'
        "print(built)\n"
        "print(mobuild.load(built).path)\n"
        'print(mobuild.build(["onnx", "weights"]))\n'
    )

    onnx, weights = toy.root / "build/toy/cpu/onnx.onnx", toy.root / "models/toy.pt"
    assert done.out.splitlines() == [f"Built(onnx: {onnx})", str(onnx), f"Built(onnx: {onnx}, weights: {weights})"]


def test_importing_mobuild_imports_nothing_else(toy: Project) -> None:
    done = toy.python(
        "import sys\n"
        "before = set(sys.modules)\n"
        "import mobuild\n"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} - {'__future__'}))\n"
    )

    assert done.out == "['mobuild']\n"


ERRORS = [
    ('"enigne"', "GraphError", "recipe 'toy': there is no node 'enigne' to build. Did you mean 'engine'?"),
    ('hardware="l21"', "ConfigError", "l21"),
    ('"onnx", wrkspace="1GiB"', "ConfigError", "wrkspace"),
    ('"engine", hardware="gtx1070"', "NoBackend", "hardware 'gtx1070': none of its backends"),
    ('"onnx", **{"nodes.onnx.opset": 99}', "NodeFailed", "node 'onnx': "),
    ('"onnx", **{"nodes.onnx.model": "toy.py:laod"}', "NodeFailed", "node 'onnx': user code 'toy.py:laod': "),
    ('"onnx", **{"nodes.weights.uri": "gone.pt"}', "SourceError", "recipe 'toy', node 'weights': "),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), ERRORS, ids=[each[0] for each in ERRORS])
def test_a_failure_is_raised_as_its_own_class_and_not_printed(
    toy: Project, arguments: str, kind: str, message: str
) -> None:
    done = toy.python(
        "import mobuild\n"
        "from mobuild import errors\n"
        "try:\n"
        f"    mobuild.build({arguments})\n"
        "except errors.MobuildError as error:\n"
        "    print(type(error).__name__)\n"
        "    print(error)\n"
    )

    lines = done.out.splitlines()
    assert lines[0] == kind
    assert message in lines[1]
    assert "error: " not in done.err


SURROUNDINGS = """\
import logging, os, signal, sys
import mobuild
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins


def surroundings():
    root = logging.getLogger()
    return {
        "argv": list(sys.argv), "cwd": os.getcwd(), "environment": dict(os.environ), "path": list(sys.path),
        "handlers": list(root.handlers), "level": root.level,
        "signals": [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)],
        "singletons": [id(each.instance()) for each in (GlobalHydra, Plugins, ConfigStore)],
        "initialized": GlobalHydra.instance().is_initialized(),
        "groups": sorted(ConfigStore.instance().repo),
    }


"""


def test_the_callers_process_is_left_as_it_was(toy: Project) -> None:
    toy.python(
        SURROUNDINGS + "before = surroundings()\n"
        'mobuild.build("onnx")\n'
        'mobuild.build("onnx", hardware="l20")\n'
        "try:\n"
        '    mobuild.build("enigne")\n'
        "except mobuild.errors.MobuildError:\n"
        "    pass\n"
        "assert surroundings() == before, (surroundings(), before)\n"
    )


def test_it_prints_nothing_on_standard_output(toy: Project) -> None:
    assert toy.python('import mobuild; mobuild.build("onnx")').out == ""


def test_it_works_inside_the_callers_own_hydra(toy: Project, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("rate: 1\n")

    done = toy.python(
        SURROUNDINGS + "import hydra\n"
        f'with hydra.initialize_config_dir("{tmp_path}", version_base="1.3"):\n'
        '    first = hydra.compose("config", overrides=["rate=2"])\n'
        "    before = surroundings()\n"
        '    path = mobuild.build("onnx").path\n'
        "    assert surroundings() == before\n"
        '    second = hydra.compose("config", overrides=["rate=3"])\n'
        "print(path.name, first.rate, second.rate)\n"
    )

    assert done.out == "onnx.onnx 2 3\n"


def test_it_works_inside_the_callers_hydra_main(toy: Project, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("rate: 1\nhydra: {run: {dir: .}, output_subdir: null}\n")

    done = toy.python(
        "import hydra, mobuild\n"
        "from hydra.core.hydra_config import HydraConfig\n"
        f'@hydra.main(config_path="{tmp_path}", config_name="config", version_base="1.3")\n'
        "def app(cfg):\n"
        '    print(mobuild.build("onnx").path.name, cfg.rate, HydraConfig.get().job.config_name)\n'
        "app()\n"
    )

    assert done.out == "onnx.onnx 1 config\n"


def test_one_project_sees_nothing_of_another(toy: Project, tmp_path: Path) -> None:
    """Configs and recipes of the project that was built first are not on the search path of the second."""
    first = toy.copy(tmp_path)
    first.write("conf/project/default.yaml", "# @package _global_\ntarget: weights\nworkspace: 3GiB\n")
    first.write("conf/hardware/mine.yaml", "name: mine\nvendor: cpu\nbackends: [onnxruntime]\n")

    done = first.python(
        "import mobuild\n"
        'mobuild.build("onnx", hardware="mine")\n'
        "try:\n"
        f'    mobuild.build("onnx", hardware="mine", project="{toy.root}")\n'
        "except mobuild.errors.MobuildError as error:\n"
        "    print(error)\n"
    )

    assert "'mine'" in done.out or "hardware/mine" in done.out


def test_threads_build_at_once(toy: Project) -> None:
    done = toy.python(
        "import mobuild\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        'asked = "onnx cpu,sanitized cpu,sanitized l20,onnx l4,weights cpu".split(",") * 2\n'
        "with ThreadPoolExecutor(5) as pool:\n"
        "    built = list(pool.map(lambda one: mobuild.build(one.split()[0], hardware=one.split()[1]), asked))\n"
        "print([f'{one.path.parent.name}/{one.path.name}' for one in built])\n"
    )

    several = ["cpu/onnx.onnx", "cpu/sanitized.onnx", "l20/sanitized.onnx", "l4/onnx.onnx", "models/toy.pt"]
    assert done.out.strip() == str(several * 2)

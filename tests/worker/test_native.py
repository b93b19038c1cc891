"""What native code and child processes read is seen as well, where a library can be preloaded."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import toys
from conftest import Project

from mobuild.executors.local import LocalExecutor, Outcome
from mobuild.observers.environment import names_digest
from mobuild.observers.files import folder_digest

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("a tools folder")


@pytest.fixture
def executor(tools: Path) -> Iterator[LocalExecutor]:
    made = LocalExecutor(tools)
    yield made
    made.close()


@pytest.fixture
def shell(project: Project, call: Callable[..., Outcome]) -> Callable[[str], Outcome]:
    """Build a node whose code runs a shell command in the project."""
    return lambda command: call(f"import subprocess\ndef main(): subprocess.run({command!r}, shell=True)")


@pytest.mark.parametrize(
    ("code", "packages"),
    [("import xxhash", {"xxhash"}), ("import importlib.metadata as installed; installed.entry_points()", set[str]())],
)
def test_packages_of_a_program_are_those_that_it_imports(
    shell: Callable[[str], Outcome], code: str, packages: set[str]
) -> None:
    outcome = shell(f"{sys.executable} -c '{code}'")

    assert outcome.observed.programs.keys() == packages


def test_package_that_is_an_extension_alone_counts_among_those_of_a_program(
    project: Project, shell: Callable[[str], Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    (packages / "quick-1.0.dist-info").mkdir(parents=True)
    (packages / "quick-1.0.dist-info/RECORD").write_text("quick.so,,\n")
    source = tmp_path / "quick.c"
    source.write_text("void *PyInit_quick(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", packages / "quick.so"], check=True)
    monkeypatch.setenv("PYTHONPATH", str(packages))

    outcome = shell(f"{sys.executable} -c 'import quick' || true")

    assert outcome.observed.programs == {"quick": "1.0"}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_safetensors(folder: Path) -> Path:
    import torch
    from safetensors.torch import save_file

    save_file({"w": torch.ones(4)}, folder / "w.safetensors")
    return folder / "w.safetensors"


def write_raw(folder: Path) -> Path:
    (folder / "raw.bin").write_bytes(bytes(16))
    return folder / "raw.bin"


def write_torchscript(folder: Path) -> Path:
    code = "import torch; torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), 'net.ts')"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)  # it is deprecated
    return folder / "net.ts"


def write_onnx(folder: Path) -> Path:
    import onnx
    from numpy import ones
    from onnx import helper, numpy_helper

    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(ones(4096, "float32"), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [value("x", 1, [4096])], [value("y", 1, [4096])], [weight])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.data")
    return folder / "m.data"


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (write_safetensors, "from safetensors.torch import load_file as read\npath = 'w.safetensors'"),
        (write_torchscript, "import torch\nread = torch.jit.load\npath = 'net.ts'"),
        (write_raw, "import torch\nread = lambda path: torch.from_file(path, size=4)\npath = 'raw.bin'"),
        (write_onnx, "import onnxruntime\nread = onnxruntime.InferenceSession\npath = 'm.onnx'"),
        (write_onnx, "import onnx\nread = onnx.load\npath = 'm.onnx'"),
    ],
    ids=[
        "safetensors",
        "torch.jit.load",
        "torch.from_file",
        "session with external data",
        "onnx.load with external data",
    ],
)
def test_native_reader_is_seen(
    project: Project, call: Callable[..., Outcome], write: Callable[[Path], Path], code: str
) -> None:
    file = write(project.root)

    outcome = call(f"{code}\ndef main(): read(path)")

    assert outcome.observed.files[str(file)] == sha256(file)
    assert set(outcome.observed.files) <= {str(file), str(project.root / "m.onnx")}
    assert outcome.observed_by == ("files", "environment", "modules", "distributions", "preload")
    assert outcome.warnings == ("toy warning",)


def test_child_process_is_seen(project: Project, shell: Callable[[str], Outcome], tmp_path: Path) -> None:
    (project.root / "extra.txt").write_text("x")
    (tmp_path / "elsewhere.txt").write_text("y")

    outcome = shell(f"(cat < extra.txt; bash -c 'cat {tmp_path}/elsewhere.txt missing.txt /etc/passwd')")

    assert outcome.observed.files == {
        str(project.root / "extra.txt"): sha256(project.root / "extra.txt"),
        str(tmp_path / "elsewhere.txt"): sha256(tmp_path / "elsewhere.txt"),
        str(project.root / "missing.txt"): "-",
    }


def test_listing_of_a_shell_is_seen(project: Project, shell: Callable[[str], Outcome]) -> None:
    images = project.write("images/a.png", "").parent

    outcome = shell("ls recipes/images/*.png")

    assert outcome.observed.folders == {str(images): folder_digest(str(images))}


def test_file_that_is_edited_after_the_read_holds_for_no_content(
    project: Project, shell: Callable[[str], Outcome]
) -> None:
    (project.root / "extra.txt").write_text("x")

    outcome = shell("cat extra.txt; echo y > extra.txt")

    assert outcome.observed.files == {str(project.root / "extra.txt"): "changing"}


@pytest.mark.parametrize("write", ["echo m > made", "echo m > half; mv half made", "echo m | tee made", "cp $0 made"])
def test_what_a_child_wrote_is_no_input(project: Project, call: Callable[..., Outcome], write: str) -> None:
    outcome = call(
        f"import subprocess\n"
        "def main():\n"
        f"    subprocess.run(['sh', '-c', {write!r}, '/etc/passwd'], check=True)\n"
        "    subprocess.run(['cat', 'made'], check=True)\n"
        "    return open('made').read()\n"
    )

    assert outcome.observed.files == {}


def test_read_through_python_before_a_child_writes_stays_an_input(
    project: Project, call: Callable[..., Outcome]
) -> None:
    (project.root / "count").write_text("1")
    before = sha256(project.root / "count")

    outcome = call(
        "import subprocess\n"
        "def main():\n"
        "    text = open('count').read()\n"
        "    subprocess.run(['sh', '-c', 'echo 2 > count'], check=True)\n"
    )

    assert outcome.observed.files == {str(project.root / "count"): before}


def test_imports_of_a_python_below_count_as_code(project: Project, shell: Callable[[str], Outcome]) -> None:
    script = project.write("script.py", "import importlib\nimportlib.import_module('hel' + 'per')\nopen('labels.csv')")
    helper = project.write("helper.py", "value = 1")
    (project.root / "labels.csv").write_text("a,b")

    first = shell(f"{sys.executable} recipes/script.py")
    second = shell(f"{sys.executable} recipes/script.py")  # now with byte code

    assert first.observed == second.observed
    assert first.observed.files == {
        str(script): sha256(script),
        str(project.root / "labels.csv"): sha256(project.root / "labels.csv"),
    }
    assert first.observed.modules[str(helper)] == str(helper)
    assert first.observed.folders == {}


def test_forked_process_and_threads_are_seen(project: Project, call: Callable[..., Outcome]) -> None:
    files = [project.write(f"many/{number}.txt", str(number)) for number in range(40)]

    outcome = call(
        "import ctypes, multiprocessing, threading\n"
        "native = ctypes.CDLL(None)\n"
        "native.fopen.restype, native.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]\n"
        "def read(number): native.fclose(native.fopen(b'recipes/many/%d.txt' % number, b'r'))\n"
        "def main():\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool: pool.map(read, range(20))\n"
        "    threads = [threading.Thread(target=read, args=(number,)) for number in range(20, 40)]\n"
        "    for thread in threads: thread.start()\n"
        "    for thread in threads: thread.join()\n"
    )

    assert outcome.observed.files == {str(file): sha256(file) for file in files}


def test_library_of_the_project_is_seen(project: Project, call: Callable[..., Outcome]) -> None:
    library = project.root / "libtoy.so"
    subprocess.run(["cc", "-shared", "-o", library, "-x", "c", "-"], input=b"int toy(void) { return 7; }", check=True)

    outcome = call(f"import ctypes\ndef main(): return ctypes.CDLL({str(library)!r}).toy()")

    assert outcome.measurements["answer"] == 7
    assert outcome.observed.files == {str(library): sha256(library)}


def test_observer_is_no_part_of_the_observed_environment(
    project: Project, call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")

    outcome = call(
        "import os\ndef main(): return [len(dict(os.environ)), os.environ['LD_PRELOAD'], os.environ['MOBUILD_READS']]"
    )

    assert outcome.observed.environment == {"*": names_digest(list(os.environ))}
    assert outcome.measurements["answer"][1].startswith("libm.so.6:")


@pytest.mark.parametrize("version", ["3.8.18", "3.13.0"])
def test_other_interpreters_are_watched_alike(project: Project, call: Callable[..., Outcome], version: str) -> None:
    python = Path.home() / f".pyenv/versions/{version}/bin/python"
    if not python.exists():
        pytest.skip(f"no Python {version} installed by pyenv")
    (project.root / "extra.txt").write_text("x")

    outcome = call("import os\ndef main(): os.system('cat extra.txt')", python=python)

    assert list(outcome.observed.files) == [str(project.root / "extra.txt")]
    assert "preload" in outcome.observed_by


def test_warm_processes_are_left_alone(project: Project) -> None:
    outcome = project.run(toys.Plain(), isolated=False)

    assert "preload" not in outcome.observed_by


@pytest.mark.parametrize("compiler", ["", "#!/bin/sh\nexit 1\n"], ids=["none", "broken"])
def test_without_a_compiler_the_record_says_what_watched_instead(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    if compiler:
        (programs / "cc").write_text(compiler)
        (programs / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    project.executor = LocalExecutor(tmp_path / "new tools")
    project.write("user.py", "def main(): return 1")

    outcome = project.run(toys.Call("user.py:main"))

    assert outcome.observed_by == ("files", "environment", "modules", "distributions", "inotify")
    assert outcome.warnings == ("toy warning",)


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace, the oracle")
def test_no_fewer_files_than_strace_tells(project: Project, shell: Callable[[str], Outcome], tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "sub/c.txt", "sub/d.csv"):
        (project.root / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / "data" / name).write_text(name)
    command = (
        "cd data; cat a.txt | sort; grep -r nothing sub; tar cf - . | wc -c; sed p < b.txt; cmp a.txt sub/../b.txt; "
        f"awk 1 sub/d.csv; {sys.executable} -c 'import glob; [open(one) for one in glob.glob(\"sub/*.txt\")]'"
    )

    trace = tmp_path / "trace"
    traced = ["strace", "-f", "-y", "-qq", "-e", "trace=open,openat", "-o", trace, "sh", "-c", command]
    if subprocess.run(traced, cwd=project.root, capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    outcome = shell(command)

    opened = {line.rpartition("<")[2].rstrip(">\n") for line in trace.read_text().splitlines() if "= " in line}
    told = {path for path in opened if path.startswith(f"{project.root}/") and Path(path).is_file()}
    assert len(told) == 4
    assert told <= set(outcome.observed.files)

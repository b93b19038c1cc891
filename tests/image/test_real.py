"""The image of the shipped recipe, with real packages, runs: by bubblewrap, podman, umoci and skopeo where they are."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy
import pytest

from mobuild.image import bytecode, sandbox
from tests.projects import Finished, Project

RECIPES = Path(__file__).parents[2] / "recipes"
SELFTEST = ["/usr/bin/python3.11", "-m", "mobuild_runtime", "selftest"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the image of crepe_tiny."""
    if reason := bytecode.cannot("amd64"):
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("real")
    shutil.copytree(RECIPES, root / "project/recipes", ignore=shutil.ignore_patterns("minilm*"))
    project = Project(root / "project", root / "cache")
    project.write("pyproject.toml", '[tool.mobuild]\nrecipe = "crepe_tiny"\n')
    _or_skip(project.mobuild("lock", "target=[image_debs,image_wheels]", check=False))
    _or_skip(project.mobuild("target=[image_debs,image_wheels]", check=False))
    project.mobuild("target=[image,image_base,image_python,image_deps,image_app,image_model]")
    return project


def _or_skip(done: Finished) -> None:
    assert done.status < 2, done.err
    if done.status:
        pytest.skip(f"packages of Debian or wheels cannot be had here: {done.err.strip().splitlines()[-1]}")


def needs(tool: str) -> None:
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")


def image(project: Project) -> Path:
    return project.root / "build/crepe_tiny/cpu/image.tar"


def test_it_is_small(project: Project) -> None:
    measured = json.loads(image(project).with_name("image.tar.json").read_bytes())["measurements"]

    without_engine = measured["image_bytes"] - measured["layers"]["model"]
    assert without_engine <= 42e6
    assert measured["plain_bytes"] - measured["layers"]["model"] <= 124e6  # a tar; 3000 headers are 2 MB of it


@pytest.fixture(scope="module")
def root(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the image."""
    root = tmp_path_factory.mktemp("unpacked") / "root"
    with tarfile.open(image(project)) as archive:
        stream = archive.extractfile("manifest.json")
        assert stream
        for name in json.load(stream)[0]["Layers"]:
            layer = archive.extractfile(name)
            with tarfile.open(fileobj=layer) as inner:
                inner.extractall(root, filter="tar")
    return root


def bubblewrap(root: Path, *options: str) -> list[str]:
    needs("bwrap")
    command = ["bwrap", "--unshare-all", *options, "--clearenv", "--setenv", "PYTHONPATH", "/app"]
    command += ["--setenv", "MOBUILD_HOST", "127.0.0.1", "--setenv", "MOBUILD_PORT", "0", "--ro-bind", str(root), "/"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--uid", "65532", "--gid", "65532"]
    return [*command, "--die-with-parent"]


def test_it_runs_its_self_test_without_network_and_read_only(root: Path) -> None:
    done = subprocess.run([*bubblewrap(root), *SELFTEST], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"]
    found = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    unwanted = ("/torch/", "/onnx/", "/pip/", "/mobuild/")
    assert not [
        name for name in found if name.endswith((".a", ".h", "bin/sh")) or any(each in name for each in unwanted)
    ]


def test_it_serves_clients_of_triton(root: Path) -> None:
    client_of = pytest.importorskip("tritonclient.http")
    command = [*bubblewrap(root, "--share-net"), *SELFTEST[:-1], "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            first = json.loads(process.stdout.readline())
            client = client_of.InferenceServerClient(f"127.0.0.1:{first['port']}")
            frames = numpy.zeros((2, 1024), numpy.float32)
            given = client_of.InferInput("frames", list(frames.shape), "FP32")
            given.set_data_from_numpy(frames)

            answer = client.infer("crepe_tiny", [given]).as_numpy("pitch")

            assert client.is_server_live() and client.is_server_ready()
            assert answer.shape == (2, 360)
            client.close()
        finally:
            process.terminate()


def test_its_bill_of_materials_is_valid_and_lists_what_is_pinned(project: Project) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = image(project).with_name("image.cdx.json").read_text()
    pins = json.loads((project.root / "recipes/crepe_tiny.lock").read_bytes())["sources"]

    listed = {each["name"]: each["hashes"][0]["content"] for each in json.loads(text)["components"]}

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    wanted = {name.rpartition("/")[2]: pin["sha256"] for name, pin in pins.items() if "/amd64/" in name}
    cpu = {name: digest for name, digest in wanted.items() if not name.startswith(("tensorrt", "nvidia"))}
    assert cpu.items() <= listed.items()


def test_its_build_ran_it_and_its_outputs_are_those_of_the_build(project: Project) -> None:
    proof = json.loads((project.root / "build/crepe_tiny/cpu/run.json").read_bytes())["nodes"]["image_proof"]["proof"]

    if reason := sandbox.cannot():
        assert proof["selftest"] == f"not run: {reason}"
    else:
        assert proof["selftest"].startswith("passed in ")
        assert proof["max_abs"] == 0


def test_code_of_the_users_without_its_packages_gets_no_image(project: Project) -> None:
    if missing := sandbox.cannot():
        pytest.skip(missing)
    project.write("recipes/serving.py", "import PIL\n\n\ndef answer(run, body, content_type): ...\n")

    done = project.mobuild("target=image", "image.app=serving.py:answer", check=False)

    assert done.status == 1
    assert "error: node 'image_proof': image: its self test failed in " in done.err
    assert "'serving:answer' cannot be loaded: ModuleNotFoundError: No module named 'PIL'" in done.err
    assert {path.name for path in (project.root / "build/crepe_tiny").glob("cpu+*/*")} == {"run.json"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("hardware=l20",), "not run: needs an NVIDIA GPU, and the sandbox has none"),
        (
            ("hardware=l4", "backend=tensorrt", "backend.version_compatible=true", "image.model=mount"),
            "not run: no engine inside",
        ),
    ],
    ids=["tensorrt_rtx", "tensorrt_lean"],
)
def test_an_image_for_a_card_starts_and_says_what_was_not_run(
    project: Project, words: tuple[str, ...], reason: str
) -> None:
    if missing := sandbox.cannot():
        pytest.skip(missing)
    _or_skip(project.mobuild("lock", "target=image_wheels", *words, check=False))
    _or_skip(project.mobuild("target=image_wheels", *words, check=False))

    made = project.mobuild("target=image", *words, "image.compression=none").out.strip()

    proof = json.loads(Path(made).with_name("run.json").read_bytes())["nodes"]["image_proof"]["proof"]
    assert proof["starts"].startswith("passed in ")
    assert proof["selftest"] == reason
    with tarfile.open(made) as archive:
        stream = archive.extractfile("manifest.json")
        assert stream
        config = archive.extractfile(json.load(stream)[0]["Config"])
        assert config
        labels = json.load(config)["config"]["Labels"]
    assert labels["io.mobuild.selftest"] == reason
    assert labels["io.mobuild.verdict"] == ("proxy" if "no engine" not in reason else "not run")


def test_podman_runs_it(project: Project) -> None:
    needs("podman")
    needs("runc")
    with tempfile.TemporaryDirectory() as store:  # podman refuses a longer path
        podman = ["podman", "--root", f"{store}/s", "--runroot", f"{store}/r", "--storage-driver", "vfs"]
        subprocess.run([*podman, "load", "-i", str(image(project))], check=True, capture_output=True)
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
        run = [*podman, "--runtime", "runc", "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp"]
        done = subprocess.run([*run, *limits, "crepe_tiny:latest", "selftest"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"]


def test_skopeo_and_umoci_take_it(project: Project, tmp_path: Path) -> None:
    needs("skopeo")
    needs("umoci")
    copy = ["skopeo", "copy", f"oci-archive:{image(project)}:crepe_tiny:latest", f"oci:{tmp_path}/layout:v1"]
    subprocess.run(copy, check=True, capture_output=True)

    inspected = subprocess.run(
        ["skopeo", "inspect", f"oci:{tmp_path}/layout:v1"], check=True, capture_output=True, text=True
    )
    subprocess.run(
        ["umoci", "unpack", "--rootless", "--image", f"{tmp_path}/layout:v1", str(tmp_path / "bundle")],
        check=True,
        capture_output=True,
    )

    ran = sandbox.run(sandbox.Task(tmp_path / "bundle/rootfs", SELFTEST, {"PYTHONPATH": "/app"}), ["runc"])
    if ran.by:  # it works here
        outputs = json.loads(ran.output.splitlines()[-1])["cases"][0]["outputs"]
        assert (ran.status, outputs) == (0, {"pitch": {"passed": True, "max_abs": 0.0}})
    measured = json.loads(image(project).with_name("image.tar.json").read_bytes())["measurements"]
    assert json.loads(inspected.stdout)["Digest"] == measured["manifest"]
    assert (tmp_path / "bundle/rootfs/model/engine.onnx").is_file()

"""`target=image` with packages of a few bytes."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from mobuild.image import layers, writer
from mobuild.image.tree import Tree
from tests.image.packages import wheel
from tests.image.registries import registry
from tests.image.worlds import ARCHITECTURE, LAYERS, PROOFS, World, first, in_layers, in_tar, pin, world
from tests.projects import Project
from tests.runtime.servers import command

__all__ = ["first", "world"]  # fixtures


def test_an_image_serves_its_engine_and_tells_what_it_is(first: World) -> None:
    config, names = in_tar(first.run.parent / "image.tar")
    inside = config["config"]
    assert inside["Entrypoint"] == ["/usr/bin/python3.11", "-m", "mobuild_runtime"]
    assert inside["User"] == "65532:65532"
    assert {"ORT_DISABLE_TELEMETRY=1", "MOBUILD_MODEL=/model"} <= set(inside["Env"])
    assert {"model/engine.onnx", "model/model.json", "model/selftest.tensors"} <= set(names)
    assert {"app/mobuild_runtime/__main__.py", "usr/lib/python3/dist-packages/numpy/__init__.py"} <= set(names)
    assert not [name for name in names if "/tests/" in name or "/torch/" in name]
    labels = inside["Labels"]
    assert labels["io.mobuild.recipe"] == "toy"
    assert labels["io.mobuild.selftest"] == "not run"
    assert labels["io.mobuild.verdict"] == "not run"
    assert len(labels["io.mobuild.engine.sha256"]) == 64


def test_two_projects_make_one_image(first: World, tmp_path: Path) -> None:
    """exp-nondeterministic-bytes: from two folders, whose names are not inside."""
    other = World(tmp_path)

    other.built()

    assert other.image["manifest"] == first.image["manifest"]
    for name in ("image.tar", "image.cdx.json"):
        assert (other.run.parent / name).read_bytes() == (first.run.parent / name).read_bytes()
    layers = [in_layers(one.run.parent / "image.tar") for one in (first, other)]
    assert all(b"mobuild_runtime/__main__.py" in told for told in layers)
    assert not [one.root for one in (first, other) for told in layers if str(one.root).encode() in told]


def test_where_packages_come_from_and_whether_a_proof_is_wanted_make_no_variant(world: World) -> None:
    elsewhere = world.mirror.rename(world.root / "elsewhere")

    built = world.built(f"image.mirror=file://{elsewhere}", "image.selftest=false")

    assert built == set()
    assert len(list((world.project.root / "build/toy").iterdir())) == 1


def test_an_engine_that_changed_is_one_new_layer(world: World) -> None:
    before = world.image["layers"]
    world.model(2.0)

    built = world.built()

    assert built & {*LAYERS, *PROOFS, "image_debs", "image_wheels"} == {"image_model", *PROOFS, "image"}
    assert {name: size for name, size in world.image["layers"].items() if name != "model"} == {
        name: size for name, size in before.items() if name != "model"
    }


def test_what_was_proven_stands_in_the_run_and_why_the_rest_was_not(first: World) -> None:
    proof = json.loads(first.run.read_bytes())["nodes"]["image_proof"]["proof"]

    assert (proof["links"], proof["denied"]) == ("passed", "passed")
    assert proof["selftest"].startswith("not run: the image is for ")


def test_its_bill_of_materials_and_its_provenance_lie_beside_it(world: World) -> None:
    folder = world.run.parent
    bill = json.loads((folder / "image.cdx.json").read_bytes())
    statement = json.loads((folder / "image.intoto.json").read_bytes())

    pins = json.loads((world.project.root / "recipes/toy.lock").read_bytes())["sources"]
    listed = {each["hashes"][0]["content"] for each in bill["components"]}
    assert {each["sha256"] for each in pins.values()} < listed
    assert all(each["version"] for each in bill["components"])
    numpy = next(each for each in bill["components"] if each["name"] == "numpy")
    assert numpy["licenses"][0]["license"]["id"] == "MIT"
    engine = next(each for each in bill["components"] if each["type"] == "machine-learning-model")
    told = json.loads((folder / "image.tar.json").read_bytes())
    assert engine["hashes"][0]["content"] == told["fingerprint"]["params"]["facts"]["sha256"]
    assert [each["name"] for each in statement["subject"]] == ["image.tar", "manifest"]
    assert f"sha256:{statement['subject'][1]['digest']['sha256']}" == world.image["manifest"]
    depends = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {each["sha256"] for each in pins.values()} < {each["digest"].get("sha256") for each in depends}
    assert str(world.root) not in json.dumps(statement)

    (folder / "image.cdx.json").unlink()
    assert world.built() == set()
    assert (folder / "image.cdx.json").is_file()


def test_after_an_engine_changed_one_layer_is_pushed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    with registry(tmp_path / "registry") as address:
        words = (*world.words, f"image.push={address}/team/toy:v1")
        first = world.project.mobuild(*words, env=world.variables)
        world.model(2.0)
        second = world.project.mobuild(*words, env=world.variables)

    sent = [re.search(r"\((\d of \d) blobs sent", done.err) for done in (first, second)]
    assert [each and each[1] for each in sent] == ["6 of 6", "2 of 6"]  # the other one is the configuration
    assert world.image["manifest"] in second.err


def test_a_sweep_shares_all_but_the_engine(world: World) -> None:
    done = world.project.mobuild("-m", *world.words, "backend.level=basic,extended", env=world.variables)

    ran = [line for line in done.err.splitlines() if line.startswith("built")]
    assert not [line for line in ran if "image_base" in line or "image_deps" in line]
    assert len([line for line in ran if "image_model" in line]) == 1


def test_without_a_lock_the_command_that_pins_is_named(world: World) -> None:
    (world.project.root / "recipes/toy.lock").unlink()

    done = world.project.mobuild(*world.words, env=world.variables, check=False)

    assert done.status == 1
    assert any("wheels are not pinned: numpy, onnxruntime" in error for error in done.errors)
    assert all("mobuild lock" in error and "target=image" in error for error in done.errors)


def test_a_name_that_nothing_loads_is_refused_before_anything_runs(world: World) -> None:
    done = world.project.mobuild(*world.words, "image.name=UPPER", env=world.variables, check=False)

    assert done.status == 2
    assert "image.name: 'UPPER' has capital letters" in done.err


@pytest.mark.parametrize("found", ["[nix.txt]", "['-r nix.txt']"])
def test_a_file_of_requirements_is_refused(world: World, found: str) -> None:
    done = world.project.mobuild(*world.words, f"image.requirements={found}", env=world.variables, check=False)

    assert done.status == 2
    assert "image.requirements: expected packages, found" in done.err


def test_a_missing_base_is_not_said_to_be_unpinned(world: World) -> None:
    done = world.project.mobuild(*world.words, "image.base=oci:/nix", env=world.variables, check=False)

    assert done.status == 1
    assert "no OCI layout: there is no '/nix/index.json'" in done.err
    assert "not pinned" not in done.err


def test_the_folder_to_mount_is_in_the_layer_of_the_model(world: World, tmp_path: Path) -> None:
    words = ("target=[image,image_model]", *world.words[1:], "image.model=mount")
    world.project.mobuild(*words, env=world.variables)

    with tarfile.open(world.run.parent / "image_model/blob") as archive:
        assert all(member.mode & 0o444 == 0o444 for member in archive)
        archive.extractall(tmp_path, filter="data")

    assert not [name for name in in_tar(world.run.parent / "image.tar")[1] if name.startswith("model")]
    assert command("selftest", tmp_path / "model").returncode == 0


def test_to_pin_one_configuration_keeps_the_pins_of_others(world: World) -> None:
    path = world.project.root / "recipes/toy.lock"
    document = json.loads(path.read_bytes())
    app = f"wheel:onnxruntime/cp311/{ARCHITECTURE}/pillow"
    document["sources"][app] = {"sha256": "a" * 64, "size_bytes": 1, "version": "1", "place": "pillow-1.whl"}
    path.write_text(json.dumps(document))

    words = ("target=image_wheels", *world.words[1:], "image.requirements=['numpy==2.0.0','onnxruntime==1.99.0']")

    done = world.project.mobuild("lock", *words, env=world.variables)

    assert f"as before wheel:onnxruntime/cp311/{ARCHITECTURE}/numpy" in done.out
    assert json.loads(path.read_bytes())["sources"].keys() == document["sources"].keys()


def test_another_wheel_than_the_pinned_one_is_refused(world: World) -> None:
    path = next(world.index.glob("numpy*"))
    with path.open("ab") as stream:
        stream.write(b"other")
    words = [word.replace("=image", "=image_wheels") for word in world.words[:2]]

    done = Project(world.project.root, world.root / "empty").mobuild(*words, env=world.variables, check=False)

    assert done.status == 1
    assert "pip cannot have them" in done.err
    assert "mobuild lock target=image" in done.err


def test_an_older_runtime_than_the_builder_is_refused(world: World) -> None:
    """ort-ir-opset: whatever the engine is made of, the runtime of the image is as new as what opened it here."""
    lock = world.project.root / "recipes/toy.lock"
    old = next(world.index.glob("onnxruntime*"))
    new = old.with_name(old.name.replace("1.99.0", "1.2.0"))
    machine = old.name.rpartition("_28_")[2].removesuffix(".whl")
    info = "onnxruntime-1.2.0.dist-info"
    wheel(
        new,
        {
            f"{info}/METADATA": b"Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.2.0\n",
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_28_{machine}\n".encode(),
            f"{info}/RECORD": b"",
        },
    )
    document = json.loads(lock.read_bytes())
    document["sources"][f"wheel:onnxruntime/cp311/{ARCHITECTURE}/onnxruntime"] = pin(new, "1.2.0", new.name)
    lock.write_text(json.dumps(document))

    done = world.project.mobuild(*world.words, env=world.variables, check=False)

    assert done.status == 1
    assert "and the image's is 1.2.0" in done.err


def test_an_image_over_its_budget_names_the_largest_files(world: World) -> None:
    done = world.project.mobuild(*world.words, "+constraints.image_mb=0.01", env=world.variables, check=False)

    assert done.status == 1
    named = re.search(r"image_mb of the image \(largest, in MB: (.+)\): measured \d", done.err)
    assert named and len(named[1].split(", ")) == 5
    assert no_image_is_left(world)


def no_image_is_left(world: World) -> bool:
    """Whether the image of an earlier build has gone with all that lay beside it."""
    return {path.name for path in world.run.parent.iterdir()} == {"run.json"}


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("image.app=code:answer", "/app/code/x.h: header: serves a compiler alone"),
        ("+constraints.engine_mb=0", "gate failed; blocks image_model, image"),
    ],
)
def test_what_fails_its_proof_gets_no_image(world: World, word: str, text: str) -> None:
    world.project.write("recipes/code/__init__.py", "def answer(run, body, content_type): ...\n")
    world.project.write("recipes/code/x.h", "")

    done = world.project.mobuild(*world.words, word, env=world.variables, check=False)

    assert done.status == 1
    assert text in done.err
    assert not list((world.project.root / "build/toy").glob("*/.*"))
    assert word.startswith("image.app") or no_image_is_left(world)


def test_wheels_that_are_not_for_the_target_are_named_when_they_are_pinned(world: World) -> None:
    other = {"arm64": "amd64", "amd64": "arm64"}[ARCHITECTURE]

    done = world.project.mobuild(
        "lock", "target=image_wheels", f"image.architecture={other}", env=world.variables, check=False
    )

    assert done.status == 1
    assert re.search(r"wheels of onnxruntime\S*, numpy\S* for Python 3\.11 on \w+: pip cannot have them", done.err)
    assert "check that there is a wheel for that platform" in done.err


def test_an_engine_that_no_image_opens_is_refused(world: World) -> None:
    words = ("hardware=l4", "backend=tensorrt")

    done = world.project.mobuild(*world.words, *words, env=world.variables, check=False)

    assert done.status == 2
    assert "no image is made with the runtime 'tensorrt'" in done.err
    assert "backend.version_compatible=true" in done.err


@pytest.mark.parametrize(
    ("app", "files", "inside"),
    [
        ("serving.py:answer", ("serving.py",), {"app/serving.py"}),
        ("pre/serving:answer", ("pre/serving/__init__.py", "pre/serving/mean.txt"), None),
    ],
)
def test_code_of_the_users_rides_along(world: World, app: str, files: tuple[str, ...], inside: set[str] | None) -> None:
    for name in files:
        world.project.write(f"recipes/{name}", "def answer(run, body, content_type): ...\n")

    built = world.built(f"image.app={app}")

    config, names = in_tar(world.run.parent / "image.tar")
    assert (inside or {"app/serving/__init__.py", "app/serving/mean.txt"}) <= set(names)
    assert "MOBUILD_APP=serving:answer" in config["config"]["Env"]
    assert built == {"image_app", *PROOFS, "image"}
    world.project.write(f"recipes/{files[0]}", "def answer(run, body, content_type): return 1\n")
    assert world.built(f"image.app={app}") == built


def test_code_that_is_not_there_is_named(world: World) -> None:
    done = world.project.mobuild(*world.words, "image.app=absent.py:answer", env=world.variables, check=False)

    assert done.status == 1
    assert "absent.py': there is no such file" in done.err
    assert "image.app" in done.err


@pytest.mark.parametrize(("file", "app"), [("serving.py", "serving.py"), ("serving/__init__.py", "serving")])
def test_a_misspelt_function_is_told_before_anything_is_built(world: World, file: str, app: str) -> None:
    world.project.write(f"recipes/{file}", "def answer(run, body, content_type): ...\n")

    done = world.project.mobuild(*world.words, f"image.app={app}:answr", env=world.variables, check=False)

    assert done.status == 2
    assert "image.app: " in done.err and "Did you mean 'answer'?" in done.err


def test_a_mounted_model_is_no_layer_and_needs_no_engine(world: World) -> None:
    built = world.built("image.model=mount")

    assert "engine" not in built
    assert "model" not in world.image["layers"]


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("image.format=zip", "image.format: expected one of tar, layout, context, found 'zip'"),
        ("image.compression=xz", "image.compression: expected one of gzip, zstd, none, found 'xz'"),
        ("image.model=beside", "image.model: expected one of inside, mount, found 'beside'"),
        ("image.app=serving.py", "image.app: expected file.py:function or folder:function, found 'serving.py'"),
        ("image.base=alpine", "image.base: there is no base 'alpine'"),
        ("image.epoch=-1", "image.epoch: expected seconds from 1970 to the end of 9999, found -1"),
        ("image.epoch=1700000000000", "to the end of 9999, found 1700000000000"),
    ],
)
def test_what_is_not_understood_is_said(world: World, word: str, text: str) -> None:
    done = world.project.mobuild(*world.words, word, env=world.variables, check=False)

    assert done.status == 2
    assert text in done.err


def test_a_context_adds_every_layer(world: World) -> None:
    world.built("image.format=context")

    folder = world.run.parent / "image"
    lines = (folder / "Containerfile").read_text().splitlines()
    added = [line.split()[1] for line in lines if line.startswith("ADD")]
    assert added == [f"0{i}-{name}.tar.gz" for i, name in enumerate(("base", "python", "deps", "app", "model"))]
    assert all((folder / name).is_file() for name in added)
    assert lines[-2:] == ['ENTRYPOINT ["/usr/bin/python3.11", "-m", "mobuild_runtime"]', 'CMD ["serve"]']


def test_a_base_of_the_users_is_below_and_keeps_its_variables(world: World, tmp_path: Path) -> None:
    tree = Tree()
    tree.file("usr/lib/libc.so.6", b"GNU C Library stable release version 2.36.")
    layer = layers.write(tree, tmp_path / "layer", "base", 0)
    own = writer.Image("own:v1", [layer], {"Env": ["OWN=1"]}, architecture=ARCHITECTURE)
    reference = f"oci:{tmp_path}/layout"
    written = writer.write_layout(own, tmp_path / "layout")
    lock = world.project.root / "recipes/toy.lock"
    document = json.loads(lock.read_bytes())
    digest = written.manifest.partition(":")[2]
    document["sources"][f"base:{reference}/{ARCHITECTURE}"] = {"sha256": digest, "size_bytes": 0, "version": ""}
    lock.write_text(json.dumps(document))

    world.built(f"image.base={reference}")

    config, _ = in_tar(world.run.parent / "image.tar")
    assert config["rootfs"]["diff_ids"][0] == layer.diff_id
    assert {"OWN=1", "MOBUILD_MODEL=/model"} <= set(config["config"]["Env"])
    assert config["config"]["Labels"]["org.opencontainers.image.base.digest"] == written.manifest
    assert str(tmp_path) not in json.dumps(config)

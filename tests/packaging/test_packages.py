"""The packages that users install, wheel and sdist: their contents, and that they work where nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import ltr_harness

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def distributions(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is built from it, of what is committed or about to be."""
    hatchling = pytest.importorskip(
        "hatchling.build", reason="the package `hatchling` (extra test) is not installed"
    )
    made, unpacked = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    with pytest.MonkeyPatch.context() as patch:
        # in this process, as `python -m build --no-isolation` does it in five
        patch.chdir(repository)
        sdist = made / hatchling.build_sdist(str(made))
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        patch.chdir(unpacked / sdist.name.removesuffix(".tar.gz"))
        hatchling.build_wheel(str(made))
    return made


def wheel_of(distributions: Path) -> Path:
    (wheel,) = distributions.glob("*.whl")
    return wheel


def test_the_version_is_said_once(repository: Path, distributions: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]
    assert version("ltr-harness") == ltr_harness.__version__
    assert f"-{ltr_harness.__version__}-" in wheel_of(distributions).name
    changes = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{ltr_harness.__version__}] - 20" in changes


def test_the_wheel_holds_the_whole_package_and_nothing_else(repository: Path, distributions: Path) -> None:
    inside = {
        name for name in zipfile.ZipFile(wheel_of(distributions)).namelist() if ".dist-info/" not in name
    }
    there = {
        path.relative_to(repository).as_posix()
        for path in (repository / "ltr_harness").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == there
    assert "ltr_harness/py.typed" in inside
    assert any(name.endswith((".js", ".css", ".j2", ".html")) for name in inside)  # reports work offline


def test_mlflow_is_told_of_its_evaluator(distributions: Path) -> None:
    archive = zipfile.ZipFile(wheel_of(distributions))
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    said = archive.read(name).decode()
    assert (
        "[mlflow.model_evaluator]\nltr_harness = ltr_harness.integrations.mlflow:RankingEvaluator\n" in said
    )


def test_the_sdist_can_be_tested(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "SECURITY.md",
        "requirements-cpu.txt",
        "docs/trust.md",
        "scripts/test",
        "configs/quickstart.yaml",
    } <= names
    assert "tests/conftest.py" in names


@pytest.fixture(scope="module")
def pythons() -> list[str]:
    """The Pythons that are promised and here, the oldest first, on the path or under pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for minor in range(11, 20):
        name = f"python3.{minor}"
        candidates = [shutil.which(name), *sorted(map(str, versions.glob(f"3.{minor}.*/bin/{name}")))]
        for python in filter(None, candidates):
            command = [python, "-c", "import venv, ensurepip"]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                found[minor] = python
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("age", ["oldest", "newest"])
def test_the_wheel_works_in_an_empty_environment(
    age: str, pythons: list[str], distributions: Path, repository: Path, tmp_path: Path
) -> None:
    if not pythons or (age == "newest" and len(pythons) == 1):
        pytest.skip(f"no {'other ' if pythons else ''}Python of 3.11 or newer is here")
    python = pythons[0 if age == "oldest" else -1]
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        key: value for key, value in os.environ.items() if key.startswith(("PIP_", "PATH", "LANG"))
    }
    environment["HOME"] = str(home)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    made = subprocess.run([python, "-m", "venv", str(tmp_path / "env")], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    bin_ = tmp_path / "env" / "bin"
    run(str(bin_ / "pip"), "install", "--quiet", str(wheel_of(distributions)))
    run(str(bin_ / "python"), "-c", "import ltr_harness; print(ltr_harness.__version__)")
    run(str(bin_ / "ltr-harness"), "doctor")
    shutil.copy(repository / "configs" / "quickstart.yaml", tmp_path)
    done = run(str(bin_ / "ltr-harness"), "run", "quickstart.yaml")
    assert "lgbm-lambdarank" in done.stdout
    assert (tmp_path / "runs" / "quickstart" / "report" / "report.html").is_file()
    # an extra that is not there is one message that says what to install
    run(str(bin_ / "ltr-harness"), "init", "-o", "mine.yaml")
    lacking = subprocess.run(
        [bin_ / "ltr-harness", "check", "mine.yaml", "--set", "models.one-feature={ranker: catboost}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert lacking.returncode == 2
    assert "pip install 'catboost>=" in lacking.stderr


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["catboost", "tune", "dask", "mlflow", "onnx"])
def test_every_extra_installs_by_itself(extra: str, distributions: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    wheel = f"{wheel_of(distributions)}[{extra}]"
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", wheel], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        [tmp_path / "env" / "bin" / "ltr-harness", "doctor"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout
    assert f"ok      extra {extra}: " in said.stdout


@pytest.mark.slow
def test_without_gpu_libraries(distributions: Path, repository: Path, tmp_path: Path) -> None:
    """README's line for small installations."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    for what in (
        ("-r", str(repository / "requirements-cpu.txt")),
        ("--no-deps", str(wheel_of(distributions))),
    ):
        command = [python, "-m", "pip", "install", "--quiet", *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    packages = tmp_path / "env" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    assert not (packages / "nvidia").exists()
    said = subprocess.run(
        [tmp_path / "env" / "bin" / "ltr-harness", "doctor"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout
    assert "ok      xgboost: " in said.stdout

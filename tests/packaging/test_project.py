"""The files beside the package: the commands of CI, files for other tools, and the script that makes a release."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import ltr_harness
from ltr_harness.errors import install_line, requirements_of

TEXTS = [
    *(".github/workflows/check.yml", "CITATION.cff", ".pre-commit-config.yaml", "Dockerfile", "pixi.toml"),
    *("SECURITY.md", "requirements-cpu.txt", ".dockerignore", ".github/ISSUE_TEMPLATE/bug_report.yml"),
    *(".github/ISSUE_TEMPLATE/feature_request.yml", ".github/ISSUE_TEMPLATE/config.yml", "scripts/release"),
]


@pytest.fixture(scope="module", autouse=True)
def _in_a_checkout(repository: Path) -> None:
    if not (repository / ".github").is_dir():
        pytest.skip("these files are not in the sdist")


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def release(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("release")


def parse_yaml(repository: Path, name: str) -> Any:
    return yaml.safe_load((repository / name).read_text(encoding="utf-8"))


def bounds(requirements: list[str]) -> dict[str, str]:
    listed = [Requirement(text) for text in requirements]
    return {canonicalize_name(one.name): str(one.specifier) for one in listed}


@pytest.mark.parametrize("name", TEXTS)
def test_no_file_names_a_host(repository: Path, name: str) -> None:
    text = (repository / name).read_text(encoding="utf-8")
    assert not re.search(r"://|\w\.(com|org|io|net|dev)\b", text)


class TestCI:
    def test_runs_the_one_check_on_each_system_and_python(
        self, repository: Path, project: dict[str, Any]
    ) -> None:
        job = parse_yaml(repository, ".github/workflows/check.yml")["jobs"]["check"]
        matrix = job["strategy"]["matrix"]
        assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
        promised = [text.rpartition(" ")[2] for text in project["classifiers"] if ":: 3." in text]
        assert matrix["python"] == promised
        assert project["requires-python"] == f">={promised[0]}"
        assert "scripts/check" in job["steps"][-1]["run"]
        assert (repository / "scripts" / "check").stat().st_mode & 0o100

    def test_runs_the_quick_tests_on_the_oldest_and_newest_versions(
        self, repository: Path, project: dict[str, Any]
    ) -> None:
        *_, python, uv, last = parse_yaml(repository, ".github/workflows/check.yml")["jobs"]["floors"][
            "steps"
        ]
        promised = [text.rpartition(" ")[2] for text in project["classifiers"] if ":: 3." in text]
        assert python["with"]["python-version"].split() == [promised[0], promised[-1]]
        assert (uv["run"], last["run"]) == ("python -m pip install uv", "scripts/floors")
        assert (repository / "scripts" / "floors").stat().st_mode & 0o100

    def test_one_machine_runs_everything_once_and_what_libraries_decide_on_other_pythons(
        self, repository: Path
    ) -> None:
        *_, check, pythons = (repository / ".ci" / "run").read_text(encoding="utf-8").splitlines()
        assert (check, pythons) == ("scripts/check", "scripts/pythons")
        text = (repository / "scripts" / "test").read_text(encoding="utf-8")
        listed = re.findall(r"\btests/[\w/.]+", text)
        assert {"tests/boosting", "tests/models", "tests/models/trees", "tests/data/readers"} <= set(listed)
        assert [name for name in listed if not (repository / name).exists()] == []

    def test_what_runs_before_a_commit_is_the_same_check(self, repository: Path) -> None:
        [source] = parse_yaml(repository, ".pre-commit-config.yaml")["repos"]
        [hook] = source["hooks"]
        assert (source["repo"], hook["language"]) == ("local", "system")  # nothing is fetched
        script, option = hook["entry"].split()
        assert option in (repository / script).read_text(encoding="utf-8")


def test_every_dependency_has_a_lower_bound(project: dict[str, Any]) -> None:
    everything = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    listed = [Requirement(text) for text in everything]
    assert [str(one) for one in listed if not one.specifier and one.name != "ltr-harness"] == []


def test_without_gpu_libraries_is_the_same_but_for_xgboost(repository: Path, project: dict[str, Any]) -> None:
    wanted = bounds([*project["dependencies"], *project["optional-dependencies"]["charts"]])
    file = (repository / "requirements-cpu.txt").read_text(encoding="utf-8")
    lines = [line for line in file.splitlines() if not line.startswith("#")]
    assert bounds(lines) == wanted | {"xgboost-cpu": wanted["xgboost"]}
    markers = {one.name: str(one.marker) for one in map(Requirement, lines) if one.marker is not None}
    # one of the two everywhere: macOS has one package alone, which has no such libraries
    assert markers == {"xgboost-cpu": 'sys_platform != "darwin"', "xgboost": 'sys_platform == "darwin"'}


def test_pixi_asks_for_the_same_versions(repository: Path, project: dict[str, Any]) -> None:
    pixi = tomllib.loads((repository / "pixi.toml").read_text(encoding="utf-8"))
    wanted = bounds([*project["dependencies"], *project["optional-dependencies"]["charts"]])
    wanted["py-xgboost-cpu"] = wanted.pop("xgboost")
    assert pixi["dependencies"] == wanted | {"python": project["requires-python"], "pip": "*"}
    assert pixi["tasks"]["install"] == "pip install --no-deps --editable ."


def test_the_citation_has_no_version_of_its_own(repository: Path, project: dict[str, Any]) -> None:
    citation = parse_yaml(repository, "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert "version" not in citation
    assert (citation["license"], citation["abstract"]) == (project["license"], project["description"])
    assert citation["keywords"] == project["keywords"]


@pytest.mark.parametrize("form", ["bug_report", "feature_request"])
def test_issue_forms_ask_questions(repository: Path, form: str) -> None:
    page = parse_yaml(repository, f".github/ISSUE_TEMPLATE/{form}.yml")
    assert {"name", "description", "body"} <= page.keys()
    asked = [part for part in page["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"].endswith("?") for part in asked)
    assert len({part["id"] for part in asked}) == len(asked)


@pytest.mark.long
def test_what_the_container_copies_is_enough_to_build_from(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hatchling = pytest.importorskip(
        "hatchling.build", reason="the package `hatchling` (extra test) is not installed"
    )
    lines = (repository / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    allowed = (repository / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for name in itertools.chain(*copied):
        assert f"!{name}" in allowed
        (tmp_path / name).symlink_to(repository / name)
    [install] = (line for line in lines if line.startswith("RUN pip"))
    assert all((tmp_path / name).is_file() for name in re.findall(r"-r (\S+)", install))
    monkeypatch.chdir(tmp_path)
    wheel = tmp_path / hatchling.build_wheel(str(tmp_path))
    assert "ltr_harness/__init__.py" in zipfile.ZipFile(wheel).namelist()


class TestEnvironment:
    """`scripts/environment` with a Python and a uv that say how they were called."""

    @pytest.fixture
    def clone(self, repository: Path, tmp_path: Path) -> Path:
        for name in ("scripts/environment", "pyproject.toml", "ltr_harness/__init__.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text((repository / name).read_text(encoding="utf-8"), encoding="utf-8")
        self.program(tmp_path / ".venv" / "bin" / "python", f"{tmp_path}/calls pip")
        return tmp_path

    def program(self, path: Path, log: str, *, fails: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        file, name = log.split()
        path.write_text(f'#!/bin/sh\n[ "$1" = -c ] || echo "{name} $*" >>"{file}"\nexit {int(fails)}\n')
        path.chmod(0o755)

    def run(self, clone: Path, extras: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (clone / "calls").write_text("")
        script = f'source scripts/environment && environment "{extras}"'
        environment = {"PATH": "/usr/bin:/bin", "UV": str(clone / "uv"), **variables}
        return subprocess.run(
            ["bash", "-c", script], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )

    def calls(self, clone: Path, extras: str = "", **variables: str) -> list[str]:
        """Use the environment once more and return the commands that it called."""
        done = self.run(clone, extras, **variables)
        assert done.returncode == 0, done.stderr
        return (clone / "calls").read_text().splitlines()

    def test_pip_installs_once_where_there_is_no_uv(self, clone: Path) -> None:
        [call] = self.calls(clone, "test")
        assert call.startswith("pip -m pip install")
        assert call.endswith(f"--editable {clone}[test]")
        assert self.calls(clone, "test") == []

    def test_uv_is_taken_where_it_is(self, clone: Path) -> None:
        self.program(clone / "uv", f"{clone}/calls uv")
        [call] = self.calls(clone)
        assert call == f"uv pip install --quiet --python {clone}/.venv/bin/python --editable {clone}"

    def test_pip_has_its_turn_where_uv_fails(self, clone: Path) -> None:
        self.program(clone / "uv", f"{clone}/calls uv", fails=True)
        assert [call.split()[0] for call in self.calls(clone)] == ["uv", "pip"]

    @pytest.mark.parametrize("name", ["pyproject.toml", "ltr_harness/__init__.py"])
    def test_another_version_or_dependency_is_installed_again(self, clone: Path, name: str) -> None:
        assert len(self.calls(clone)) == 1
        text = (clone / name).read_text(encoding="utf-8")
        old = ltr_harness.__version__ if name.endswith(".py") else "numpy>=1"
        (clone / name).write_text(text.replace(old, f"{old}.1"), encoding="utf-8")
        assert len(self.calls(clone)) == 1

    def test_the_lowest_versions_are_another_installation_and_need_uv(self, clone: Path) -> None:
        done = self.run(clone, "", RESOLUTION="lowest-direct")
        assert done.returncode == 1
        assert "RESOLUTION=lowest-direct needs uv, which is not on the path" in done.stderr
        self.program(clone / "uv", f"{clone}/calls uv")
        assert len(self.calls(clone)) == 1
        [call] = self.calls(clone, RESOLUTION="lowest-direct")
        assert "--resolution lowest-direct" in call


class TestPythons:
    """`scripts/pythons` and `scripts/floors` on a machine with Pythons that say how their tests were called."""

    @pytest.fixture
    def clone(self, repository: Path, tmp_path: Path) -> Path:
        for name in ("scripts/environment", "scripts/pythons", "scripts/floors", "pyproject.toml"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copy(repository / name, tmp_path / name)
        test = tmp_path / "scripts" / "test"
        test.write_text('#!/bin/sh\necho "${VENV##*/} ${RESOLUTION:-} ${PYTHON##*/} $*" >>calls\n')
        test.chmod(0o755)
        (tmp_path / "bin").mkdir()  # the path, without the system's Pythons
        for tool in ["bash", "sh", "dirname", "uname", "sed", "uniq", "head", "tail", "mkdir"]:
            (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
        return tmp_path

    def python(self, path: Path, minor: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        says = f'case "$*" in *print*) echo 3.{minor} ;; --version) echo Python 3.{minor}.0 ;; esac'
        path.write_text(f"#!/bin/sh\n{says}\n")
        path.chmod(0o755)

    def calls(self, clone: Path, name: str, minors: Iterable[int], *options: str) -> tuple[list[str], str]:
        """Run a script and return the commands that called the tests, and the script's output."""
        for minor in minors:
            home = clone / ".pyenv" / "versions" / f"3.{minor}.0"
            self.python(home / "bin" / f"python3.{minor}", minor)
        environment = {"PATH": str(clone / "bin"), "HOME": str(clone)}
        command = [clone / "scripts" / name, *options]
        done = subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        file = clone / "calls"
        return (file.read_text().splitlines() if file.exists() else []), done.stderr

    def test_the_oldest_and_the_newest_run_what_libraries_decide(self, clone: Path) -> None:
        found, printed = self.calls(clone, "pythons", [12, 11, 13], "-n", "0")
        assert found == [
            "python3.11  python3.11 --libraries -n 0",
            "python3.13  python3.13 --libraries -n 0",
        ]
        assert "what libraries decide: Python 3.11; what libraries decide: Python 3.13" in printed

    def test_the_one_that_every_test_ran_on_is_left_out(self, clone: Path) -> None:
        self.python(clone / ".venv" / "bin" / "python", 11)
        found, printed = self.calls(clone, "pythons", [11, 13])
        assert found == ["python3.13  python3.13 --libraries"]
        assert "== every test: Python 3.11; what libraries decide: Python 3.13" in printed

    def test_a_machine_with_one_python_has_no_other(self, clone: Path) -> None:
        self.python(clone / ".venv" / "bin" / "python", 13)
        assert self.calls(clone, "pythons", [13])[0] == []

    def test_a_python_that_is_not_supported_is_none(self, clone: Path) -> None:
        assert self.calls(clone, "pythons", [10, 12, 99])[0] == ["python3.12  python3.12 --libraries"]

    def test_lowest_versions_are_on_the_oldest_and_newest_ones_on_the_newest(self, clone: Path) -> None:
        found, printed = self.calls(clone, "floors", [13, 11], "tests/boosting")
        assert found == [
            "lowest-direct lowest-direct python3.11 --fast tests/boosting",
            "highest highest python3.13 --fast tests/boosting",
        ]
        assert "== highest: Python 3.13.0" in printed


@pytest.mark.slow
def test_boosting_works_on_the_oldest_and_newest_versions(
    repository: Path, project: dict[str, Any], tmp_path: Path
) -> None:
    """A part of what CI runs, in environments made by the script: the oldest have exactly the lower bounds."""
    uv = shutil.which(os.environ.get("UV", "uv")) or pytest.skip("uv is not on the path, nor where UV says")
    outer = ("PYTEST_", "PYTHONPATH")  # of this run: its worker, and no scikit-learn
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
    environment = inherited | {"INTO": str(tmp_path), "PYTHON": sys.executable, "UV": uv}
    command = [repository / "scripts" / "floors", "-n", "0", "tests/boosting"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"\d+ passed", done.stdout)) == 2
    names = list(bounds(project["dependencies"]))
    asked = f"from importlib.metadata import version; print(*map(version, {names}))"
    python = tmp_path / "lowest-direct" / "bin" / "python"
    found = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    lowest = [Version(text.removeprefix(">=")) for text in bounds(project["dependencies"]).values()]
    assert list(map(Version, found)) == lowest


class TestRelease:
    CHANGES = (
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- One thing.\n\n## [0.1.0] - 2026-01-01\n\n- All.\n"
    )

    @pytest.fixture(scope="class")
    @classmethod
    def clone(cls, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """What a release reads of a checkout, in one commit with a tag."""
        clone = tmp_path_factory.mktemp("release") / "clone"
        for name in ("ltr_harness/__init__.py", "CHANGELOG.md", "scripts/release.py"):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, clone / name)
        cls.git(clone, "init", "--quiet")
        cls.git(clone, "config", "user.name", "A tester")
        cls.git(clone, "config", "user.email", "tester@example.invalid")
        cls.git(clone, "add", "--all")
        cls.git(clone, "commit", "--quiet", "--message", "What a release reads")
        cls.git(clone, "tag", "v99.0.0")
        return clone

    def test_unreleased_changes_become_the_versions(self, release: ModuleType) -> None:
        assert release.release_changes(self.CHANGES, "0.2.0", "2026-02-03") == self.CHANGES.replace(
            "## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n"
        )

    def test_a_release_without_a_change_is_none(self, release: ModuleType) -> None:
        empty = self.CHANGES.replace("- One thing.", "")  # what stands under 0.1.0 is not unreleased
        with pytest.raises(SystemExit, match="no entries under '## \\[Unreleased\\]'"):
            release.release_changes(empty, "0.2.0", "2026-02-03")

    def test_the_version_is_written_in_its_one_place(
        self, release: ModuleType, repository: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "ltr_harness").mkdir()
        module = tmp_path / release.VERSION_FILE
        before = (repository / release.VERSION_FILE).read_text(encoding="utf-8")
        module.write_text(before, encoding="utf-8")
        (tmp_path / release.CHANGES).write_text(self.CHANGES, encoding="utf-8")
        release.change(tmp_path, "99.1.2")
        assert release.written_version(tmp_path) == "99.1.2"
        assert module.read_text(encoding="utf-8") == before.replace(ltr_harness.__version__, "99.1.2")

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("version", "why"),
        [
            ("0.0.1", "0.0.1 is not newer than"),
            ("99.0.0-rc1", "not spelt as it is normally"),  # as packaging writes it: 99.0.0rc1
            ("next", "'next' is no version; expected one like 0.3.0"),
            ("99.0.0", "the tag v99.0.0 exists"),
        ],
    )
    def test_what_can_be_no_release(self, clone: Path, version: str, why: str) -> None:
        done = self.released(clone, version)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("release: ")
        assert why in done.stderr

    @pytest.mark.long
    def test_what_is_not_committed_is_not_released(self, clone: Path) -> None:
        (clone / "mine.txt").write_text("mine")
        done = self.released(clone, "99.0.1")
        (clone / "mine.txt").unlink()
        assert done.returncode == 1
        assert "there are changes that are not committed" in done.stderr

    @pytest.mark.slow
    def test_a_clone_releases_itself(self, repository: Path, tmp_path: Path) -> None:
        if not (repository / ".git").exists():
            pytest.skip("a release needs a checkout")
        mine = tmp_path / "mine"
        self.git(repository, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(mine))
        self.git(mine, "config", "user.name", "A tester")
        self.git(mine, "config", "user.email", "tester@example.invalid")
        shutil.copy(repository / "scripts" / "release.py", mine / "scripts")
        self.git(mine, "add", "--all")
        self.git(mine, "commit", "--quiet", "--allow-empty", "--message", "The script as it is here")
        before = self.git(mine, "rev-parse", "HEAD")
        done = self.released(mine, "98.0.0")
        assert done.returncode == 0, done.stderr
        assert '+__version__ = "98.0.0"' in done.stdout
        assert (
            "built and tested: ltr_harness-98.0.0-py3-none-any.whl, ltr_harness-98.0.0.tar.gz" in done.stdout
        )
        assert done.stdout.endswith("nothing was changed here; with --commit it is\n")
        assert (self.git(mine, "rev-parse", "HEAD"), self.git(mine, "status", "--porcelain")) == (before, "")
        done = self.released(mine, "98.0.0", "--commit")
        assert done.returncode == 0, done.stderr
        assert self.git(mine, "rev-parse", "HEAD~1") == before
        assert self.git(mine, "describe", "--tags") == "v98.0.0\n"
        assert self.git(mine, "diff", "--name-only", "HEAD~1") == "CHANGELOG.md\nltr_harness/__init__.py\n"
        assert len(list((mine / "dist").iterdir())) == 2
        assert self.git(mine, "status", "--porcelain") == ""  # git ignores dist

    @staticmethod
    def git(clone: Path, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=clone, capture_output=True, text=True, check=True)
        return done.stdout

    @staticmethod
    def released(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(clone / "scripts" / "release.py"), *words]
        return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)


def test_an_extra_is_installed_by_its_packages(project: dict[str, Any]) -> None:
    for extra in ("catboost", "dask", "onnx", "tune"):
        assert sorted(requirements_of(extra)) == sorted(project["optional-dependencies"][extra])
    assert install_line("tune") == "pip install 'optuna>=4.2'"
    assert install_line("none") == "pip install '.[none]'"


def workflows(repository: Path) -> list[str]:
    """CI's own, and those that pages show."""
    shown = re.compile(r'```yml title="\.github/workflows/.*?"\n(.*?)```', re.DOTALL)
    pages = [page.read_text(encoding="utf-8") for page in sorted((repository / "docs").glob("*.md"))]
    own = (repository / ".github" / "workflows" / "check.yml").read_text(encoding="utf-8")
    return [own, *(text for page in pages for text in shown.findall(page))]


def test_workflows_pin_their_actions(repository: Path) -> None:
    used = [action for text in workflows(repository) for action in re.findall(r"uses: (\S+)", text)]
    assert len(used) >= 6
    assert [action for action in used if not re.search(r"@(v\d+\.\d+\.\d+|[0-9a-f]{40})$", action)] == []


def test_shown_workflows_install_a_commit_of_this_project(repository: Path) -> None:
    """From a checkout at a commit that has every option that the workflow gives."""

    def git(*words: str) -> int:
        return subprocess.run(["git", *words], cwd=repository, capture_output=True, check=False).returncode

    shown = [yaml.safe_load(text) for text in workflows(repository)[1:]]
    assert shown
    for steps in (job["steps"] for workflow in shown for job in workflow["jobs"].values()):
        given = [step["with"] for step in steps if "checkout" in step.get("uses", "") and "with" in step]
        commits = {f"./{one['path']}": one["ref"] for one in given}
        run = [step["run"] for step in steps if "run" in step]
        [install] = (line.removeprefix("pip install ") for line in run if line.startswith("pip install"))
        assert re.fullmatch("[0-9a-f]{40}", commits[install])
        if not (repository / ".git").exists() or git("rev-parse", "--verify", "HEAD~50"):
            pytest.skip("whether the commit is one of this project is seen in a whole clone")
        assert git("merge-base", "--is-ancestor", commits[install], "HEAD") == 0
        options = {option for line in run for option in re.findall(r"--[a-z]\S+", line)}
        assert "--junit" in options
        for option in options:
            assert git("grep", "-qF", f'"{option}"', commits[install], "--", "ltr_harness/cli") == 0, option


def test_nothing_names_an_index_that_does_not_have_the_package(repository: Path) -> None:
    """Neither a page nor a message tells to install the package by its name: `pip install .`, or the wheel."""
    texts = [
        *(repository / "README.md", repository / "CONTRIBUTING.md", repository / "mkdocs.yml"),
        *(path for folder in ("docs", "configs", "ltr_harness") for path in (repository / folder).rglob("*")),
    ]
    by_name = re.compile(r"((pipx?|uv|tool) (install|add)( -\S+)*|uvx) ['\"]?ltr[-_]harness(?!-)")
    for path in texts:
        if path.suffix in (".md", ".py", ".yaml", ".yml", ".ipynb", ".txt", ".html"):
            assert not by_name.search(path.read_text(encoding="utf-8")), path

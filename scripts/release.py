"""Make a release from a clean checkout: the version, the changelog, an sdist and a wheel that were tested.

    scripts/release 0.3.0             # all of it in a temporary clone; shows what would change
    scripts/release 0.3.0 --commit    # then also here, as a commit and a tag; the packages in dist/; no push

In order: the checkout is clean and the version newer than the last; `Unreleased` in CHANGELOG.md has entries, which
become the version's, with today's date; sdist and wheel are built; their
tests pass on the same sources.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = "ltr_harness/__init__.py"
CHANGES = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version")
    parser.add_argument("--commit", action="store_true", help="commit, tag and keep the packages")
    arguments = parser.parse_args()
    version = arguments.version
    check_checkout(version)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone), cwd=Path(folder))
        change(clone, version)
        print(run("git", "diff", "--unified=1", cwd=clone))
        packages = build(clone, Path(folder))
        print(f"built and tested: {', '.join(package.name for package in packages)}")
        if not arguments.commit:
            print("nothing was changed here; with --commit it is")
            return
        (ROOT / "dist").mkdir(exist_ok=True)
        for package in packages:
            shutil.copy(package, ROOT / "dist")
    change(ROOT, version)
    run("git", "commit", "--quiet", "--message", f"Release {version}", VERSION_FILE, CHANGES)
    run("git", "tag", "--annotate", "--message", f"Release {version}", f"v{version}")
    print(f"committed and tagged v{version}; the packages are in dist/. To publish: git push --follow-tags")


def check_checkout(version: str) -> None:
    """Check that a release of that version can be made of this checkout; end the program with the reason if not."""
    if run("git", "status", "--porcelain"):
        stop("there are changes that are not committed; commit or remove them (git status)")
    try:
        newer = Version(version) > Version(written_version(ROOT))
    except InvalidVersion:
        stop(f"{version!r} is no version; expected one like 0.3.0")
    if not newer or str(Version(version)) != version:
        stop(f"{version} is not newer than {written_version(ROOT)}, or not spelt as it is normally")
    if run("git", "tag", "--list", f"v{version}"):
        stop(f"the tag v{version} exists")


def change(folder: Path, version: str) -> None:
    """Write the version and turn the unreleased changes into its own."""
    changes = folder / CHANGES
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    changes.write_text(release_changes(changes.read_text(encoding="utf-8"), version, today), encoding="utf-8")
    module = folder / VERSION_FILE
    text = module.read_text(encoding="utf-8")
    old = f'__version__ = "{written_version(folder)}"'
    module.write_text(text.replace(old, f'__version__ = "{version}"'), encoding="utf-8")


def release_changes(changes: str, version: str, date: str) -> str:
    """The changelog with what was unreleased under the version; the program ends where there is nothing."""
    _, heading, rest = changes.partition(UNRELEASED)
    if not re.search(r"^- ", rest.partition("\n## ")[0], re.MULTILINE):
        stop(f"{CHANGES} has no entries under {UNRELEASED.strip()!r}")
    return changes.replace(heading, f"{heading}\n## [{version}] - {date}\n", 1)


def written_version(folder: Path) -> str:
    """Read the version from the one file that has it."""
    match = re.search(
        r'^__version__ = "(.+)"$', (folder / VERSION_FILE).read_text(encoding="utf-8"), re.MULTILINE
    )
    return match[1] if match else stop(f"{VERSION_FILE} has no line __version__ = …")


def build(clone: Path, folder: Path) -> list[Path]:
    """The sdist and the wheel, built without a network, after the tests of packages have passed on the same sources."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(clone))
    packages = sorted((folder / "dist").iterdir())
    [wheel] = (package for package in packages if package.suffix == ".whl")
    # the wheel stands before what .venv has, which is of the last version
    installed = folder / "installed"
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed))
    run(*install, str(wheel))
    run(
        *(
            sys.executable,
            "-m",
            "pytest",
            "--quiet",
            "-n",
            "0",
            "-m",
            "not slow",
            "tests/packaging/test_packages.py",
        ),
        cwd=clone,
        environment={**os.environ, "PYTHONPATH": str(installed)},
    )
    return packages


def run(*command: str, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Return the output of a command; where it fails the program ends with that."""
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        stop(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def stop(reason: str) -> str:
    sys.exit(f"release: {reason}")


if __name__ == "__main__":
    main()

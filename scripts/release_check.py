"""Check that the last commit can be released: ``python scripts/release_check.py [--out FOLDER]``.

A clean clone of HEAD is built into a source archive and a wheel in a temporary folder. Their metadata are checked by
other tools, their files are compared with the tracked files, and the wheel is installed into an empty environment of
each supported Python and run there, in an empty folder with an empty cache. It needs git and a package index.

The exit status is 0 if all checks passed, 1 if any failed, and 3 if none failed but some were skipped, because a tool
cannot be installed or a Python is not available. With ``--out`` the archives are copied if no check failed.
"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_FILE = 8 * 2**20  # bytes of a file in the source archive
MOST_ARCHIVE = 24 * 2**20  # bytes of the source archive
PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
STATUS = {PASSED: 0, FAILED: 1, SKIPPED: 3}
# Names of files that hold secrets or belong to one machine.
PRIVATE = re.compile(
    r"(^|/)(\.env(\.[^/]*)?|\.netrc|\.pypirc|\.local\.json|\.git-credentials|id_[a-z0-9]+|[^/]*\.(pem|key|p12|pfx)|"
    r"\.git|\.venv|__pycache__|\.[a-z]+_cache)(/|$)"
)
# Folders of the project, and where a wheel has their files.
PACKAGED = {"src/kmdr/": "kmdr/", "conf/": "kmdr/_share/conf/"}
REGISTRY = "datasets/registry.toml"
RUN = ("dataset=digits", "reducer=svd", "r_grid=[5]", "repeats=1", "out=run")


class SkippedError(Exception):
    """A check cannot be made here; the message is the reason."""


class FailedError(Exception):
    """A check failed; the message is the reason."""


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return what a command prints.

    Raises
    ------
    FailedError
        If its exit status is not 0, with the end of what it printed.
    """
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        lines = "\n    ".join(done.stdout.strip().splitlines()[-15:])
        raise FailedError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n    {lines}")
    return done.stdout


def make_environment(python: Path | str, folder: Path) -> Path:
    """Create a virtual environment and return its Python."""
    run([python, "-m", "venv", folder], folder.parent)
    return folder / "bin" / "python"


def install(python: Path, *requirements: str) -> None:
    """Install requirements with pip."""
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements], python.parent)


def install_tool(python: Path, name: str) -> Path:
    """Install a tool into an environment and return its command.

    Raises
    ------
    SkippedError
        If it cannot be installed or does not start.
    """
    try:
        install(python, name)
        run([python.parent / name, "--help"], python.parent)
    except (FailedError, OSError) as error:
        raise SkippedError(f"{name} cannot be installed: {str(error).splitlines()[-1].strip()}") from error
    return python.parent / name


def supported_versions(project: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the versions of Python that the classifiers of a project state, such as 3.11."""
    return [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]


def find_python(version: str) -> str:
    """Return a Python of this version: from PATH, or one that pyenv or uv installed.

    Raises
    ------
    SkippedError
        If none runs.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local" / "share" / "uv" / "python"))
    candidates = [f"python{version}", *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))]
    candidates += map(str, sorted(uv.glob(f"cpython-{version}.*/bin/python")))
    question = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for candidate in candidates:
        try:
            if run([candidate, "-c", question], ROOT).strip() == version:
                return candidate
        except (FailedError, OSError):
            continue
    raise SkippedError(f"no Python {version} with venv is available; install one, or use pyenv or uv to do so")


def archive_faults(files: Mapping[str, int], tracked: Sequence[str]) -> list[str]:
    """Return what is wrong with the files of a source archive, given their sizes in bytes and the tracked files."""
    unknown = sorted(files.keys() - {*tracked, "PKG-INFO"})
    missing = sorted({*tracked} - files.keys() - {".gitignore"})
    return [
        *(f"{name} is not tracked by git" for name in unknown),
        *(f"{name} is missing" for name in missing),
        *(f"{name} may be private" for name in files if PRIVATE.search(name)),
        *(f"{name} has {size} bytes, more than {MOST_FILE}" for name, size in files.items() if size > MOST_FILE),
    ]


def wheel_faults(names: Sequence[str], tracked: Sequence[str]) -> list[str]:
    """Return what is wrong with the files of a wheel: it has the package, the configurations and the registry alone."""
    expected = {
        place + name.removeprefix(folder)
        for folder, place in PACKAGED.items()
        for name in tracked
        if name.startswith(folder)
    }
    expected.add(f"kmdr/_share/{REGISTRY}")
    files = {name for name in names if not re.match(r"kmdr-[^/]+\.dist-info/", name)}
    return [
        *(f"{name} is missing" for name in sorted(expected - files)),
        *(f"{name} does not belong there" for name in sorted(files - expected)),
    ]


def check_faults(faults: Sequence[str]) -> None:
    """Raise FailedError if there are faults."""
    if faults:
        shown = [*faults[:20], *([f"and {len(faults) - 20} more"] if len(faults) > 20 else [])]
        raise FailedError("\n    ".join(shown))


def check_source_archive(archive: Path, tracked: Sequence[str]) -> None:
    """Check the files and the size of a source archive."""
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    links = [f"{member.name} is neither a file nor a folder" for member in members if not member.isfile()]
    check_faults(links + archive_faults({m.name.partition("/")[2]: m.size for m in members}, tracked))
    if archive.stat().st_size > MOST_ARCHIVE:
        raise FailedError(f"{archive.name} has {archive.stat().st_size} bytes, more than {MOST_ARCHIVE}")


def check_wheel(wheel: Path, tracked: Sequence[str]) -> None:
    """Check the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        check_faults(wheel_faults(archive.namelist(), tracked))


def check_installed(wheel: Path, version: str, python: str, work: Path) -> None:
    """Install a wheel into an empty environment and run it in an empty folder."""
    work.mkdir()
    installed = make_environment(find_python(python), work / "venv")
    install(installed, str(wheel))
    (work / "empty").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KMDR_", "PYTHON", "XDG_"))}
    environment = kept | {"HOME": str(work / "home"), "XDG_CACHE_HOME": str(work / "cache")}
    kmdr = installed.parent / "kmdr"

    def answer(*arguments: str) -> str:
        return run([kmdr, *arguments], work / "empty", environment)

    if answer("--version").strip() != f"kmdr {version}":
        raise FailedError(f"kmdr --version prints {answer('--version').strip()!r}, not 'kmdr {version}'")
    if "digits" not in answer("list"):
        raise FailedError("kmdr list does not name the dataset digits")
    answer(*RUN)
    with (work / "empty" / "run" / "rows.csv").open(newline="") as file:
        rows = [(row["status"], row["code_version"]) for row in csv.DictReader(file)]
    if rows != [("ok", version)]:
        raise FailedError(f"kmdr {' '.join(RUN)} wrote {rows}, not one row of status 'ok' by version {version}")


def checks(work: Path, clone: Path, dist: Path) -> list[tuple[str, Callable[[], object]]]:
    """Return the checks of built archives with their names."""
    project = tomllib.loads((clone / "pyproject.toml").read_text("utf-8"))["project"]
    tracked = run(["git", "ls-files", "-z"], clone).strip("\0").split("\0")
    (archive,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    tools = work / "tools" / "bin" / "python"

    def use_tool(name: str, *arguments: str | Path) -> Callable[[], object]:
        return lambda: run([install_tool(tools, name), *arguments], clone)

    return [
        ("twine check --strict", use_tool("twine", "check", "--strict", archive, wheel)),
        ("check-wheel-contents", use_tool("check-wheel-contents", wheel)),
        ("validate-pyproject", use_tool("validate-pyproject", "pyproject.toml")),
        ("cffconvert --validate", use_tool("cffconvert", "--validate")),
        (f"files of {archive.name}", lambda: check_source_archive(archive, tracked)),
        (f"files of {wheel.name}", lambda: check_wheel(wheel, tracked)),
        *(
            (f"install and run on Python {v}", lambda v=v: check_installed(wheel, project["version"], v, work / v))
            for v in supported_versions(project)
        ),
    ]


def build(work: Path) -> tuple[Path, Path]:
    """Build a clean clone of HEAD; return the clone and the folder of the archives."""
    clone, dist = work / "kmdr", work / "dist"
    run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], work)
    tools = make_environment(sys.executable, work / "tools")
    install(tools, "build")
    run([tools, "-m", "build", "--outdir", dist, clone], work)
    return clone, dist


def outcome(check: Callable[[], object]) -> tuple[str, str]:
    """Return the outcome of a check and the reason."""
    try:
        check()
    except SkippedError as error:
        return SKIPPED, str(error)
    except FailedError as error:
        return FAILED, str(error)
    return PASSED, ""


def exit_status(outcomes: Sequence[str]) -> int:
    """Return 0 if all passed, 1 if any failed, and 3 if some were skipped."""
    return next((STATUS[kind] for kind in (FAILED, SKIPPED) if kind in outcomes), 0)


def main() -> int:
    """Check the release and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="copy the archives to this folder if no check failed")
    out: Path | None = parser.parse_args().out
    if run(["git", "status", "--porcelain"], ROOT).strip():
        print("note: changes that are not committed are not checked", flush=True)
    with tempfile.TemporaryDirectory(prefix="kmdr-release.") as folder:
        work = Path(folder)
        try:
            clone, dist = build(work)
        except FailedError as error:
            print(f"{FAILED}   build: {error}")
            return STATUS[FAILED]
        print(f"{PASSED}   build", flush=True)
        outcomes = []
        for name, check in checks(work, clone, dist):
            kind, reason = outcome(check)
            outcomes.append(kind)
            print(f"{kind:8} {name}" + (f": {reason}" if reason else ""), flush=True)
        status = exit_status(outcomes)
        if out is not None and FAILED not in outcomes:
            out.mkdir(parents=True, exist_ok=True)
            for path in dist.iterdir():
                shutil.copy2(path, out)
    print(", ".join(f"{outcomes.count(kind)} {kind}" for kind in STATUS))
    return status


if __name__ == "__main__":
    sys.exit(main())

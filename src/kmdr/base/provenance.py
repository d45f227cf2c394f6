"""Provenance of rows: the version of the code, the machine, and the environment."""

import hashlib
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_info

from kmdr.base.files import content_hash
from kmdr.base.identity import PACKAGES
from kmdr.base.paths import CHECKOUT, IN_CHECKOUT

_CODE = ("src", "conf", "datasets/registry.toml")


@cache
def code_version() -> str:
    """Return the package's version; in a checkout also the last commit to code, and ``.dirty`` if it changed since.

    Only what can change a number counts as code: the package, the configurations and the dataset registry. If git is
    not available, a hash of the whole package replaces the commit.
    """
    if not IN_CHECKOUT:
        return metadata.version("kmdr")
    root = CHECKOUT

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        commit = git("log", "-1", "--format=%h", "--abbrev=10", "--", *_CODE)
        dirty = git("status", "--porcelain", "--", *_CODE)
    except (OSError, subprocess.CalledProcessError):
        return f"{metadata.version('kmdr')}+h{content_hash(sorted((root / 'src').rglob('*.py')))[:12]}"
    return f"{metadata.version('kmdr')}+g{commit}" + (".dirty" if dirty else "")


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@cache
def machine() -> str:
    """Return 12 hexadecimal digits that identify this machine without revealing its name."""
    try:
        number = Path("/etc/machine-id").read_text("ascii").strip()
    except (OSError, ValueError):
        number = ""
    return hashlib.sha256(f"kmdr {number} {platform.node()}".encode()).hexdigest()[:12]


def environment() -> dict[str, Any]:
    """Return the manifest of the environment: packages, BLAS, CPU, Python, operating system; no names of machines."""
    # numpy and scipy each carry a BLAS; import both, so that the manifest does not depend on what ran before.
    import scipy.linalg  # noqa: F401

    pools = [
        {key: pool[key] for key in ("user_api", "internal_api", "version", "architecture") if key in pool}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "os": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()).strip(),
        "cpu": _cpu(),
        "cores": joblib.cpu_count(),
        "blas": sorted(pools, key=str),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }

"""What made a row: the code's version and the environment it ran in."""

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_info

import kmdr
from kmdr.paths import IN_CHECKOUT

_PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "llvmlite", "pandas", "joblib", "hydra-core", "omegaconf", "matplotlib",
    "pooch", "threadpoolctl", "tqdm",
)  # fmt: skip


_CODE = ("src", "conf", "datasets/registry.toml")


@cache
def code_version() -> str:
    """Return the package's version; in a checkout also the last commit to code, and ``.dirty`` if it changed since.

    Only what can change a number counts as code: the package, the configurations and the dataset registry.
    """
    if not IN_CHECKOUT:
        return kmdr.__version__
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        commit = git("log", "-1", "--format=%h", "--abbrev=10", "--", *_CODE)
        dirty = git("status", "--porcelain", "--", *_CODE)
    except (OSError, subprocess.CalledProcessError):
        return kmdr.__version__
    return f"{kmdr.__version__}+g{commit}" + (".dirty" if dirty else "")


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def environment() -> dict[str, Any]:
    """Return the manifest of the environment: packages, BLAS, CPU, Python, operating system. No names of machines."""
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
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }

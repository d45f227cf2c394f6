"""Where tasks run: the settings under ``runner``, checked, and the connection to the engine that they name."""

import importlib.util
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import joblib

from kmdr.base.errors import UserError, not_one_of, shown, unknown, whole_number
from kmdr.base.limits import UNLIMITED, Limit, can_measure_memory, parse_size
from kmdr.harness.engines.contract import Cluster

# Largest number of workers or threads per core of this machine.
_MOST_PER_CORE = 32
_SETTINGS = ("backend", "n_jobs", "threads", "address", "scheduler_file", "cluster", "options", "folder", "limit")
# Each backend, and the package that it needs beyond kmdr's own.
BACKENDS = {"loky": None, "sequential": None, "dask": "distributed", "ray": "ray"}
# Each batch system whose jobs can be workers of Dask, and the class of dask-jobqueue that submits them.
SYSTEMS = {
    "slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster",
    "htcondor": "HTCondorCluster",
}  # fmt: skip
# Arguments of that class that kmdr sets.
_SET_BY_KMDR = (
    "asynchronous", "job_cls", "loop", "n_workers", "name", "security", "shared_temp_directory", "silence_logs",
)  # fmt: skip


@dataclass(frozen=True)
class Runner:
    """How tasks are run.

    Attributes
    ----------
    backend : {"loky", "sequential", "dask", "ray"}
    n_jobs : int
        Workers of the parallel stage; −1 for all of a cluster; of a batch system, the largest number of jobs at once.
    threads : int
        BLAS and OpenMP threads of each worker.
    address : str or None
        Scheduler of Dask or head of Ray; None starts one here.
    scheduler_file : str or None
        File that a scheduler of Dask wrote, instead of its address.
    cluster : str or None
        Batch system whose jobs are the workers of Dask, one of `SYSTEMS`.
    options : mapping
        Options of the jobs, as the batch system's class of dask-jobqueue takes them.
    folder : str or None
        For credentials and logs of the jobs, on a file system that their nodes share.
    limit : Limit
        Of each trial.
    """

    backend: str
    n_jobs: int
    threads: int
    address: str | None = None
    scheduler_file: str | None = None
    cluster: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None
    limit: Limit = UNLIMITED

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Runner":
        """Check a plain configuration (the tree of ``conf/runner``)."""
        backend = _checked_backend(config.get("backend"))
        for name in config:
            if name not in _SETTINGS:
                raise unknown("setting of runner", name, _SETTINGS)
        settings: dict[str, Any] = {name: config.get(name) for name in _SETTINGS}
        _, n_jobs, threads, address, scheduler_file, cluster, options, folder, limit = settings.values()
        places = {"address": address, "scheduler_file": scheduler_file}
        elsewhere = any(place is not None for place in (address, scheduler_file, cluster))
        most = _MOST_PER_CORE * joblib.cpu_count()
        if n_jobs != -1:
            whole_number("runner.n_jobs", n_jobs, 1, *([] if elsewhere else [most]))
        whole_number("runner.threads", threads, 1, most)
        for name, place in places.items():
            if place is not None and not (isinstance(place, str) and place):
                raise UserError(f"runner.{name} = {shown(place)} is not valid; give a string, or null")
        if None not in places.values():
            raise UserError("runner.address and runner.scheduler_file both name a scheduler; give one of them")
        if cluster is not None:
            _check_batch(settings)
        elif options:
            raise UserError("runner.options are options of a batch system's jobs; name the system by runner.cluster")
        if backend == "sequential":
            n_jobs = 1
        elif n_jobs == -1 and not (elsewhere and BACKENDS[backend]):
            n_jobs = joblib.cpu_count()
        return cls(
            backend, n_jobs, threads, address, scheduler_file, cluster, options or {}, folder, _checked_limit(limit)
        )

    @cached_property
    def size(self) -> int:
        """Workers of the parallel stage; a cluster is asked for its number.

        Raise `UserError` when the cluster does not answer.
        """
        if self.n_jobs != -1 and self.cluster is None:
            return self.n_jobs
        with self.connection() as cluster:  # of a batch system, to find mistakes before anything is timed
            return cluster.size() if self.n_jobs == -1 else self.n_jobs

    def connection(self) -> AbstractContextManager[Cluster]:
        """Return the connection to the cluster of Dask or Ray."""
        workers = None if self.n_jobs == -1 else self.n_jobs
        if self.backend == "dask":
            from kmdr.harness.engines import dask

            batch = None if self.cluster is None else {
                "system": self.cluster, "class_name": SYSTEMS[self.cluster], "size": self.n_jobs,
                "threads": self.threads, "options": self.options, "folder": self.folder,
            }  # fmt: skip
            return dask.connected(self.address, self.scheduler_file, workers, batch)
        from kmdr.harness.engines import ray

        return ray.connected(self.address, workers)


def _checked_backend(backend: Any) -> str:
    if isinstance(backend, str) and backend in SYSTEMS:
        raise UserError(f"runner.backend = {backend!r} is a batch system; use runner=dask runner.cluster={backend}")
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise not_one_of("runner.backend", backend, BACKENDS)
    package = BACKENDS[backend]
    if package is not None and importlib.util.find_spec(package) is None:
        raise UserError(f"runner.backend = {backend!r} needs the package {package}; pip install 'kmdr[{backend}]'")
    return backend


def _checked_limit(settings: Any) -> Limit:
    if settings is None:
        return UNLIMITED
    if not isinstance(settings, Mapping):
        raise UserError(
            f"runner.limit = {shown(settings)} is not a group of settings; write e.g. runner.limit.seconds=60"
        )
    valid = ("seconds", "memory")
    for name in settings:
        if name not in valid:
            raise unknown("setting of runner.limit", name, valid)
    seconds, memory = (settings.get(name) for name in valid)
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf
    ):
        raise UserError(f"runner.limit.seconds = {shown(seconds)} is not a number above 0; give seconds, e.g. 60")
    if memory is None:
        return Limit(seconds)
    size = None if isinstance(memory, bool) else parse_size(str(memory))
    if not size:
        raise UserError(f"runner.limit.memory = {shown(memory)} is not a size; give bytes, or e.g. 500M or 2G")
    if not can_measure_memory():
        raise UserError("runner.limit.memory needs /proc, which Linux has; remove it, or limit runner.limit.seconds")
    return Limit(seconds, size)


def _check_batch(settings: Mapping[str, Any]) -> None:
    """Refuse settings with which no job of a batch system can be submitted."""
    cluster, options, folder = settings["cluster"], settings["options"], settings["folder"]
    if not isinstance(cluster, str) or cluster not in SYSTEMS:
        raise unknown("batch system", cluster, SYSTEMS)
    if settings["backend"] != "dask" or settings["address"] is not None or settings["scheduler_file"] is not None:
        raise UserError(f"runner.cluster = {cluster!r} starts a cluster of Dask; use runner=dask without an address")
    if importlib.util.find_spec("dask_jobqueue") is None:
        raise UserError(f"runner.cluster = {cluster!r} needs the package dask-jobqueue; pip install 'kmdr[dask]'")
    if settings["n_jobs"] == -1:
        raise UserError(f"runner.n_jobs = -1 is not possible with {cluster}; give the largest number of jobs at once")
    if not isinstance(folder, str) or not folder or "\0" in folder:
        raise UserError(f"runner.folder = {shown(folder)} is not a folder; give one that the nodes share")
    if options is not None and not isinstance(options, Mapping):
        raise UserError(f"runner.options = {shown(options)} is not a mapping; write e.g. runner.options.queue=short")
    for name in options or ():
        if name in _SET_BY_KMDR:
            raise UserError(f"runner.options.{name} is set by kmdr; remove it")

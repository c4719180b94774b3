r"""Where units of work run: in this process, in others on this machine, or on a Dask cluster.

Units are independent and know their own random streams, so the engine changes the time of a run and nothing else.
"""

__all__ = ["Died", "Engine", "one_thread"]

import functools
import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from threadpoolctl import threadpool_limits

from ..errors import UsageError

log = logging.getLogger("mira_bench")

PATIENCE = 60  # seconds that a cluster has to show a worker
AHEAD = 2  # units per core that are handed out before their turn
OWN = re.compile(r".*_NUM_THREADS$|JOBLIB_|LOKY_|KMP_|PYTHON|PYTEST_CURRENT_TEST")  # variables of a worker itself


@contextmanager
def one_thread() -> Iterator[None]:
    r"""Lets linear algebra and torch use one thread: sums of several have other last digits, here or in a worker."""

    torch = sys.modules.get("torch")
    threads = 1 if torch is None else torch.get_num_threads()
    with threadpool_limits(1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(threads)


@functools.cache
def _limit_for_good() -> Any:
    return threadpool_limits(1)  # it takes milliseconds, so a worker does it once


def _as_here(folder: str, environment: dict[str, str], function: Callable[..., Any], *call: Any) -> Any:
    r"""Runs a unit in a worker with the folder and the environment of the process that handed it out.

    Workers outlive a run, and what they inherited when they were started may be old.
    """
    if os.getcwd() != folder:
        os.chdir(folder)
    for key in {*os.environ, *environment}:
        if not OWN.match(key) and os.environ.get(key) != environment.get(key):
            if key in environment:
                os.environ[key] = environment[key]
            else:
                del os.environ[key]
    _limit_for_good()
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    return function(*call)


@dataclass(frozen=True)
class Died:
    r"""In place of a result: the process of a unit died, twice."""

    name: str

    reason = "its worker process died (killed, or out of memory)"


@dataclass(frozen=True)
class Engine:
    r"""Something that runs units of work.

    Arguments:
        workers: The number of processes; a cluster at an address has its own.
        backend: `"loky"` or another backend of joblib for processes on this machine; `"dask"` for a Dask cluster.
        address: The address of the Dask scheduler, e.g. `tcp://10.0.0.1:8786`; without one, a cluster of `workers`
            processes is started on this machine.
    """

    workers: int = 1
    backend: str = "loky"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.address is not None and self.backend != "dask":
            raise UsageError(f"parallel.address={self.address} needs parallel.backend=dask, not {self.backend}")
        if self.backend == "threading":
            raise UsageError(
                "backend='threading' cannot be used: threads share the random states of NumPy and torch, so that "
                "posteriors which use them would give other samples each time; loky runs processes"
            )
        if self.backend == "dask" and importlib.util.find_spec("distributed") is None:
            raise UsageError("parallel.backend=dask needs the extra 'cluster': pip install 'mira_bench[cluster]'")

    @property
    def remote(self) -> bool:
        r"""Whether units may run in a process with another working directory."""
        return self.backend == "dask"

    @property
    def here(self) -> bool:
        r"""Whether units run in this process."""
        return self.workers == 1 and not self.remote

    def map(self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        r"""Yields results as they come, in any order; calls are read only when their turn is near.

        Raises:
            BrokenProcessPool: If a worker process died of a unit.
        """

        if self.backend == "dask":
            yield from self._dask(function, calls)
        elif self.here:
            for call in calls:
                yield function(*call)
        else:
            from joblib import Parallel, delayed

            # loky replaces a worker whose memory grew, between two units: nobody needs to act.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
            try:
                pool = Parallel(
                    n_jobs=self.workers, backend=self.backend, return_as="generator_unordered",
                    pre_dispatch=f"{AHEAD}*n_jobs", batch_size=1,
                )  # fmt: skip
            except ValueError as error:
                raise UsageError(f"backend={self.backend!r} cannot be used: {error}") from error
            here = os.getcwd(), dict(os.environ)
            yield from pool(delayed(_as_here)(*here, function, *call) for call in calls)

    def map_named(
        self,
        function: Callable[..., Any],
        calls: Callable[[Sequence[str]], Iterable[tuple[Any, ...]]],
        names: Sequence[str],
        doing: str,
    ) -> Iterator[Any]:
        r"""Yields results as they come, whatever units do to their worker processes.

        If a process dies, names go on one at a time, to find the one that it died of.

        Arguments:
            function: The unit of work: a function that is called in a worker process.
            calls: Returns the calls of some names that are still to be made.
            names: The names of all whose units are to be done, such as candidates.
            doing: What the units do, in a word for the log.

        Yields:
            What the function returns; `Died` for a name whose unit kills its process.
        """

        try:
            yield from self.map(function, calls(names))
            return
        except BrokenProcessPool:
            log.warning("a worker process died (%s); candidates go on one at a time", doing)
        for name in names:
            try:
                yield from self.map(function, calls([name]))
            except BrokenProcessPool:
                # A unit of the round before may still have been under way, and may have taken this worker with it.
                log.warning("a worker process died of candidate %s, or beside it; it gets a second chance", name)
                try:
                    yield from self.map(function, calls([name]))
                except BrokenProcessPool:
                    yield Died(name)

    def _dask(self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        # joblib's own Dask backend waits forever for a unit that killed its workers, so the futures are ours. Dask
        # gives the units of a lost worker to another one, and gives up on a unit that lost several.
        from distributed import KilledWorker, wait

        waiting = iter(calls)
        first = list(islice(waiting, 1))
        if not first:  # no cluster is started for nothing
            return
        waiting = chain(first, waiting)
        with self._client() as client:
            ahead = AHEAD * max(1, sum(client.ncores().values()))
            handed: set[Any] = set()
            try:
                while True:
                    free = ahead - len(handed)
                    handed |= {client.submit(function, *call, pure=False) for call in islice(waiting, free)}
                    if not handed:
                        return
                    try:
                        with client.as_current():
                            done = wait(handed, timeout=PATIENCE, return_when="FIRST_COMPLETED").done
                        results = [future.result(timeout=PATIENCE) for future in done]
                    except KilledWorker as error:
                        raise BrokenProcessPool(str(error)) from error
                    except TimeoutError:  # a long unit, or nobody is left who could work on it
                        _await_worker(client)
                        continue
                    handed -= done  # a future that nobody holds frees its result
                    yield from results
            finally:
                client.cancel(list(handed))  # what is left of a broken round must not kill the workers of the next one

    @contextmanager
    def _client(self) -> Iterator[Any]:
        import dask
        from distributed import Client, LocalCluster

        if self.address is None:
            # By default such a cluster looks 15 s after each loss of a worker whether it is there, and drops it for
            # good if it is not, although it may just be starting for a second time.
            with (
                dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
                LocalCluster(
                    n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=None
                ) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                yield client
            return
        try:
            client = Client(self.address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"there is no Dask scheduler at parallel.address={self.address}: {error}") from error
        with client:
            _await_worker(client)
            yield client


def _await_worker(client: Any) -> None:
    r"""Waits until a cluster has a worker: those that died of a unit are being started again."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise UsageError(f"the Dask cluster has had no workers for {PATIENCE} s: start some") from None

r"""Posteriors that exist already, as candidates: objects of other libraries, and what a user's file defines."""

__all__ = ["FileCandidate", "Given"]

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..adapters.identity import fingerprint
from ..adapters.posterior import draw
from ..adapters.source import Source, load_source
from ..arrays import Array
from ..errors import UsageError


@dataclass(frozen=True)
class Given:
    r"""Any object that can be sampled, as a candidate.

    In Python: `mb.run(task, {"mine": Given(posterior)})`. On the command line it takes two files in the folder from
    which it is started. `my_posterior.py` makes the posterior; here it is written down, yours may load a network:

    ```python
    import numpy as np


    def load(width):
        return lambda x, count: x[:, None] / 1.25 + width * np.random.randn(len(x), count, x.shape[1])
    ```

    and `conf/candidate/mine.yaml` says where it is:

    ```yaml
    _target_: mira_bench.inference.Given
    posterior:
      {_target_: my_posterior.load, width: 0.447}
    ```

    The task can be any; the second setting names the candidate, the third chooses whom to score:

    ```bash
    python -m mira_bench --config-dir conf task=conjugate +candidate@candidate.mine=mine 'candidates=[mine,exact]'
    ```

    Arguments:
        posterior: What has `sample((n,), x=...)`, as the posteriors of sbi (their `sample_batched` is used if there is
            one), or `sample(x, count, rng)`; or a function of `(x, count)`.
        version: Raise it when the behavior changes and the content does not show it.
    """

    posterior: Any
    version: int = 1

    def __post_init__(self) -> None:
        _check(self.posterior, "posterior")

    def describe(self) -> dict[str, Any]:
        r"""What identifies the candidate in the store: the content of the posterior."""
        kind = type(self.posterior)
        content = fingerprint(self.posterior, f"a posterior of type {kind.__qualname__}")
        return {"class": f"{kind.__module__}.{kind.__qualname__}", "content": content, "version": self.version}

    def build(self, task: Any, rng: np.random.Generator) -> "_Sampled":
        return _Sampled(self.posterior)


@dataclass(frozen=True)
class FileCandidate:
    r"""What a Python file of the user defines: `candidates=[mine.py:build]`.

    Arguments:
        file: The path of the Python file.
        name: What to take from it: a function `build(task, rng)` that returns a posterior, or a posterior. A process
            calls `build` once in a run.
    """

    file: str
    name: str
    source: Source = field(default=None)  # type: ignore[assignment]  # what was run, which workers run again

    version = 1

    def __post_init__(self) -> None:
        if self.source is None:
            object.__setattr__(self, "source", load_source(self.file, "candidates"))
        self.source.find(self.name)

    def describe(self) -> dict[str, Any]:
        r"""What identifies the candidate in the store: the file, its helpers, and the data that it read when it ran."""
        return {"class": "file", "name": self.name, "content": self.source.content}

    def build(self, task: Any, rng: np.random.Generator) -> "_Sampled":
        found = self.source.find(self.name)
        posterior = found if hasattr(found, "sample") else found(task, rng)
        _check(posterior, f"what {self.file}:{self.name} returns")
        return _Sampled(posterior)


def _check(posterior: Any, name: str) -> None:
    if not hasattr(posterior, "sample") and not callable(posterior):
        raise UsageError(f"{name} is a {type(posterior).__name__} without sample()")


@dataclass(frozen=True)
class _Sampled:
    posterior: Any

    def sample(self, x: Array, count: int, rng: np.random.Generator) -> Array:
        return draw(self.posterior, x, count, seed=int(rng.integers(2**31)))

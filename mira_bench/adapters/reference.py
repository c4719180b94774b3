r"""Reference posteriors in a file: fiducials, samples of their exact posteriors, and how these were made."""

__all__ = ["ReferencePosteriors", "load", "save"]

import json
import os
from typing import IO, Any, NamedTuple

import numpy as np

from ..candidate import Draws
from ..fiducials import Fiducials


class ReferencePosteriors(NamedTuple):
    r"""Samples of exact or reference posteriors.

    Arguments:
        fiducials: The truths and the observations whose posteriors these are.
        draws: The samples, with shape $(L, S, *event)$, evidences and diagnostics where there are any.
        provenance: The task, its version, the seed, the version of the package and the date.
    """

    fiducials: Fiducials
    draws: Draws
    provenance: dict[str, Any]


def save(reference: ReferencePosteriors, path: str | os.PathLike[str]) -> None:
    r"""Writes a reference to an `.npz` file. Samples are kept in single precision."""

    arrays = reference.draws.to_arrays()
    arrays["values"] = arrays["values"].astype(np.float32)
    for key in ("y", "x"):
        value = getattr(reference.fiducials, key)
        if value is not None:
            arrays[key] = np.asarray(value)
    np.savez_compressed(path, provenance=np.array(json.dumps(reference.provenance)), **arrays)  # type: ignore[arg-type]


def load(file: str | os.PathLike[str] | IO[bytes]) -> ReferencePosteriors:
    r"""Reads what `save` has written."""

    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    fiducials = Fiducials(arrays["y"], arrays.get("x"))
    return ReferencePosteriors(fiducials, Draws.from_arrays(arrays), json.loads(str(arrays["provenance"])))

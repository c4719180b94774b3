r"""The verb `export`: the network that a run trained as sbi's posterior, or its samples for other observations."""

__all__ = ["main"]

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from ..adapters.formats import read_file
from ..arrays import as_array
from ..errors import UsageError
from ..saved import load
from ..writing import appearing


def main(arguments: Sequence[str]) -> int:
    r"""Writes a posterior or its samples."""

    parser = argparse.ArgumentParser(
        prog="mira-bench export",
        description="The network that a run trained: as sbi's posterior in a .pt file, or with --x its samples for "
        "observations of your own in a .npy file. In Python: mb.load(DIR).posterior(NAME).",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the run")
    parser.add_argument("name", metavar="NAME", help="the candidate, for example npe or npe/0")
    parser.add_argument("--x", metavar="FILE", help="one observation, or several along the first axis")
    parser.add_argument("--samples", type=int, default=1000, metavar="S", help="of each observation (1000)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the samples (0)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: NAME.pt or NAME.npy in DIR")
    chosen = parser.parse_args(arguments)
    if chosen.samples < 1:
        raise UsageError(f"--samples {chosen.samples}: at least one is needed")
    posterior = load(chosen.folder).posterior(chosen.name)
    suffix = ".pt" if chosen.x is None else ".npy"
    out = chosen.out or chosen.folder / f"{chosen.name.replace('/', '_')}{suffix}"
    if out.suffix != suffix:
        raise UsageError(f"--out {out}: its name must end with {suffix}")
    if chosen.x is None:
        import torch

        network = posterior.sbi
        _write(out, lambda file: torch.save(network, file))
        use = f"torch.load({str(out)!r}, weights_only=False).sample((1000,), x=x_obs)"
        print(f"{chosen.name} as sbi's posterior: {out}. In Python: {use}")
    else:
        x = np.asarray(as_array(read_file(chosen.x, None, sampled=False).values[:], chosen.x))
        values = posterior.sample(x, chosen.samples, chosen.seed)
        _write(out, lambda file: np.save(file, values))
        print(f"Samples of {chosen.name} with shape {values.shape}: {out}")
    return 0


def _write(path: Path, save: Callable[[IO[bytes]], None]) -> None:
    try:
        with appearing(path) as file:
            save(file)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error

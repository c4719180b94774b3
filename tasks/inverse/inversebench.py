r"""Networks of InverseBench (https://github.com/devzhk/InverseBench) as priors: a user's checkout and checkpoint.

A checkout has the configs of its networks in `configs/pretrain`. Their section `model` names a class of the checkout,
e.g. `models.precond.EDMPrecond`, and its arguments; the section `data` names the dataset, and so the units of images.
What the class makes is called as `net(x, sigma)` and returns $E[x_0 \mid x]$. A checkpoint holds the weights of the
moving average under `ema`, and those of the last step under `net`. The first are taken if they are there, as
InverseBench does.
"""

__all__ = ["InverseBenchPrior"]

import io
import json
import math
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mira_bench.adapters.source import Source, load_source
from mira_bench.errors import UsageError

from ..files import content_of, sha256_of

if TYPE_CHECKING:
    from torch import Tensor, nn

TARGET = "_target_"  # the key of the class in a config
WEIGHTS = ("ema", "net")  # the keys of weights in a checkpoint, in the order in which they are looked for
SHOWN = 3  # names of weights that an error shows
KEPT = 4  # networks that a process keeps

_NETWORKS: dict[str, Any] = {}  # by all that determines them: candidates with the same network share it


@dataclass(frozen=True)
class InverseBenchPrior:
    r"""A network of InverseBench, with `denoise(y, sigma)` in the units of our images: $y = c + s x$.

    A checkout has modules called `models` and `utils`, and meets no others of that name: its modules have a room of
    their own, see `mira_bench.adapters.source`. Nothing of a checkpoint is run: it is read by
    `torch.load(..., weights_only=True)`. What is wrong with any of the files is said when the prior is made.

    Where the noise is above the largest that the network knows, its `sigma_max`, it is asked at that one, with images
    that are divided as the noise is.

    Arguments:
        checkout: The folder of the checkout.
        config: The name of a file in its `configs/pretrain`, without `.yaml`; or the path of such a file.
        checkpoint: The path of the checkpoint.
        scale: The size of their unit in ours, $s$.
        center: What is zero in their images, in our units, $c$. Both are known for the datasets of MRI (1 and 0), of
            black holes (0.5 and 0.5, with a largest pixel of one), and for `LMDBData`, whose `mean` and `std` the
            config says; for others they must be given.
        model: The section `model` of the config.
        sha256: The hash of the checkpoint.
        source: The file of the network's class, with all that it imported from the checkout.
    """

    checkout: str
    config: str
    checkpoint: str
    scale: float = None  # type: ignore[assignment]
    center: float = None  # type: ignore[assignment]
    model: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    sha256: str = field(init=False, repr=False)
    source: Source = field(init=False, repr=False)

    version = 1

    def __post_init__(self) -> None:
        if not Path(self.checkout).expanduser().is_dir():
            raise UsageError(f"checkout={self.checkout}: there is no such folder")
        if not self._checkpoint.is_file():
            raise UsageError(f"checkpoint={self.checkpoint}: there is no such file")
        config = _read(self._config)
        if (self.scale is None) != (self.center is None):
            raise UsageError("scale and center belong together: give both, or none of them")
        scale, center = _units(config, self._config) if self.scale is None else (self.scale, self.center)
        if not (0 < scale < math.inf and math.isfinite(center)):
            raise UsageError(f"scale={scale} and center={center}: a number above zero and a finite one are needed")
        self._set(scale=float(scale), center=float(center), model=_model(config, self._config))
        self._set(sha256=sha256_of(content_of(self._checkpoint)), source=self._load_source())
        self._network()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def _checkpoint(self) -> Path:
        return Path(self.checkpoint).expanduser().absolute()

    @property
    def _config(self) -> Path:
        if self.config.endswith((".yaml", ".yml")):
            return Path(self.config).expanduser().absolute()
        return Path(self.checkout).expanduser().absolute() / "configs" / "pretrain" / f"{self.config}.yaml"

    def _load_source(self) -> Source:
        module = self.model[TARGET].rpartition(".")[0]
        root = Path(self.checkout).expanduser().absolute()
        file = root.joinpath(*module.split(".")).with_suffix(".py")
        if not file.is_file():
            raise UsageError(f"{self._config} asks for {self.model[TARGET]}, but there is no file {file}")
        return load_source(str(file), f"checkout={self.checkout}", str(root))

    @property
    def event(self) -> tuple[int, int, int]:
        r"""The shape of the images that the network knows."""
        side = int(self.model["img_resolution"])
        return int(self.model["img_channels"]), side, side

    def describe(self) -> Mapping[str, Any]:
        r"""What determines the network: the content of all files, not where they are."""
        files = {"model": dict(self.model), "checkpoint": self.sha256, "checkout": self.source.content}
        return {"class": "inversebench", "version": self.version, "scale": self.scale, "center": self.center, **files}

    @cached_property
    def data_files(self) -> dict[str, str]:
        r"""The hashes of all files by path."""
        config = {str(self._config): sha256_of(content_of(self._config))}
        return {**self.source.files, **config, str(self._checkpoint): self.sha256}

    def denoise(self, y: "Tensor", sigma: "Tensor | float") -> "Tensor":
        r"""Returns $E[z \mid y]$ of clean images $z$, for images $(B, *event)$ with noise $(B,)$."""
        import torch

        if tuple(y.shape[1:]) != self.event:
            raise UsageError(f"the network of {self.config} is for images {self.event}, not {tuple(y.shape[1:])}")
        network = self._network()
        noise = torch.as_tensor(sigma, dtype=y.dtype, device=y.device).expand(len(y)) / self.scale
        # Samplers begin where there is nothing but noise, which may be beyond what the network was trained for.
        above = (noise / float(getattr(network, "sigma_max", math.inf))).clamp(min=1.0)
        x = (y - self.center) / self.scale / above.reshape(-1, 1, 1, 1)
        clean: Tensor = network(x, noise / above)
        return self.center + self.scale * clean.to(y.dtype)

    @cached_property
    def _key(self) -> str:
        return json.dumps([dict(self.model), self.sha256, self.source.content], sort_keys=True)

    def _network(self) -> "nn.Module":
        if self._key not in _NETWORKS:
            made = self._build()
            if len(_NETWORKS) >= KEPT:
                del _NETWORKS[next(iter(_NETWORKS))]
            _NETWORKS[self._key] = made
        found: nn.Module = _NETWORKS[self._key]
        return found

    def _build(self) -> "nn.Module":
        import torch

        target = self.model[TARGET]
        kind = self.source.find(target.rpartition(".")[2])
        arguments = {key: value for key, value in self.model.items() if key != TARGET}
        try:
            with torch.random.fork_rng(devices=[]):  # first weights are random, and are not kept
                network: nn.Module = kind(**arguments)
            own = network.state_dict()
        except Exception as error:
            raise UsageError(f"{target} of {self._config} fails with {type(error).__name__}: {error}") from error
        content = content_of(self._checkpoint)
        if sha256_of(content) != self.sha256:
            raise UsageError(f"{self._checkpoint} was edited while the run was under way: start it again")
        weights = _weights(content, self._checkpoint)
        _compare(weights, own, f"{self._checkpoint} does not fit {self._config}")
        network.load_state_dict(weights)
        return network.eval().requires_grad_(False)


def _read(path: Path) -> dict[str, Any]:
    r"""Returns the content of a config."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError  # type: ignore[import-untyped]

    if not path.is_file():
        others = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml"))) or "none"
        raise UsageError(f"there is no config {path}; those in its folder: {others}")
    try:
        found = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (OSError, UnicodeError, YAMLError, OmegaConfBaseException) as error:
        raise UsageError(f"{path} cannot be read as a config: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} has no sections")
    return {str(key): value for key, value in found.items()}


def _model(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    r"""Returns the section of the network, after a check."""
    model = config.get("model")
    if not isinstance(model, dict):
        raise UsageError(f"{path} has no section model: it has {', '.join(config)}")
    missing = next((key for key in (TARGET, "img_channels", "img_resolution") if key not in model), None)
    if missing is not None:
        raise UsageError(f"{path} has no model.{missing}: it has {', '.join(map(str, model))}")
    odd = next((key for key in model if str(key).startswith("_") and key != TARGET), None)
    if odd is not None:
        raise UsageError(f"{path} has model.{odd}, which is not understood here: a class and its arguments are")
    if "." not in str(model[TARGET]):
        raise UsageError(f"{path} has model.{TARGET}={model[TARGET]}, which names no class in a module")
    return {str(key): value for key, value in model.items()}


def _units(config: Mapping[str, Any], path: Path) -> tuple[float, float]:
    r"""Returns scale and center of images, by the dataset that the network was trained with."""
    section = config.get("data")
    data = section if isinstance(section, dict) else {}
    name = str(data.get(TARGET)).rpartition(".")[2]
    if name in ("MultiCoilMRIData", "MultiCoilMRILMDBData"):
        return 1.0, 0.0
    if name == "BlackHole":
        return 0.5, 0.5
    if name == "LMDBData" and {"mean", "std"} <= data.keys() and data.get("norm", True):
        return 2.0 * data["std"], data["mean"]
    raise UsageError(f"{path} does not say the units of its images (data.{TARGET} is {name}): give scale and center")


def _weights(content: bytes, path: Path) -> "Mapping[str, Tensor]":
    r"""Returns the weights in a checkpoint, by name."""
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of other formats first, and then raises
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(
            f"{path} has no plain weights: it is damaged, or holds objects with code, which is not run; save the "
            "state_dict of its network in place of the network"
        ) from error
    except Exception as error:  # torch raises many kinds of errors at a damaged file
        raise UsageError(f"{path} cannot be read as a checkpoint, it may be damaged: {error}") from error
    if not isinstance(found, Mapping):
        raise UsageError(f"{path} holds a {type(found).__name__}, where weights by name are needed")
    key = next((key for key in WEIGHTS if key in found), None)
    weights: Mapping[str, Tensor] = found if key is None else found[key]
    if key is None and not _named(weights):
        raise UsageError(f"{path} has neither {' nor '.join(WEIGHTS)}: it has {_some(list(map(str, found)))}")
    if not _named(weights):
        raise UsageError(f"{path} has under {key} no tensors by name")
    return weights


def _named(thing: Any) -> bool:
    r"""Whether a thing is a mapping from names to tensors."""
    import torch

    return isinstance(thing, Mapping) and all(isinstance(value, torch.Tensor) for value in thing.values())


def _compare(weights: "Mapping[str, Tensor]", own: "Mapping[str, Tensor]", lead: str) -> None:
    r"""Raises if weights are not those of a network, and names the first ones."""
    problems = []
    missing = [name for name in own if name not in weights]
    unknown = [name for name in weights if name not in own]
    other = [
        f"{name} {tuple(weights[name].shape)} for {tuple(own[name].shape)}"
        for name in own
        if name in weights and weights[name].shape != own[name].shape
    ]
    for words, names in (("it lacks", missing), ("it has unknown", unknown), ("shapes differ:", other)):
        if names:
            problems.append(f"{words} {_some(names)}")
    if problems:
        raise UsageError(f"{lead}: {'; '.join(problems)}")


def _some(names: Sequence[str]) -> str:
    r"""Lists the first names, and says how many others there are."""
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "nothing") + rest

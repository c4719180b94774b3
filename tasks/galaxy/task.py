r"""Reconstructing a lensed galaxy: which prior and which noise made this image?"""

__all__ = ["Galaxy"]

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials
from mira_bench.inference.diffusion.exact import MixturePosterior
from mira_bench.inference.diffusion.mixture import Mixture
from mira_bench.inference.diffusion.operators import ChannelOperator
from mira_bench.streams import generator
from mira_bench.trainer import State

from . import procedural
from .data import GalaxyImages, load_galaxies
from .lens import Lens
from .priors import CLASSES, GalaxyPriors, galaxy_images

TRUTHS = ("prior", "images")
CHANNELS = 3
BLOCK = 4
HELD_OUT = 64  # real images of the true class that no prior has seen


@functools.lru_cache(maxsize=4)
def _matrix(lens: Lens, size: int, brightness: float) -> Any:
    return lens.matrix(size) * brightness


@dataclass(frozen=True)
class Galaxy:
    r"""$y$ is the image of a galaxy, with shape $(3, H, W)$ and values from about 0 to 1; $x$ is its lensed image.

    $$ x = b A y + \sigma \epsilon $$

    Arguments:
        images: What the priors learn from: `"procedural"`, galaxies that are made by formulas; or those of a file or a
            folder; or `"galaxy_mnist"`, which is fetched; see `data.py`.
        sha256: The hash that the file must have.
        size: The pixels on a side of procedural galaxies; real ones have their own.
        count: How many images of each class there are to learn from, at most. Mixtures take up to 400 of them.
        prior: The class of the true galaxies.
        truths: Where they come from: `"prior"`, so that one candidate is exact; or `"images"`, galaxies that no prior
            has seen, for which none is.
        noise: The standard deviation of the noise in the data, $\sigma$.
        brightness: What a pixel of 1 adds to the data, $b$.
        lens: The lens.
        trainer: What learns the priors.
        seed: The seed of the images that priors learn from.
        learned: What it learned.
    """

    images: str = "procedural"
    sha256: str | None = None
    size: int = 64
    count: int = 400
    prior: str = "spiral"
    truths: str = "prior"
    noise: float = 2.0
    brightness: float = 10.0
    lens: Lens = field(default_factory=Lens)
    trainer: GalaxyPriors = field(default_factory=GalaxyPriors)
    seed: int = 0
    learned: State | None = field(default=None, compare=False, repr=False)

    version = 1
    packages = ("caustics",)

    def __post_init__(self) -> None:
        if self.prior not in CLASSES:
            raise UsageError(f"prior={self.prior!r} is not one of {', '.join(CLASSES)}")
        if self.truths not in TRUTHS:
            raise UsageError(f"truths={self.truths!r} is not one of {', '.join(TRUTHS)}")
        if self.images == "procedural" and self.sha256 is not None:
            raise UsageError("sha256 is that of a file of images, but images=procedural are made by formulas")
        for name, least in (("noise", 0.0), ("brightness", 0.0), ("count", 1), ("size", 3)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > least:
                raise UsageError(f"{name}={value!r}: a number above {least:g} is needed")

    def describe(self) -> Mapping[str, Any]:
        r"""What determines fiducials: of real images their content, not where they are."""
        own = {key: getattr(self, key) for key in ("count", "prior", "truths", "noise", "brightness", "seed")}
        made = {"recipe": procedural.VERSION, "size": self.size}
        source = made if self._real is None else {"sha256": self._real.sha256}
        parts = {"lens": dataclasses.asdict(self.lens), "trainer": dataclasses.asdict(self.trainer)}
        return {"class": "galaxy", "version": self.version, **own, **source, **parts}

    @property
    def data_files(self) -> dict[str, str]:
        r"""The hash of the file of real images, by its path; a folder has many, and is known by its content alone."""
        path = os.path.abspath(os.path.expanduser(self.images))
        return {path: self._real.sha256} if self._real is not None and os.path.isfile(path) else {}

    @functools.cached_property
    def _real(self) -> GalaxyImages | None:
        return None if self.images == "procedural" else load_galaxies(self.images, self.sha256)

    @functools.cached_property
    def _split(self) -> tuple[dict[str, NDArray[np.uint8]], NDArray[np.uint8]]:
        r"""Real images of each class to learn from, and those of the true class that are held out."""
        assert self._real is not None
        parts = {}
        held: NDArray[np.uint8] = np.empty(0, np.uint8)
        for name in CLASSES:
            mine = getattr(self._real, name)
            mine = mine[generator(self.seed, "galaxy permutation", name).permutation(len(mine))]
            if name == self.prior:
                if len(mine) < 2 * HELD_OUT:
                    raise UsageError(
                        f"{self.images} has {len(mine)} images of class {name}; {2 * HELD_OUT} are needed, for "
                        f"{HELD_OUT} are held out"
                    )
                held, mine = mine[:HELD_OUT], mine[HELD_OUT:]
            parts[name] = mine[: self.count]
        return parts, held

    @property
    def training_images(self) -> NDArray:
        r"""The images that priors learn from, with shape $(N, 3, H, W)$."""
        if self._real is None:
            return np.round(255 * galaxy_images(self.count, self.size, self.seed)[0]).astype(np.uint8)
        return np.concatenate(list(self._split[0].values()))

    @property
    def training_labels(self) -> NDArray[np.int64]:
        r"""Their classes: 0 for a spiral, 1 for an elliptical."""
        if self._real is None:
            return np.repeat(np.arange(len(CLASSES)), self.count)
        return np.repeat(np.arange(len(CLASSES)), [len(part) for part in self._split[0].values()])

    def load(self, state: State) -> "Galaxy":
        r"""Returns the task that knows its priors."""
        known = dataclasses.replace(self, learned=state)
        # With the images that this one was identified by: their file may be another by now.
        vars(known).update({key: value for key, value in vars(self).items() if key in ("_real", "_split")})
        return known

    @functools.cached_property
    def priors(self) -> dict[str, Mixture]:
        r"""The prior of each class."""
        if self.learned is None:
            raise UsageError("the priors of this task are not learned yet: run it, or give it a state by load")
        return self.trainer.load(self.learned)

    def prior_of(self, name: str) -> Mixture:
        r"""Returns the prior of a class."""
        if name not in CLASSES:
            raise UsageError(f"prior={name!r} is not one of {', '.join(CLASSES)}")
        return self.priors[name]

    @property
    def event(self) -> tuple[int, int, int]:
        r"""The shape of a galaxy."""
        side = self.size if self._real is None else self._real.spiral.shape[-1]
        return CHANNELS, side, side

    def operator(self, noise: float | None = None) -> ChannelOperator:
        r"""Returns the lens with some noise; by default the true one."""
        side = self.lens.pixels
        matrix = _matrix(self.lens, self.event[-1], self.brightness)
        return ChannelOperator(matrix, self.noise if noise is None else noise, self.event, (CHANNELS, side, side))

    @property
    def block(self) -> int:
        return HELD_OUT if self.truths == "images" and self._real is not None else BLOCK

    @property
    def most_fiducials(self) -> float:
        return HELD_OUT if self.truths == "images" and self._real is not None else np.inf

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def prior_sample(self) -> Callable[[int, np.random.Generator], NDArray[np.float32]]:
        r"""Draws galaxies as the true ones are; of real ones there are no others than those that are held out."""
        if self.truths == "prior":
            return lambda count, rng: self.prior_of(self.prior).sample(count, rng)
        if self._real is None:
            make = {"spiral": procedural.spirals, "elliptical": procedural.ellipticals}[self.prior]
            return lambda count, rng: make(count, rng, self.size)
        raise AttributeError("truths are real images, of which there are no more")

    def _held_out(self, count: int) -> NDArray[np.float32]:
        if count > HELD_OUT:
            raise UsageError(f"{count} images of class {self.prior} were asked for, and {HELD_OUT} are held out")
        return self._split[1][:count].astype(np.float32) / np.float32(255)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior_sample(count, rng) if hasattr(self, "prior_sample") else self._held_out(count)
        data = self.operator().forward(y)
        return Fiducials(y, (data + self.noise * rng.standard_normal(data.shape)).astype(np.float32))

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        shape = np.broadcast_shapes(y.shape[:-3], x.shape[:-3])
        images, data = (np.broadcast_to(v, (*shape, *v.shape[-3:])).reshape(-1, *v.shape[-3:]) for v in (y, x))
        return self.operator().log_likelihood(images, data).reshape(shape)

    @property
    def exact_posterior(self) -> Callable[[], MixturePosterior]:
        if self.truths != "prior":
            raise AttributeError("truths are images, and no prior is exact for them")
        return lambda: MixturePosterior(self.prior_of(self.prior), self.operator())

    @property
    def remarks(self) -> list[str]:
        if self.truths == "prior":
            return []
        return ["true galaxies are images that no prior has seen, so no candidate is exact"]

    def illustrate(self, fiducials: Fiducials, samples: Mapping[str, NDArray]) -> dict[str, Any]:
        from .pictures import moments_grid, sample_grid

        chosen = {name: drawn for name, drawn in samples.items() if name not in ("prior", "oracle")}
        if not chosen:
            return {}
        return {f.__name__: f(self, fiducials, chosen) for f in (sample_grid, moments_grid)}

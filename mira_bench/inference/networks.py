r"""The networks of sbi: how each method builds, trains and restores one, and what looks at images first."""

__all__ = ["METHODS", "Method", "choose_embedding", "reproducible", "train"]

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..streams import forked

if TYPE_CHECKING:
    from torch import nn

SMALLEST_IMAGE = 8  # pixels on a side; a smaller table of numbers is no image
LONGEST_VECTOR = 100  # entries that a network takes as they are
LARGE_IMAGE = 64
CHANNELS = (8, 16, 32)
FEATURES = 64

Report = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Method:
    r"""A method of sbi.

    Arguments:
        trainer: The name of the class in `sbi.inference` that trains it.
        argument: What the trainer calls its network.
        builder: The function in `sbi.neural_nets` that describes the network.
        embedding: What the builder calls the network that looks at the data first, if it takes one.
        estimator: The network that is used where none is asked for.
        estimators: The networks that can be asked for.
    """

    trainer: str
    argument: str
    builder: str
    embedding: str | None
    estimator: str
    estimators: tuple[str, ...]


_FLOWS = (
    "nsf",
    "maf",
    "maf_rqs",
    "mdn",
    "made",
    "zuko_nsf",
    "zuko_maf",
    "zuko_nice",
    "zuko_naf",
    "zuko_gf",
    "zuko_bpf",
)
_FIELDS = ("mlp", "ada_mlp", "transformer", "transformer_cross_attn")
# Not maf by default, as in sbi: the first dimension of each of its layers does not see the condition, and the order is
# drawn at random. In two dimensions one network in 32 has a dimension that no layer tells of the data.
METHODS = {
    "npe": Method("NPE_C", "density_estimator", "posterior_nn", "embedding_net", "nsf", _FLOWS),
    "nle": Method("NLE_A", "density_estimator", "likelihood_nn", None, "zuko_maf", _FLOWS),
    "nre": Method("NRE_B", "classifier", "classifier_nn", "embedding_net_x", "resnet", ("resnet", "mlp", "linear")),
    "fmpe": Method("FMPE", "vf_estimator", "posterior_flow_nn", "embedding_net", "mlp", _FIELDS),
    "npse": Method("NPSE", "vf_estimator", "posterior_score_nn", "embedding_net", "mlp", _FIELDS),
}


@contextlib.contextmanager
def reproducible(rng: np.random.Generator) -> Iterator[None]:
    r"""Runs torch on one thread, with global random states that follow from a generator.

    Sums over several threads have another order, and so other last digits, on another machine or in a worker. What
    sbi prints and warns of (chunks, numbers of chains, epochs) is left out.
    """

    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with (
            forked(int(rng.integers(2**63)), "torch"),
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def choose_embedding(embedding: str, shape: tuple[int, ...]) -> str:
    r"""Returns the embedding for data of a shape: a CNN for images, an MLP for long vectors, else none."""

    image = len(shape) in (2, 3) and min(shape[-2:]) >= SMALLEST_IMAGE
    if embedding == "auto":
        return "cnn" if image else "mlp" if np.prod(shape) > LONGEST_VECTOR else "none"
    if embedding == "cnn" and not image:
        raise UsageError(f"embedding=cnn: data of shape {shape} are no image of at least {SMALLEST_IMAGE} pixels")
    return embedding


def _embed(kind: str, shape: tuple[int, ...]) -> "nn.Module":
    from torch import nn

    if kind == "mlp":
        size = int(np.prod(shape))
        return nn.Sequential(nn.Linear(size, 2 * FEATURES), nn.ReLU(), nn.Linear(2 * FEATURES, FEATURES), nn.ReLU())
    if kind != "cnn":
        return nn.Identity()
    channels, height, width = shape if len(shape) == 3 else (1, *shape)
    layers: list[nn.Module] = [nn.Unflatten(1, (1, height))] if len(shape) == 2 else []
    # Strides in place of pooling, a wide one first if the image is large: pixels go before they cost anything.
    stride = 4 if min(height, width) >= LARGE_IMAGE else 2
    for wider in CHANNELS:
        layers += [nn.Conv2d(channels, wider, 2 * stride, stride=stride, padding=stride // 2), nn.ReLU()]
        channels, height, width, stride = wider, height // stride, width // stride, 2
        if min(height, width) < SMALLEST_IMAGE:
            break
    layers += [nn.Flatten(), nn.Linear(channels * height * width, 2 * FEATURES), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(2 * FEATURES, FEATURES), nn.ReLU())


def build(method: str, estimator: str, embedding: str, shape: tuple[int, ...], settings: Mapping[str, Any]) -> Any:
    r"""Returns the function of `(theta, x)` with which sbi builds a network for data of a shape."""
    import sbi.neural_nets as nets

    chosen = METHODS[method]
    more = dict(settings)
    if chosen.embedding is not None:
        more[chosen.embedding] = _embed(embedding, shape)
    # Parameters and data are standardized already, by numbers that are kept with the weights.
    return getattr(nets, chosen.builder)(model=estimator, z_score_theta="none", z_score_x="none", **more)


class _Nowhere:
    r"""A tracker that keeps nothing: sbi's own one would write a folder where the user stands."""

    log_dir = None

    def log_metric(self, name: str, value: float, step: int | None = None) -> None: ...

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None: ...

    def log_params(self, params: dict[str, Any]) -> None: ...

    def add_figure(self, name: str, figure: Any, step: int | None = None) -> None: ...

    def flush(self) -> None: ...


def train(
    method: str,
    builder: Any,
    theta: NDArray[np.float32],
    x: NDArray[np.float32],
    settings: Mapping[str, Any],
    report: Report,
) -> tuple[Any, dict[str, NDArray]]:
    r"""Trains a network with sbi, inside of `reproducible`.

    Returns:
        The network, and the training and validation losses of each epoch.
    """
    import sbi.inference as inference
    import torch
    from torch.utils.data import default_collate

    chosen = METHODS[method]
    trainer = getattr(inference, chosen.trainer)(
        **{chosen.argument: builder}, tracker=_Nowhere(), show_progress_bars=False
    )
    seen = 0

    def collate(batch: list[Any]) -> Any:
        # The one place at which sbi lets us look on: every pair passes here once an epoch.
        nonlocal seen
        before, seen = seen // len(theta), seen + len(batch)
        if seen // len(theta) > before:
            report("epochs", seen // len(theta), settings.get("max_num_epochs"))
        return default_collate(batch)

    trainer.append_simulations(torch.from_numpy(theta), torch.from_numpy(x))
    try:
        network = trainer.train(**settings, dataloader_kwargs={"collate_fn": collate})
    except TypeError as error:
        raise UsageError(f"training: {error}") from error
    curves = {name: np.asarray(trainer.summary[name], np.float64) for name in ("training_loss", "validation_loss")}
    return network.eval(), curves

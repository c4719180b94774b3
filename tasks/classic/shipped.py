r"""The small reference posteriors that come with the package."""

__all__ = ["reference"]

from importlib import resources

from mira_bench.adapters.reference import ReferencePosteriors, load
from mira_bench.errors import UsageError


def reference(name: str) -> ReferencePosteriors:
    r"""Returns observations of a classic task with samples of their posteriors.

    `python -m mira_bench reference` makes more of them.

    Arguments:
        name: The name of the task's config, e.g. `"two_moons"`.

    Example:
        >>> found = reference("two_moons")
        >>> found.fiducials.y.shape, found.draws.values.shape
        ((10, 2), (10, 1000, 2))
    """

    folder = resources.files(__package__) / "references"
    file = folder / f"{name}.npz"
    if not file.is_file():
        there = sorted(f.name.removesuffix(".npz") for f in folder.iterdir() if f.name.endswith(".npz"))
        raise UsageError(f"there is no reference {name!r}; there are: {', '.join(there)}")
    with file.open("rb") as stream:
        return load(stream)

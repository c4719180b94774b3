r"""Fiducials that are not independent: those that share a sample set, and those that are there twice.

A candidate without condition may come as one set $(1, S, *event)$, which says what it is, or as $L$ copies of it, which
do not. Whatever the form, the set is one draw, and the error of a score that takes it for $L$ draws is too small.
"""

__all__ = ["equal_sets", "members", "refuse_groups", "refuse_repeats", "spread", "tell_shared"]

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_host, shared_by
from .errors import UsageError

CHANCE = 1e-6  # sets that are equal by chance are expected less often than so
FEW_TRUTHS = 10  # with fewer distinct ones, all may occur equally often by chance

Read = Callable[[slice], Array]


def members(groups: NDArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    r"""Returns the first fiducial of each group, in their order, and for each fiducial the place of its group there.

    Example:
        >>> members(np.array([7, 3, 7, 3]))
        (array([0, 1]), array([0, 1, 0, 1]))
    """

    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[inverse.reshape(-1)]


def spread(sets: Array, own: NDArray[np.intp]) -> Array:
    r"""Gives each fiducial the set of its group: $(G, S, *event)$ becomes $(L, S, *event)$, as a view if all share one.

    Arguments:
        sets: One set for each group.
        own: The place of each fiducial's group among them.
    """

    return shared_by(sets, len(own)) if len(sets) == 1 else sets[own]


def _digests(part: Array) -> list[bytes]:
    r"""What tells the rows of an array apart."""
    # Row by row, for a block may be large. The sum makes a copy in which -0 and 0 are the same number.
    return [hashlib.blake2b(np.ascontiguousarray(as_host(row) + 0.0).data, digest_size=16).digest() for row in part]


def equal_sets(blocks: Sequence[slice], first: Read, read: Read) -> NDArray[np.int64] | None:
    r"""Finds fiducials whose sample sets are the same numbers in the same order.

    First samples are compared first: nothing else is read if all of them differ. Sets of a few discrete values may be
    equal by chance (those of a point mass always are), which makes them no less independent.

    Arguments:
        blocks: The blocks in which fiducials are read.
        first: Reads the first sample of some fiducials, $(l, 1, d)$.
        read: Reads all samples of some fiducials, $(l, S, d)$.

    Returns:
        For each fiducial the first one that has its set; none if every fiducial has a set of its own.
    """

    heads = _members((rows.start + i, d) for rows in blocks for i, d in enumerate(_digests(first(rows))))
    twins = {l for members in heads if len(members) > 1 for l in members}
    if not twins:
        return None
    chosen = [rows for rows in blocks if not twins.isdisjoint(range(rows.start, rows.stop))]
    whole = _members((rows.start + i, d) for rows in chosen for i, d in enumerate(_digests(read(rows))))
    fiducials = blocks[-1].stop
    labels = np.arange(fiducials)
    for members in whole:
        if len(members) > 1 and not _by_chance(read(slice(members[0], members[0] + 1)), len(members), fiducials):
            labels[members] = members[0]
    return None if np.array_equal(labels, np.arange(fiducials)) else labels


def _members(digests: Iterable[tuple[int, bytes]]) -> list[list[int]]:
    found: dict[bytes, list[int]] = {}
    for l, digest in digests:
        found.setdefault(digest, []).append(l)
    return list(found.values())


def _by_chance(part: Array, members: int, fiducials: int) -> bool:
    r"""Whether independent draws of the law that a set shows could be this set in so many of the fiducials."""
    values = as_host(part)[0]
    count = len(values)
    times = np.unique(values, axis=0, return_counts=True)[1]
    # The probability that two draws are equal, from the pairs in the set; one more, for a small set knows little.
    equal = (np.sum(times * (times - 1)) + 1) / (count * (count - 1) + 1)
    choices = math.lgamma(fiducials + 1) - math.lgamma(members + 1) - math.lgamma(fiducials - members + 1)
    return bool(choices + count * (members - 1) * math.log(equal) > math.log(CHANCE))


def refuse_groups(groups: NDArray, blocks: Sequence[slice], read: Read, name: str) -> None:
    r"""Raises a sentence if fiducials have the same label and different sample sets."""

    known: dict[object, tuple[int, bytes]] = {}
    labels = groups.tolist()
    for rows in blocks:
        for i, digest in enumerate(_digests(read(rows))):
            one, other = known.setdefault(labels[rows.start + i], (rows.start + i, digest))
            if other != digest:
                raise UsageError(
                    f"{name} has different samples for the fiducials {one} and {rows.start + i}, which share one set "
                    "by groups=: leave groups= out, for shared sets are found in each candidate by themselves"
                )


def tell_shared(labels: NDArray[np.int64], name: str) -> str:
    r"""Says which fiducials of a candidate share sample sets."""

    sets, counts = np.unique(labels, return_counts=True)
    if len(sets) == 1:
        return f"{name} has the same samples for all {len(labels)} fiducials, and is scored as one shared set"
    one = sets[counts > 1][0]
    again = np.flatnonzero(labels == one)[1]
    return (
        f"{name} has {len(sets)} different sample sets for {len(labels)} fiducials (the same for {one} and {again}): "
        "those that share a set are not taken for independent"
    )


def refuse_repeats(truths: NDArray[np.float64], sets: Sequence[NDArray[np.int64] | None]) -> None:
    r"""Raises a sentence if fiducials are there twice: the same truth, and the same samples of every candidate.

    Where different truths share a set, equal truths may be draws of a discrete law. They are repeats if all of them
    occur equally often.

    Arguments:
        truths: The truths, with shape $(L, d)$.
        sets: Which sample sets are the same, as `equal_sets` gives them, for each candidate.
    """

    labels = [one for one in sets if one is not None]
    if len(labels) < len(sets):
        return  # a candidate with a set for each fiducial
    rows = np.unique(truths, axis=0, return_inverse=True)[1].reshape(-1)
    keys = np.stack([rows, *labels], axis=1)
    _, first, inverse, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    again = first[inverse.reshape(-1)] != np.arange(len(truths))
    if not again.any():
        return
    one = int(np.flatnonzero(again)[0])
    shared = all(len(set(rows[mine == mine[one]].tolist())) > 1 for mine in labels)
    if shared and not (len(counts) >= FEW_TRUTHS and counts.min() == counts.max()):
        return
    raise UsageError(
        f"fiducial {one} is fiducial {int(first[inverse.reshape(-1)[one]])} again, the same truth with the same "
        f"samples, and {np.count_nonzero(again)} of {len(truths)} fiducials are such repeats: errors would be too "
        "small; give each fiducial once"
    )

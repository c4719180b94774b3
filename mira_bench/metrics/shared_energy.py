r"""What the error of the energy score has to know of sample sets that fiducials share.

With $n$ truths and one set of $S$ samples, the mean score is $T = \bar K - U / 2$, with $K_{jl} = |y_j - y^*_l|$ and
$U$ the mean distance of the samples. Its variance has four parts, of the truths, of the samples, of both together, and
of pairs of samples:

$$ \frac{V_\text{truth}}{n} + \frac{V_\text{set}}{S} + \frac{V_\text{both}}{n S} + \frac{\zeta}{2 S (S - 1)} . $$

The scatter of the scores over truths shows the first and the third. The second and the fourth are found here. What a
sample adds to the score, $h_j = \bar K_j - u_j$ with its mean distance $u_j$ to the others, varies by
$V_\text{set} + V_\text{both} / n + \zeta / (S - 2)$, so that the other two are taken off: where a candidate is right,
$V_\text{set}$ is zero and they are all there is. $V_\text{both}$ is the residual variance of $K$ after its rows and
columns, $\zeta$ that of the distances of samples (the unbiased distance variance).
"""

__all__ = ["shared_terms", "shared_variance"]

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arrays import as_host
from ..metric import Block, Record
from ..ranks.scaling import Scale
from ..sharing import members

POINTS = 512  # samples of a set that are looked at: a variance is known well enough from so many


def _pair_variance(among: NDArray[np.float64]) -> float:
    r"""The unbiased distance variance of samples whose distances are given, $(s, s)$."""
    count = len(among)
    if count < 4:
        return 0.0
    rows = among.sum(axis=1) / (count - 2)
    centered = among - rows[:, None] - rows + among.sum() / ((count - 1) * (count - 2))
    np.fill_diagonal(centered, 0.0)
    return float(np.sum(centered**2) / (count * (count - 3)))


def shared_terms(block: Block, ruler: Scale) -> Record:
    r"""Returns sums over the fiducials of each group that add up over blocks, and what is known of the sets.

    Where the ruler differs between the fiducials of a group, that of its first one is taken.

    Arguments:
        block: A block whose fiducials share sets.
        ruler: The scale of distances.
    """

    assert block.groups is not None
    first, own = members(block.groups)
    kept: dict[str, list[object]] = {key: [] for key in ("count", "toward", "square", "means", "among", "pairs")}
    for g, l in enumerate(first):
        width = ruler.rows(slice(l, l + 1))[1][0]
        points = as_host(block.samples[int(l)])[:POINTS] / width
        toward = scipy.spatial.distance.cdist(points, block.truths[own == g] / width)
        among = scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(points))
        kept["count"].append(toward.shape[1])
        kept["toward"].append(toward.sum(axis=1))
        kept["square"].append(np.sum(toward**2))
        kept["means"].append(np.sum(toward.mean(axis=0) ** 2))
        kept["among"].append(among.sum(axis=1) / max(1, len(points) - 1))
        kept["pairs"].append(_pair_variance(among))
    terms = {f"shared_{key}": np.array(values) for key, values in kept.items()}
    return terms | {"shared_group": np.asarray(block.groups)[first], "shared_samples": np.array(block.samples.shape[1])}


def shared_variance(records: list[Record]) -> float:
    r"""Returns the variance of the mean score that comes from the sets, beyond what its scatter over truths shows.

    Arguments:
        records: What `shared_terms` returned for each block.
    """

    sums: dict[object, list[NDArray]] = {}
    for record in records:
        for g, label in enumerate(record["shared_group"].tolist()):
            mine = [record[f"shared_{key}"][g] for key in ("count", "toward", "square", "means")]
            known = sums.get(label)
            fixed = [record["shared_among"][g], record["shared_pairs"][g]] if known is None else known[4:]
            sums[label] = [*(mine if known is None else [a + b for a, b in zip(known, mine, strict=False)]), *fixed]
    fiducials = sum(int(one[0]) for one in sums.values())
    samples = int(records[0]["shared_samples"])
    single = pairs = 0.0
    for count, toward, square, means, among, zeta in sums.values():
        s = len(toward)
        if count < 2 or s < 3:
            continue
        mean = toward / count
        residual = square - count * np.sum(mean**2) - s * means + count * s * mean.mean() ** 2
        both = residual / ((s - 1) * (count - 1))
        adds = mean - (s - 1) / (s - 2) * among
        weight = (count / fiducials) ** 2
        single += weight * (adds.var(ddof=1) - both / count - zeta / (s - 2)) / samples
        pairs += weight * zeta / (2 * samples * (samples - 1))
    # Where a candidate is right the first is zero, and its estimate is as often below as above.
    return float(max(single + pairs, 0.0))

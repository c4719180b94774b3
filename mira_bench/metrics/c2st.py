r"""The classifier two-sample test: how often can a classifier tell two sets of samples apart?"""

__all__ = ["C2st", "c2st"]

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ..errors import UsageError
from ..statistics import mean_stderr
from ..streams import generator
from .two_sample import TwoSample, TwoSampleResult, as_sets

CLASSIFIERS = ("forest", "mlp")
VALIDATION = 20  # fewer samples leave the perceptron nothing to stop its training by


def _check(classifier: str, folds: int, trees: int, leaf: int) -> None:
    if classifier not in CLASSIFIERS:
        raise UsageError(f"classifier={classifier!r} is not one of {', '.join(CLASSIFIERS)}")
    if folds < 2:
        raise UsageError(f"folds={folds}: at least two are needed")
    if trees < 1:
        raise UsageError(f"trees={trees}: at least one is needed")
    if leaf < 1:
        raise UsageError(f"leaf={leaf}: at least one sample is needed")


def _least(classifier: str, folds: int) -> int:
    return max(folds, VALIDATION) if classifier == "mlp" else folds


def _classifier(kind: str, trees: int, leaf: int, dim: int, seed: int) -> Any:
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(trees, min_samples_leaf=leaf, random_state=seed, n_jobs=1)
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        (10 * dim, 10 * dim), max_iter=1000, early_stopping=True, n_iter_no_change=50, random_state=seed
    )


def c2st(
    a: ArrayLike,
    b: ArrayLike,
    *,
    classifier: str = "forest",
    folds: int = 5,
    trees: int = 25,
    leaf: int = 5,
    seed: int = 0,
    paired: bool = False,
) -> TwoSampleResult:
    r"""Returns the cross-validated accuracy of a classifier that is trained to tell two sets of samples apart,

    $$ C2ST = \frac{1}{2n} \sum_i [f(a_i) = 0] + [f(b_i) = 1] , $$

    where $f$ has not seen the fold of $a_i$ and $b_i$. It is 1/2 if both are from one distribution, for every
    classifier, and 1 if they can be told apart without error. Every fold has as many samples of $a$ as of $b$, and of
    the larger set a random part is used: else the classifier profits, or suffers, from the imbalance.

    The p-value takes the accuracy as normal. The folds share their training samples, so that its variance is above
    the binomial $1 / 8n$ (by half for a forest in two dimensions); Nadeau & Bengio's factor $1 + K / (K - 1)$, 9/4
    for $K = 5$ folds, is on the safe side. It is an approximation all the same. The standard error has it too.

    Arguments:
        a: The first set, with shape $(n, *event)$.
        b: The second set, with shape $(m, *event)$.
        classifier: `"forest"`, a random forest, or `"mlp"`, a perceptron with two hidden layers of $10 d$ units (much
            slower).
        folds: The number $K$ of folds.
        trees: The number of trees of the forest.
        leaf: The fewest samples in a leaf of a tree. Trees that are grown to the end learn the noise, and see less of
            a wrong width in few dimensions. Sets of fewer than 100 have smaller leaves, a twentieth of a set.
        seed: The seed of folds and classifiers.
        paired: Whether $a_i$ and $b_i$ belong together (they share an observation). Pairs are never in different
            folds in any case.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> c2st(rng.normal(size=(100, 2)), 3 + rng.normal(size=(100, 2))).score > 0.9
        True

    References:
        | Revisiting Classifier Two-Sample Tests (Lopez-Paz & Oquab 2017)
        | https://arxiv.org/abs/1610.06545
        | Inference for the Generalization Error (Nadeau & Bengio 2003)
    """

    _check(classifier, folds, trees, leaf)
    sets = as_sets(a, b, "c2st", _least(classifier, folds), paired)
    rng = generator(seed, "c2st")
    count, dim = min(map(len, sets)), sets[0].shape[1]
    pooled = np.concatenate(sets)
    spread = pooled.std(axis=0)
    center, width = pooled.mean(axis=0), np.where(spread > 0, spread, 1.0)
    x, y = ((s if len(s) == count else s[rng.choice(len(s), count, replace=False)]) for s in sets)
    x, y = (x - center) / width, (y - center) / width
    fold = rng.permutation(np.arange(count) % folds)
    leaf = max(1, min(leaf, count // 20))
    right = np.empty((2, count))
    # One thread: the bits of a perceptron depend on it, and workers share the cores.
    with threadpool_limits(1, user_api="blas"):
        for k in range(folds):
            rest, held = fold != k, fold == k
            label = np.repeat([0, 1], np.count_nonzero(rest))
            model = _classifier(classifier, trees, leaf, dim, int(rng.integers(2**31)))
            model.fit(np.concatenate([x[rest], y[rest]]), label)
            said = model.predict(np.concatenate([x[held], y[held]]))
            right[:, held] = np.split(said, 2) == np.array([[0], [1]])
    inflation = math.sqrt(1 + folds / (folds - 1))
    score, stderr = mean_stderr(right.mean(axis=0))
    null = inflation * math.sqrt(1 / (8 * count))
    return TwoSampleResult(score, inflation * stderr, 0.5, float(scipy.stats.norm.sf((score - 0.5) / null)))


@dataclass(frozen=True)
class C2st(TwoSample):
    r"""The classifier two-sample test as a metric of the runner; see `c2st` and `TwoSample`.

    The defaults cost about a second for 2 to 13 dimensions. The accuracy depends on the number of samples:
    compare scores only at equal `most_samples`.

    Arguments:
        classifier: What tells the two sets apart: `"forest"` (a random forest) or `"mlp"` (a perceptron).
        folds: The number of folds of the cross-validation.
        trees: The number of trees of the forest.
        leaf: The fewest samples in a leaf of a tree.
    """

    fiducials: int = 4
    most_samples: int = 300
    classifier: str = "forest"
    folds: int = 5
    trees: int = 25
    leaf: int = 5

    name = "c2st"
    version = 2
    packages = ("scikit-learn",)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self.classifier, self.folds, self.trees, self.leaf)

    @property
    def least(self) -> int:
        return _least(self.classifier, self.folds)

    def compare(self, a: NDArray[np.float64], b: NDArray[np.float64], seed: int, paired: bool) -> TwoSampleResult:
        return c2st(
            a, b, classifier=self.classifier, folds=self.folds, trees=self.trees, leaf=self.leaf, seed=seed,
            paired=paired,
        )  # fmt: skip

r"""Words for what was found: a verdict, the evidence for it, and what speaks against a candidate that passed."""

__all__ = ["VERDICTS", "advice", "objections", "verdict"]

import math
from collections.abc import Sequence

from ..metrics.calibration import LEVEL, SHIFT_EFFECT, CalibrationResult
from ..ranks.features import Feature
from .standing import Standing

ASKED = ("mmd", "tarp", "sbc", "c2st")  # tests that may object to a candidate of tier A

# Every verdict with what it means and what to do about it; docs/verdicts.md has more.
VERDICTS = {
    "no miscalibration found": ("none of the tests sees a deviation", "use it, within what would have been seen"),
    "not resolved": (
        "no miscalibration found, and too few fiducials to tell it from the prior",
        "run more fiducials",
    ),
    "overconfident": ("its posteriors are too narrow", "train on more simulations, or take an ensemble"),
    "underconfident": ("its posteriors are too wide", "train longer, or take a more flexible network or summary"),
    "shifted": ("its posteriors are off to one side", "check units, the prior's bounds, and the simulator's version"),
    "shrunk toward the prior": (
        "its posteriors follow the data less than they should",
        "train longer or on more simulations; the summary loses information",
    ),
    "bias depends on x": ("it is off to one side for some data, to the other for others", "train on more simulations"),
    "width depends on x": (
        "it is too narrow for some data and too wide for others",
        "take a network whose width can vary with the data, or more simulations",
    ),
    "wrong correlation": (
        "each parameter is right, their joint distribution is not",
        "take a flow or a full-covariance mixture in place of independent marginals",
    ),
    "wrong shape": ("width and location are right, the shape is not", "take a more flexible network: a flow"),
    "does not fit the data": (
        "its samples have other likelihoods than the truth",
        "look at posterior predictive draws; sample longer or train on more simulations",
    ),
    "not uniform": ("ranks deviate in a way that has no simpler name", "look at the figures of the ranks"),
    "no information": ("it knows no more than the prior", "check that the candidate sees the data at all"),
    "worse than the prior": ("the prior would be better", "look for a mistake: units, the order of parameters or data"),
    "too few fiducials": ("at least three are needed", "run more fiducials"),
    "one sample": ("one sample for each fiducial says nothing about a distribution", "draw at least 20"),
    "failed": ("there are no samples, or the candidate broke", "read the reason in the log"),
    "-": ("the test was not computed", "ask for the metrics calibration and energy"),
}  # fmt: skip


def advice(word: str) -> str:
    r"""Returns what to do about a verdict."""

    return VERDICTS[word][1]


def verdict(standing: Standing, names: Sequence[str] | None = None) -> tuple[str, str]:
    r"""Returns the verdict and the tests that speak for it."""

    if standing.failure is not None:
        return "failed", standing.failure
    calibration = standing.calibration
    if calibration is None:
        asked = standing.scores.get("calibration")
        why = "the calibration metric was not computed" if asked is None else f"calibration {asked.note}"
        return ("-", why) if asked is None or standing.information != "none" else _blind(standing, why)
    if calibration.samples < 2:
        return "one sample", "a distribution cannot be judged by one sample for each fiducial"
    if calibration.fiducials < 3:
        return "too few fiducials", "at least 3 are needed to say anything"
    if standing.information == "none":
        return _blind(standing, f"calibration p = {calibration.pvalue:.3f}")
    if calibration.pvalue >= LEVEL:
        seen = _would_have_seen(calibration, names)
        if standing.information == "unresolved":
            return "not resolved", f"{_skill(standing)}; {seen}"
        return "no miscalibration found", seen
    word, evidence = _miscalibration(calibration, names)
    return word, evidence if standing.information != "unresolved" else f"{evidence}; {_skill(standing)}"


def _skill(standing: Standing) -> str:
    assert standing.energy is not None
    return f"skill {standing.energy.skill:+.3f} +- {standing.energy.skill_stderr:.3f}"


def _blind(standing: Standing, calibration: str) -> tuple[str, str]:
    r"""The verdict on a candidate that is shown to know no more than the prior."""
    assert standing.energy is not None
    words = "worse than the prior" if standing.energy.harmful else "no information"
    return words, f"{_skill(standing)}; {calibration}"


def _would_have_seen(calibration: CalibrationResult, names: Sequence[str] | None) -> str:
    r"""What the test could have seen, in words; and what it could not."""
    d = calibration.detectable
    found = []
    if not math.isnan(d.width):
        found.append(f"all widths off by {d.width:.0%}")
    if not math.isnan(d.one_width):
        found.append(f"one off by {d.one_width:.0%}")
    if not math.isnan(d.shift):
        found.append(f"one parameter shifted by {d.shift:.2f} sd")
    if not math.isnan(d.correlation):
        found.append(f"a correlation off by {d.correlation:.2f}")
    text = f"would have seen {', '.join(found)}" if found else "would not have seen even a factor of three in width"
    if not any(f.column >= 0 for f in calibration.features):
        text += "; without data, errors that go with the data are not seen"
    return text + _fixed(calibration, names)


def _fixed(calibration: CalibrationResult, names: Sequence[str] | None) -> str:
    fixed = [calibration.where(axis, names) for axis in calibration.fixed]
    return f"; {', '.join(fixed)} {'is' if len(fixed) == 1 else 'are'} fixed" if fixed else ""


def _miscalibration(calibration: CalibrationResult, names: Sequence[str] | None) -> tuple[str, str]:
    r"""The verdict on a candidate that the test rejects: a bias if there is one, else what speaks loudest."""
    for feature, effect, p in calibration.biases[:1]:
        if p < LEVEL and abs(effect) >= SHIFT_EFFECT:
            word, evidence = _bias(calibration, feature, effect, names)
            return word, evidence + _fixed(calibration, names)
    for i in calibration.order:
        feature, z = calibration.features[i], float(calibration.z[i])
        if not calibration.speaks(feature):
            break
        found = _named(calibration, feature, z, names)
        if found is not None:
            return found[0], found[1] + _fixed(calibration, names)
    feature, z = calibration.spoke
    return "not uniform", f"{calibration.label(feature, names)} z = {z:+.1f}" + _fixed(calibration, names)


def _bias(
    calibration: CalibrationResult, feature: Feature, effect: float, names: Sequence[str] | None
) -> tuple[str, str]:
    r"""The name of a signed shift, and the evidence."""
    size = f"mean/sd of the ranks {effect:+.2f}"
    if feature.kind == "trend":
        word = "shrunk toward the prior" if effect > 0 else "bias depends on x"
        return word, f"{calibration.label(feature, names)}: {size}"
    if feature.column >= 0:
        return "bias depends on x", f"{calibration.label(feature, names)}: {size}"
    side = "above" if effect > 0 else "below"
    return "shifted", f"the truth lies {side} the samples of {calibration.where(feature.axes[0], names)}: {size}"


def _named(
    calibration: CalibrationResult, feature: Feature, z: float, names: Sequence[str] | None
) -> tuple[str, str] | None:
    r"""The name of an error that a feature shows, and the evidence; none if it is not clear."""
    text = f"{calibration.label(feature, names)} z = {z:+.1f}"
    kind = feature.kind
    if feature.group == "data":
        if "likelihood" in kind:
            return "does not fit the data", text
        return ("width depends on x", text) if kind in ("dispersion", "tails") else None
    if kind == "pair":
        i, j = (calibration.where(axis, names) for axis in feature.axes)
        more = "more" if z > 0 else "less"
        return "wrong correlation", f"{i} and {j} go together {more} than it says, z = {z:+.1f}"
    if kind in ("peak", "spread of the radius"):
        return "wrong shape", text
    if kind in ("mira", "dispersion", "radius", "tails"):
        # A wrong correlation moves whitened points outward, whatever the widths are.
        dispersion, pair = calibration.worst("dispersion"), calibration.worst("pair")
        if pair is not None and calibration.speaks(pair[0]) and not (dispersion and calibration.speaks(dispersion[0])):
            return _named(calibration, *pair, names)
        return _width(calibration, text, names)
    return None


def _width(calibration: CalibrationResult, text: str, names: Sequence[str] | None) -> tuple[str, str] | None:
    r"""Too narrow or too wide, if all that see widths agree; a wrong shape if they do not."""
    sides, parts = [], []
    for kinds in (("mira",), ("dispersion",), ("radius", "tails")):
        worst = calibration.worst(*kinds)
        if worst is not None:
            feature, z = worst
            sides.append(-z if feature.kind == "mira" else z)
            parts.append(f"{calibration.label(feature, names)} z = {z:+.1f}")
    loud = [side for side in sides if abs(side) > 2]
    if loud and all(side > 0 for side in loud):
        return "overconfident", ", ".join(parts)
    if loud and all(side < 0 for side in loud):
        return "underconfident", ", ".join(parts)
    return "wrong shape", text


def objections(standing: Standing) -> list[str]:
    r"""Returns what speaks against a candidate of tier A: other tests, other views, a reference posterior."""

    asked = [m for m in ASKED if m in standing.scores and not math.isnan(standing.scores[m].pvalue)]
    found = []
    for key, scores in standing.scores.items():
        metric, _, view = key.partition("@")
        if not scores.pvalue < LEVEL:
            continue
        if metric == "calibration" and view:
            found.append(f"calibration in the view {view}, p = {scores.pvalue:.2g}")
        elif metric == "c2st" and not view and scores.note.startswith("against the reference"):
            found.append(f"C2ST {scores.score:.3f} against the reference posterior, p = {scores.pvalue:.2g}")
        elif key in asked and scores.pvalue < LEVEL / len(asked):
            found.append(f"{metric.upper()}, p = {scores.pvalue:.2g}")
    return found

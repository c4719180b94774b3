r"""Trust in the store: of what a run would reuse, one block of each kind is made anew and compared to the bit.

An identity covers the code of the user, its settings and the versions of libraries, but not all that code may look
at while it runs. Of files, a block knows which ones were read for it, and their content. For the rest (environment
variables, the machine, a service) a run that finds blocks of a task, a candidate or a metric makes one of them again,
another one each time. If a file is another one now, or the block comes out differently, nothing of that identity is
reused: it gets a new generation in the store (see `Store.renew`), and the run says so.

A check takes at most `SHARE` of the time that the reused blocks took, or `FLOOR` seconds if that is more; a block that
takes longer is checked now and then, with the probability that keeps to the share, and the run says when it was not.
"""

__all__ = ["FLOOR", "SHARE", "Reuse", "ago", "check_candidates", "check_fits", "check_task", "unlike"]

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..adapters.reads import changed
from ..fiducials import Fiducials
from ..ranks.scaling import Scaling
from .engines import Died, Engine
from .setup import Setup
from .store import Header
from .training import PROBE, is_trainer, probe, reason_of
from .units import draw_fiducials, reference_samples, remake, simulate

log = logging.getLogger("mira_bench")

SHARE = 0.1
FLOOR = 20.0  # seconds
SURVEYED = 1000  # blocks of a candidate that are looked for; of more, evenly spaced ones stand for all
TRAINING = "training"
WHY = "its code, a file or an environment variable that it reads, or the machine's libraries have changed"

_chance = secrets.SystemRandom()


@dataclass
class Reuse:
    r"""What a run takes from the store.

    Arguments:
        found: For each kind of block and candidate, the number of fiducials, and when the first of them was made.
        checked: What was made anew and came out the same.
        doubts: Sentences about what came out differently, or was not checked.
    """

    found: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    checked: list[tuple[str, str]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def doubt(self, sentence: str) -> None:
        log.warning("%s", sentence)
        self.doubts.append(sentence)

    @property
    def sentences(self) -> list[str]:
        r"""What a reader must know, in words."""
        same: dict[str, dict[str, list[str]]] = {}
        for (kind, name), (count, made) in self.found.items():
            facts = f"made {ago(made)}" if kind == TRAINING else f"{count} fiducials, made {ago(made)}"
            same.setdefault(facts, {}).setdefault(kind, []).append(name)
        told = [f"{', '.join(map(_words, kinds, kinds.values()))} ({facts})" for facts, kinds in same.items()]
        if not told:
            return list(self.doubts)
        checked = "a block of each was made anew and is the same to the bit"
        if set(self.checked) != set(self.found):
            kinds: dict[str, list[str]] = {}
            for kind, name in self.checked:
                kinds.setdefault(kind, []).append(name)
            named = ", ".join(map(_words, kinds, kinds.values()))
            checked = f"made anew and the same to the bit: a block of {named}" if named else "not checked"
        return [f"from the store: {'; '.join(told)}; {checked}", *self.doubts]


def _words(kind: str, names: Sequence[str]) -> str:
    return kind if names == [""] else f"{kind} of {', '.join(names)}"


def ago(made: float) -> str:
    r"""Returns how long ago something was made, in words.

    Example:
        >>> ago(time.time() - 7300)
        '2 hours ago'
    """

    seconds = max(0.0, time.time() - made)
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "just now"


def unlike(old: Mapping[str, NDArray], new: Mapping[str, NDArray]) -> str:
    r"""Returns how two records differ, in words; nothing if they are the same to the bit."""

    for key in sorted({*old, *new}):
        if key not in old or key not in new:
            return f"{key} is there only once"
        a, b = np.asarray(old[key]), np.asarray(new[key])
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{key} was {a.dtype} {a.shape} and is {b.dtype} {b.shape}"
        if a.tobytes() != b.tobytes():
            if a.dtype.kind not in "fiub":
                return f"{key} differs"
            differing = ~((a == b) | ((a != a) & (b != b)))
            most = float(np.max(np.abs(a[differing].astype(float) - b[differing].astype(float)), initial=0.0))
            return f"{np.count_nonzero(differing)} of {a.size} numbers ({key}) differ, by up to {most:.2g}"
    return ""


def _chosen(headers: Mapping[int, Header]) -> int | None:
    r"""Returns a block to check, or none if that would take more than its share this time."""
    block = _chance.choice(sorted(headers))
    total, cost = sum(one.seconds for one in headers.values()), headers[block].seconds
    return block if cost * _chance.random() < max(SHARE * total, FLOOR) else None


def _spaced(blocks: range) -> Sequence[int]:
    return blocks if len(blocks) <= SURVEYED else np.linspace(0, len(blocks) - 1, SURVEYED).astype(int).tolist()


def _count(setup: Setup, blocks: Iterable[int], looked: Sequence[int]) -> int:
    found = sum(map(setup.count, blocks))
    return found if len(looked) == len(setup.blocks) else round(found * len(setup.blocks) / len(looked))


def _not_checked(what: str, seconds: float) -> str:
    return (
        f"{what} from the store was not checked this time: a block takes {seconds:.0f} s, more than {SHARE:.0%} of "
        "what is reused"
    )


def check_task(setup: Setup, reuse: Reuse) -> None:
    r"""Checks the stored fiducials and reference samples of a task; renews its generation if they are others now."""

    looked = _spaced(setup.blocks)
    for kind in ("fiducials", "reference"):
        more = {"samples": setup.samples} if kind == "reference" else {}
        found = {b: header for b in looked if (header := setup.store.look(setup.spec(kind, b, **more))) is not None}
        if not found:
            continue
        block = _chosen(found)
        why = _edited(found.values())
        if not why and block is None:
            reuse.doubt(_not_checked(kind, max(one.seconds for one in found.values())))
        elif not why and block is not None:
            stored = setup.store.get(setup.spec(kind, block, **more))
            if kind == "fiducials":
                fresh = draw_fiducials(setup, block)
            else:
                fresh = reference_samples(setup, block, simulate(setup, block)).to_arrays()
            difference = unlike(stored, fresh) if stored is not None else ""
            made = ago(found[block].made)
            why = f"block {block} of its {kind}, made {made}, {_differs(difference)}" if difference else ""
        if why:
            setup.renew("task")
            reuse.found.clear()
            reuse.checked.clear()
            reuse.doubt(f"the store is not believed for task {setup.name!r}: {why}; everything is made anew")
            return
        reuse.checked += [(kind, "")] if block is not None else []
        reuse.found[kind, ""] = (_count(setup, found, looked), min(one.made for one in found.values()))


def _differs(difference: str) -> str:
    return f"comes out differently ({difference}), so {WHY}"


def _edited(headers: Iterable[Header]) -> str:
    r"""Says which of the files that blocks were made of is another one now; nothing if none is."""
    reads: dict[str, str] = {}
    for header in headers:
        for path, content in header.facts.get("reads", {}).items():
            if reads.setdefault(path, content) != content:
                return f"{path}, which it reads, was edited while blocks were made"
    path = changed(reads)
    return "" if path is None else f"{path}, which it reads, has changed"


def _check_fit(setup: Setup, name: str) -> tuple[str, dict[str, str], str]:
    r"""Makes the first simulations of a training and the first samples of its state anew."""
    try:
        stored = setup.store.get(setup.fit_spec(name))
        if stored is None:
            return name, {}, ""
        before = {key: value for key, value in stored.items() if key.startswith(PROBE)}
        state = {key: value for key, value in stored.items() if not key.startswith(PROBE)}
        difference = unlike(before, probe(setup, name, state))
        return name, {"": difference} if difference else {}, ""
    except Exception as error:
        return name, {"": reason_of(error).splitlines()[0]}, ""


def check_fits(setup: Setup, engine: Engine, reuse: Reuse, check: bool = True) -> None:
    r"""Checks stored trainings, and renews the generation of those that would be others now."""

    found = {name: header for name in setup.trainings if (header := _fit_header(setup, name)) is not None}
    edited = {name: why for name, header in found.items() if check and (why := _edited([header]))}
    # A trainer's data are a part of its key, and what is sampled from its weights is checked with its candidates.
    simulated = [name for name in found if name not in edited and not is_trainer(setup.trainer(name))]
    results = _results(engine, _check_fit, [(setup, name) for name in simulated] if check else [])
    differing = {name: differs | ({"": reason} if reason else {}) for name, differs, reason in results}
    for name, header in found.items():
        if name not in edited and not differing.get(name):
            reuse.found[TRAINING, name] = (0, header.made)
            reuse.checked += [(TRAINING, name)] if name in differing else []
            continue
        setup.renew("fit", name)
        why = edited.get(name) or f"a simulation or a sample of it {_differs(differing[name][''])}"
        reuse.doubt(
            f"the store is not believed for the training of candidate {name!r}, made {ago(header.made)}: {why}; "
            "it is trained anew"
        )


def _fit_header(setup: Setup, name: str) -> Header | None:
    if name not in setup.candidates:
        return None
    return setup.store.look(setup.fit_spec(name, getattr(setup.candidates[name], "at", None)))


def _check(
    setup: Setup, name: str, block: int, fiducials: Fiducials, scaling: Scaling, keys: Sequence[str]
) -> tuple[str, dict[str, str], str]:
    r"""Makes a block of a candidate anew; returns what differs (its samples, or records by metric), or a failure."""
    try:
        stored = {key: setup.store.get(setup.record_spec(name, block, key)) for key in keys}
        before = [h.facts.get("samples") for key in keys if (h := setup.store.look(_spec(setup, name, block, key)))]
        samples = setup.store.get(setup.samples_spec(name, block))
        draws, content, outcomes = remake(setup, name, block, fiducials, scaling, keys)
        if samples is not None and (difference := unlike(samples, draws.to_arrays())):
            return name, {"": difference}, ""
        if any(one not in (None, content) for one in before):
            return name, {"": "other samples from the same seed"}, ""
        differing = {}
        for key, old in stored.items():
            new = outcomes[key]
            difference = new if isinstance(new, str) else unlike(old, new) if old is not None else ""
            if difference:
                differing[key] = difference
        return name, differing, ""
    except Exception as error:
        return name, {}, reason_of(error)


def _spec(setup: Setup, name: str, block: int, key: str) -> dict[str, Any]:
    return setup.record_spec(name, block, key) if key else setup.samples_spec(name, block)


def check_candidates(
    setup: Setup, parts: Sequence[Fiducials], scaling: Scaling, engine: Engine, reuse: Reuse, check: bool = True
) -> dict[str, str]:
    r"""Checks what the store has of the candidates, and renews the generation of what is another one now.

    Returns:
        The candidates that failed when a block was made anew, with the reason.
    """

    looked = _spaced(setup.blocks)
    units: list[tuple[Setup, str, int, Fiducials, Scaling, list[str]]] = []
    stored: dict[str, dict[str, dict[int, Header]]] = {}
    for name in setup.candidates:
        found: dict[str, dict[int, Header]] = {}
        for key in ("", *setup.metrics):  # the first one is for kept samples
            specs = {b: _spec(setup, name, b, key) for b in looked}
            found[key] = {b: header for b, spec in specs.items() if (header := setup.store.look(spec)) is not None}
        stored[name] = found
        why = _edited(header for kind in found.values() for header in kind.values()) if check else ""
        if why:
            stored[name] = {}
            setup.renew("candidate", name)
            reuse.doubt(f"the store is not believed for candidate {name!r}: {why}; its blocks are made anew")
        elif check:
            units += [(setup, name, b, parts[b], scaling, keys) for b, keys in _blocks(name, found, reuse)]
    failures: dict[str, str] = {}
    differing: dict[str, dict[str, str]] = {}
    for name, differs, reason in _results(engine, _check, units):
        differing.setdefault(name, {}).update(differs)
        if reason:
            log.error("candidate %s could not be made anew to check the store: %s", name, reason)
            failures[name] = (
                f"{reason.splitlines()[0]} (when a stored block was made anew; store.check=false does without)"
            )
    for name, differs in differing.items():
        if "" in differs:
            setup.renew("candidate", name)
            reuse.doubt(
                f"the store is not believed for candidate {name!r}: a stored block {_differs(differs[''])}; its blocks "
                "are made anew"
            )
            stored[name] = {}
            continue
        for key, difference in differs.items():
            setup.renew("record", name, key)
            stored[name][key] = {}
            reuse.doubt(
                f"the store is not believed for metric {key!r} of candidate {name!r}: a stored record "
                f"{_differs(difference)}; its records are made anew"
            )
    for name, kinds in stored.items():
        whole = [kinds.get(key, {}) for key in setup.metrics]
        blocks = set.intersection(*map(set, whole)) if whole else set()
        if blocks and name not in failures:
            made = min(headers[b].made for headers in whole for b in blocks)
            reuse.found["scores", name] = (_count(setup, blocks, looked), made)
            reuse.checked += [("scores", name)] if name in differing else []
    return failures


def _blocks(name: str, found: Mapping[str, Mapping[int, Header]], reuse: Reuse) -> Iterator[tuple[int, list[str]]]:
    r"""Chooses blocks that between them have every metric of which something is stored."""
    waiting = {key for key, headers in found.items() if headers}
    while waiting:
        most = max(sum(b in found[key] for key in waiting) for key in waiting for b in found[key])
        full = {b for key in waiting for b in found[key] if sum(b in found[other] for other in waiting) == most}
        headers = {b: next(found[key][b] for key in sorted(waiting, reverse=True) if b in found[key]) for b in full}
        block = _chosen(headers)
        if block is None:
            reuse.doubt(_not_checked(f"candidate {name!r}", max(one.seconds for one in headers.values())))
            return
        covered = {key for key in waiting if block in found[key]}
        yield block, sorted(covered - {""})
        waiting -= covered


def _results(
    engine: Engine, function: Callable[..., Any], units: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[str, dict[str, str], str]]:
    r"""Runs checks of candidates, whose names are second in their calls."""
    done: set[int] = set()

    def calls(names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for i, unit in enumerate(units):
            if unit[1] in names and i not in done:
                yield function, i, unit

    for result in engine.map_named(
        _numbered, calls, list(dict.fromkeys(unit[1] for unit in units)), "checking the store"
    ):
        if isinstance(result, Died):
            yield result.name, {}, result.reason
        else:
            done.add(result[0])
            yield result[1]


def _numbered(function: Callable[..., Any], number: int, unit: tuple[Any, ...]) -> tuple[int, Any]:
    return number, function(*unit)

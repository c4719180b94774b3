r"""The verb `score`: files of samples in, the folder of a run out."""

__all__ = ["main", "score_files"]

import argparse
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..adapters.files import Files
from ..config import identify_files, make
from ..errors import UsageError
from ..layouts import LAYOUTS
from ..metric import Metric
from ..metrics import DEFAULT, choose_metrics
from ..ranking.tiers import RANKINGS
from ..ranks.scaling import NORMALIZATIONS
from ..report.folder import conclude, held_log, logging_to, save_config
from ..report.outputs import LOOKS, check_folder

log = logging.getLogger("mira_bench")

EXAMPLES = """\
examples
  mira-bench score truths.npy npe=npe.npy mcmc=chains.nc --names Om,s8
  mira-bench score truths.csv npe=npe.parquet --bounds=-5,5
  mira-bench score run.h5:truths npe=run.h5:npe --layout SLd --out here
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mira-bench score",
        usage="mira-bench score truths name=file [name=file ...] [options]",
        description="Scores and ranks samples that are already in files: npy, npz, csv, csv.gz,\n"
        "parquet, pt, safetensors, h5, nc. One array of several is written file:key.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("truths", help="the truths, (L, *event)")
    parser.add_argument("candidates", nargs="+", metavar="name=file", help="the samples of a candidate, (L, S, *event)")
    parser.add_argument("--x", metavar="FILE", help="the observations, for metrics that look at them")
    parser.add_argument(
        "--names",
        type=_words,
        metavar="A,B",
        help="the parameters to take, or what to call those of arrays; A=a is what some file calls a",
    )
    parser.add_argument("--layout", choices=LAYOUTS, help="fiducials (by default) or samples first")
    parser.add_argument("--fiducial", metavar="NAME", help="the fiducials' column (csv, parquet) or dimension (nc)")
    parser.add_argument(
        "--normalize",
        default="auto",
        choices=NORMALIZATIONS,
        metavar="SCALE",
        help=f"the scale of distances: {', '.join(NORMALIZATIONS)}",
    )
    parser.add_argument(
        "--bounds",
        type=_bounds,
        metavar="LOW,HIGH",
        help="the prior box; or a file with a row (name,) low, high per parameter",
    )
    parser.add_argument("--regions", type=int, default=100, help="random balls per truth (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of centers, ties and tests (default: 0)")
    parser.add_argument(
        "--rank-by",
        default="tiers",
        choices=[r for r in RANKINGS if r != "log"],
        help="tiers: by energy score, and by tier where that does not separate (default); energy alone; tiers_first; "
        "mira, the paper's order",
    )
    parser.add_argument(
        "--metrics", type=_words, metavar="A,B", help="by default mira, calibration, tarp, sbc, energy, c2st, mmd"
    )
    parser.add_argument("--thin", action="store_true", help="thin all candidates to the smallest S")
    parser.add_argument("--thin-to", type=int, dest="thin", metavar="S", help="thin those that have more samples to S")
    parser.add_argument("--style", default="paper", choices=LOOKS, help="the look of the figures (default: paper)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: results/runs/score/<time>")
    return parser


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _bounds(text: str) -> str | list[float]:
    try:
        low, high = (float(word) for word in text.split(","))
    except ValueError:
        return text  # a file
    return [low, high]


def _candidates(words: Sequence[str]) -> dict[str, str]:
    candidates: dict[str, str] = {}
    for word in words:
        name, equals, source = word.partition("=")
        if not (name and equals and source):
            raise UsageError(f"{word!r} is not a candidate: write name=file, for example npe=npe.npy")
        if name in candidates:
            raise UsageError(f"candidate {name!r} is given twice: {candidates[name]} and {source}")
        candidates[name] = source
    return candidates


def _joined(arguments: Sequence[str]) -> list[str]:
    # argparse takes the -5,5 of `--bounds -5,5` for an option.
    words = list(arguments)
    for i in range(len(words) - 1, 0, -1):
        if words[i - 1] == "--bounds":
            words[i - 1 : i + 1] = [f"--bounds={words[i]}"]
    return words


def _stamps(hashes: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    stats = {path: Path(path).stat() for path in hashes if Path(path).exists()}
    return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}


def score_files(
    files: Files,
    metrics: Mapping[str, Metric],
    out: Path,
    settings: Any,
    *,
    task: str,
    seed: int,
    rank_by: str,
    style: str = "paper",
    fresh: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> int:
    r"""Scores files, writes the folder and returns the exit code.

    The folder is opened when there is something to put into it: what cannot be scored leaves it as it was, its log
    included.

    Arguments:
        files: The files of truths and samples.
        metrics: The metrics that look at the files, by name.
        out: The folder in which the results are left.
        settings: What `config.yaml` is to say.
        task: The name of the task.
        seed: The seed of centers, ties and tests.
        rank_by: The rule of the ranking.
        style: The look of the figures.
        fresh: Whether the folder must be a new one.
        facts: What identifies the files, if that is known already; see `settings.Prepared.facts`.
    """

    check_folder(out)
    start = time.perf_counter()
    if facts is None:
        content, hashes = identify_files(files, metrics)
        facts = {"identity": content, "files": hashes}
    before = _stamps(facts["files"])
    with held_log() as held:
        log.info("truths %s, candidates %s, seed %s", files.truths, dict(files.candidates), seed)
        try:
            result = files.score(metrics=metrics, seed=seed, rank_by=rank_by).in_style(style)
        except UsageError:
            raise
        except Exception:
            with logging_to(out, fresh=fresh, held=held):
                raise
    after = _stamps(facts["files"])
    edited = next((path for path in before if before[path] != after.get(path)), None)
    if edited is not None:
        raise UsageError(f"{edited} was edited while it was scored: start again")
    with logging_to(out, fresh=fresh, held=held) as folder:
        if "out" in settings:
            settings["out"] = folder.as_posix()
        save_config(settings, folder)
        conclude(result, folder, task, time.perf_counter() - start, facts)
    return 1 if result.failures else 0


def _metrics(asked: argparse.Namespace, configs: str | None) -> dict[str, Metric]:
    r"""The metrics that are asked for, those among them that the user has a config of."""
    from omegaconf import OmegaConf

    names: list[Any] = list(DEFAULT if asked.metrics is None else asked.metrics)
    for i, name in enumerate(names):
        file = Path(configs or "", "metric", f"{name}.yaml")
        if configs is not None and file.is_file():
            settings = {"regions": asked.regions, "normalize": asked.normalize, "seed": asked.seed}
            names[i] = make(OmegaConf.create(settings | {"metric": OmegaConf.load(file)}).metric)
    return choose_metrics(names, asked.regions, asked.normalize)


def main(arguments: Sequence[str], configs: str | None = None) -> int:
    r"""Runs the verb and returns its exit code.

    Arguments:
        arguments: The words after the verb.
        configs: A folder of the user's own configs, in which metrics are found.
    """

    asked = _parser().parse_intermixed_args(_joined(arguments))
    metrics = _metrics(asked, configs)
    files = Files(
        truths=asked.truths,
        candidates=_candidates(asked.candidates),
        x=asked.x,
        names=asked.names,
        layout=asked.layout,
        fiducial=asked.fiducial,
        bounds=asked.bounds,
        thin=asked.thin,
    )
    out = asked.out or Path("results", "runs", "score", time.strftime("%Y-%m-%d_%H-%M-%S"))
    settings = vars(files) | {"normalize": asked.normalize, "regions": asked.regions, "seed": asked.seed}
    settings |= {"rank_by": asked.rank_by, "metrics": list(metrics)}
    return score_files(
        files,
        metrics,
        out,
        settings,
        task="score",
        seed=asked.seed,
        rank_by=asked.rank_by,
        style=asked.style,
        fresh=asked.out is None,
    )

r"""The command line: no verb is a Hydra run, verbs are for the rest."""

__all__ = ["main"]

import gc
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import RunError, UsageError

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger("mira_bench")

OK, FAILED, USAGE = 0, 1, 2

HELP = """\
mira_bench: which of these posteriors can I trust, and by how much is it better than the next one?

  python -m mira_bench [run] [key=value ...]   simulate, sample, score and rank (a Hydra run)
  python -m mira_bench score truths.npy npe=npe.npy mcmc=mcmc.h5 ...   samples that exist already (score --help)
  python -m mira_bench -m key=a,b ...          a sweep: every combination is a job (a comma separates values)
  python -m mira_bench collect DIR ...         runs of sweeps and machines in one table, leaderboard and figure
  python -m mira_bench list [tasks|candidates|metrics|experiments]
  python -m mira_bench store [list|prune] ...  what the store holds, and how to empty it
  python -m mira_bench plan --width 0.1 ...    how many fiducials are needed to see an error of this size
  python -m mira_bench reference task=slcp ... reference samples of a task's posterior, made ahead and kept
  python -m mira_bench paper [ID ...|all] [--quick]   the paper's tables and figures: their status, or made again

Examples
  python -m mira_bench                                         the Gaussian toy of the paper
  python -m mira_bench task=gaussian fiducials=200 'candidates=[correct,biased]' workers=2
  python -m mira_bench task=conjugate metric.mira.normalize=none out=results/mine seed=1
  python -m mira_bench task=mine task.file=sim.py 'candidates=[npe,nle,mine.py:build]' budget=10000 dry=true

Keys that every task takes
  fiducials= samples= regions= seed= candidates=[..] metrics=[..] normalize= workers= device=
  rank_by= (tiers: by energy score, and by tier where that does not separate; energy, log, tiers_first, mira)
  budget= (simulations to train on) seeds= (trainings of each network)
  out= sweep= store= store.check= keep_samples= progress= dry=true (print the cost first), experiment=,
  and metric.<name>.<setting>=
"""


# The file of each verb, beside this one.
VERBS = {
    "list": "listing", "store": "store", "score": "score", "plan": "plan", "paper": "paper", "reference": "reference",
    "collect": "collect",
}  # fmt: skip


def _verb(name: str, arguments: Sequence[str]) -> int:
    verb = import_module(f".{VERBS[name]}", __package__).main
    _begin()
    return verb(arguments, _hydra) if name == "paper" else verb(arguments)


def _begin() -> None:
    r"""Ends what `main` began: from here on garbage is looked for, but not in what was imported."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _run(
    cfg: "DictConfig", out: Path, task_name: str, overrides: Sequence[str], fresh: bool, tell: Callable[[str], None]
) -> int:
    r"""Does a run or a study.

    Arguments:
        cfg: The config of the run.
        out: The folder in which the run leaves its results.
        task_name: The name of the task.
        overrides: What was given on the command line.
        fresh: Whether the folder must be a new one.
        tell: Is told the fingerprint of the run when it is known.
    """
    from ..config import asked, prepare
    from ..report.folder import conclude, logging_to, save_config
    from ..report.outputs import copy_code
    from ..runner.run import perform

    prepared = prepare(cfg, task_name, overrides)  # before the folder: bad usage leaves nothing behind
    tell(prepared.fingerprint)
    if prepared.files is not None:
        from .score import score_files

        of_run = {"task": task_name, "seed": cfg.seed, "rank_by": cfg.rank_by}
        return score_files(prepared.files, prepared.metrics, out, cfg, **of_run, fresh=fresh, facts=prepared.facts)
    assert prepared.asked is not None
    task = prepared.asked.task
    with logging_to(out, fresh=fresh) as out:
        cfg.out = out.as_posix()
        save_config(cfg, out)
        facts = prepared.facts | {"copies": copy_code(out, prepared.code)}
        log.info("task %s: %s fiducials, %s samples, seed %s", task_name, cfg.fiducials, cfg.samples, cfg.seed)
        if hasattr(task, "style"):
            print(f"The simulator of {task_name} takes {task.style}.")
        start = time.perf_counter()
        if cfg.task.get("note") and cfg.fiducials == cfg.task.fiducials:
            print(cfg.task.note)
        if cfg.study is not None:
            from hydra.core.hydra_config import HydraConfig

            from ..sweeps.study import study

            runs, failures = study(cfg, out, task_name, asked, facts)
            if cfg.paper is not None:
                from omegaconf import OmegaConf

                from ..paper.folder import write_item

                section: Any = OmegaConf.to_container(cfg.paper, resolve=True)
                write_item(HydraConfig.get().runtime.choices["experiment"], section, runs, out)
            return FAILED if failures else OK
        result = perform(*prepared.asked)
        conclude(result, out, task_name, time.perf_counter() - start, facts)
        return FAILED if result.failures else OK


def _hydra(arguments: Sequence[str]) -> int:
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    from ..config import check_files, settle
    from ..sweeps.composing import composed_once
    from ..sweeps.dry import dry_run
    from ..sweeps.jobs import key_of
    from ..sweeps.sweeper import Command, do_job, hydra_words, is_sweep
    from .keys import check, explain, found_configs

    # The store is a path, so a key below it needs another name.
    arguments = [re.sub(r"^store\.check=", "check_store=", word) for word in arguments]
    check(arguments)
    command = Command(list(arguments))
    arguments = [*arguments, *found_configs(arguments)]
    codes = command.codes

    @hydra.main(version_base="1.3", config_path="pkg://mira_bench.configs", config_name="config")
    def job(cfg: "DictConfig") -> int:
        settings = HydraConfig.get()
        settle(cfg, settings.mode == RunMode.MULTIRUN)
        task_name, overrides = settings.runtime.choices["task"], settings.overrides.task
        sweeping = settings.mode == RunMode.MULTIRUN
        inside = sweeping and not any(key_of(override) == "out" for override in overrides)
        out = Path(settings.runtime.output_dir if inside else cfg.out)
        # A name that comes from the clock stands for a folder of this run alone.
        fresh = not inside and "${now:" in str(OmegaConf.to_container(OmegaConf.masked_copy(cfg, "out")))

        def work(tell: Callable[[str], None]) -> int:
            if cfg.dry:
                check_files(cfg, task_name, overrides)
                return dry_run(cfg, task_name)
            return _run(cfg, out, task_name, overrides, fresh, tell)

        if sweeping and not cfg.dry:
            store = None if cfg.store is None else Path(cfg.store)
            return do_job(work, Path(settings.runtime.output_dir), out, store, task_name, overrides)
        codes.append(FAILED)  # stands if the job dies
        codes[-1] = _guard(lambda: work(lambda fingerprint: None))
        return codes[-1]

    # Hydra would take normal(-5,1) for a function of its own.
    law = re.compile(r"(metric\.\w+\.(?:centers|distance))=(\w+\(.*\))")
    words = [law.sub(r'\1="\2"', a) if law.fullmatch(a) else a for a in arguments]
    words.sort(key=lambda word: word not in ("-m", "--multirun"))  # between settings, Hydra would not read the rest
    sys.argv = [sys.argv[0], *(hydra_words(command, words) if is_sweep(words) else words)]
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors are raised, and ours to explain
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # schedulers interrupt so
    _begin()
    try:
        with composed_once(words):
            job()
    except HydraException as error:
        raise UsageError(explain(error)) from error
    except SystemExit as stop:
        return int(stop.code or 0) if not codes else max(codes)
    return max(codes, default=OK)


def _guard(work: Any) -> int:
    r"""Turns errors that name their culprit into a sentence and an exit code."""
    from omegaconf.errors import OmegaConfBaseException

    try:
        return int(work())
    except UsageError as error:
        print(f"mira_bench: {error}", file=sys.stderr)
        return USAGE
    except RunError as error:
        print(f"mira_bench: {error}", file=sys.stderr)
        return FAILED
    except OmegaConfBaseException as error:
        print(f"mira_bench: the config is not complete: {' '.join(str(error).split())}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("mira_bench: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return FAILED


def _look_here() -> None:
    r"""Puts the working directory on the path, where a user's modules are: `python -m` does it, a script does not."""
    if not getattr(sys.flags, "safe_path", False) and os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())


def main(arguments: Sequence[str] | None = None) -> int:
    r"""Runs the command line and returns the exit code: 0, 1 if something failed, 2 for bad usage."""

    if arguments is None:
        _look_here()
        gc.disable()  # imports leave next to no garbage, and to look for it takes a tenth of a short run
        arguments = sys.argv[1:]
    try:
        code = _answer(list(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # who read it, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain on its way out
        return FAILED


def _answer(arguments: list[str]) -> int:
    verb, words = (arguments[0], arguments[1:]) if arguments else ("run", [])
    if verb in VERBS:
        return _guard(lambda: _verb(verb, words))
    if verb == "run":
        return _guard(lambda: _hydra(words))
    if any(a in ("-h", "--help", "help") for a in arguments):
        from .listing import listing

        print(HELP)
        print(listing())
        return OK
    if "--version" in arguments:
        print(f"mira_bench {__version__}")
        return OK
    if not verb.startswith("-") and "=" not in verb:
        print(f"mira_bench: there is no verb {verb!r}; there are: {', '.join([*VERBS, 'run'])}", file=sys.stderr)
        print("Settings are written key=value, for example task=gaussian. See --help.", file=sys.stderr)
        return USAGE
    return _guard(lambda: _hydra(arguments))

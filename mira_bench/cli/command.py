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
from .keys import without_config_dir

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger("mira_bench")

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

HELP = """\
mira_bench: which of these posteriors can I trust, and by how much is it better?

  python -m mira_bench [key=value ...]       simulate, sample, score and rank
  python -m mira_bench -m key=a,b ...        a sweep: every combination is a job

Verbs, each with --help
  run        the same as no verb; run --help has all keys
  score      truths.npy npe=npe.npy mcmc=mcmc.h5: samples that exist already
  collect    DIR ...: runs of sweeps and machines in one table and figure
  report     DIR ...: the page of a run again, or one page for several runs
  referee    DIR: a paragraph, a figure and the citation for a referee
  export     DIR NAME: the network that a run trained, to be used
  list       tasks, candidates, metrics or experiments
  store      what the store holds, and how to empty it
  plan       how many fiducials are needed to see an error of this size
  reference  samples of a task's exact posterior, made ahead and kept
  paper      the paper's tables and figures: their status, or made again

Examples
  python -m mira_bench                       the Gaussian toy of the paper
  python -m mira_bench fiducials=200 'candidates=[correct,biased]' dry=true
  python -m mira_bench task=mine task.file=sim.py 'candidates=[npe,my.py:build]'
"""

RUN_HELP = """\
python -m mira_bench [run] [key=value ...]

Simulates, samples, scores and ranks: a Hydra run. Keys that every task takes:
  task=         the problem, see `list tasks`; task=mine is your own simulator
  candidates=   'candidates=[npe,nle,mine.py:build]'; by default the task's own
  metrics=      'metrics=[mira,energy]'; metric.<name>.<setting>= changes one
  fiducials= samples= regions= seed= normalize= views= controls=
  rank_by=      tiers: by energy score, by tier where that does not separate;
                energy, log, tiers_first; or mira, the paper's order
  budget=       simulations to train on; seeds= trainings of each network;
                fit.minutes= how long a training may take in this run
  workers=      processes; parallel.backend= parallel.address= device=
  out= sweep= store= store.check= keep_samples= progress= style= experiment=
  dry=true      says what it would cost, and does nothing
  --config-dir  a folder of your own configs: task/, candidate/, metric/

Examples
  python -m mira_bench task=conjugate metric.mira.normalize=none out=here seed=1
  python -m mira_bench task=two_moons 'candidates=[npe,nle]' budget=2000
  python -m mira_bench -m task=gaussian,conjugate seed=0,1,2
"""


# The file of each verb, beside this one.
VERBS = {
    "list": "listing", "store": "store", "score": "score", "plan": "plan", "paper": "paper", "reference": "reference",
    "collect": "collect", "export": "export", "report": "report", "referee": "referee",
}  # fmt: skip


def _verb(name: str, arguments: Sequence[str]) -> int:
    if name == "score" and not {"-h", "--help"} & set(arguments):
        _say_loading(arguments)
    verb = import_module(f".{VERBS[name]}", __package__).main
    _begin()
    words, folder = without_config_dir(arguments)
    if name == "paper":
        return verb(words, lambda run: _hydra([*(["--config-dir", folder] if folder else []), *run]))
    if name in ("list", "reference", "score"):
        return verb(words, folder)
    if folder is not None:  # no reason to refuse it: it may be in an alias
        print(f"note: --config-dir {folder} has no effect on {name}, which looks up no configs", file=sys.stderr)
    return verb(words)


def _verb_first(arguments: list[str]) -> list[str]:
    r"""Puts a verb in front of the folder of configs that was named before it."""
    at = 2 if arguments[:1] == ["--config-dir"] else 1 if arguments and arguments[0].startswith("--config-dir=") else 0
    if at and len(arguments) > at and arguments[at] in (*VERBS, "run"):
        return [arguments[at], *arguments[:at], *arguments[at + 1 :]]
    return arguments


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
    from ..report.outputs import check_style, copy_code
    from ..runner.run import perform

    check_style(cfg.style)
    prepared = prepare(cfg, task_name, overrides)  # before the folder: bad usage leaves nothing behind
    tell(prepared.fingerprint)
    if prepared.files is not None:
        from .score import score_files

        of_run = {"task": task_name, "seed": cfg.seed, "rank_by": cfg.rank_by, "style": cfg.style}
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
        result = perform(*prepared.asked).in_style(cfg.style)
        conclude(result, out, task_name, time.perf_counter() - start, facts)
        return FAILED if result.failures else OK


def _say_loading(arguments: Sequence[str]) -> None:
    r"""Says on a terminal what the first seconds are for."""
    if sys.stderr.isatty() and "progress=false" not in arguments:
        print("mira_bench: loading libraries ...", file=sys.stderr, flush=True)


def _hydra(arguments: Sequence[str]) -> int:
    _say_loading(arguments)
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
        if not str(cfg.out or "").strip():
            raise UsageError("out= is empty: name the folder of the results")
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
        return INTERRUPTED


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
    arguments = _verb_first(arguments)
    verb, words = (arguments[0], arguments[1:]) if arguments else ("run", [])
    if verb in VERBS:
        return _guard(lambda: _verb(verb, words))
    asks = any(a in ("-h", "--help", "help") for a in arguments)
    if verb == "run" and not asks:
        return _guard(lambda: _hydra(words))
    if asks:
        print(RUN_HELP if verb == "run" else HELP, end="")
        return OK
    if "--version" in arguments:
        print(f"mira_bench {__version__}")
        return OK
    if not verb.startswith("-") and "=" not in verb:
        print(f"mira_bench: there is no verb {verb!r}; there are: {', '.join([*VERBS, 'run'])}", file=sys.stderr)
        print("Settings are written key=value, for example task=gaussian. See --help.", file=sys.stderr)
        return USAGE
    return _guard(lambda: _hydra(arguments))

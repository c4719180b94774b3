r"""Keys of the command line that nothing reads are refused, with the one that was meant or all that exist."""

__all__ = ["check", "explain", "found_configs", "without_config_dir"]

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from ..errors import UsageError


def check(arguments: Sequence[str]) -> None:
    r"""Refuses unknown keys of the top level. Hydra would advise to add them with a plus, and then nothing happens."""
    text = (resources.files("mira_bench.configs") / "config.yaml").read_text(encoding="utf-8")
    known = [*re.findall(r"^(\w+):", text, re.M), "task", "metric", "candidate", "experiment"]
    for argument in arguments:
        key = re.match(r"[+~]*([A-Za-z_]\w*)[^=]*=", argument)
        if key and not argument.startswith("-") and key[1] not in known:
            raise UsageError(f"there is no key {key[1]!r}; {_hint(key[1], known)}")


def found_configs(arguments: Sequence[str]) -> list[str]:
    r"""Returns the settings that add the metrics and candidates of the user's `--config-dir` to those that exist."""
    words = [word for argument in arguments for word in argument.split("=", 1 if argument.startswith("--") else 0)]
    folders = [Path(after) for word, after in itertools.pairwise(words) if word in ("--config-dir", "-cd")]
    found = []
    for group in ("metric", "candidate"):
        for file in (path for folder in folders for path in sorted((folder / group).glob("*.yaml"))):
            entry = f"{group}@{group}.{file.stem}={file.stem}"
            ours = (resources.files("mira_bench.configs") / group / file.name).is_file()
            if not ours and not any(argument.lstrip("+").startswith(entry) for argument in arguments):
                found.append(f"+{entry}")
    return found


def without_config_dir(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    r"""Separates `--config-dir DIR`, Hydra's key, from the words of a verb."""
    words, folder = list(arguments), None
    for i, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key == "--config-dir":
            if not equals and i + 1 == len(words):
                raise UsageError("--config-dir needs a folder")
            folder = value if equals else words[i + 1]
            del words[i : i + (1 if equals else 2)]
            break
    if folder is not None and not Path(folder).is_dir():
        raise UsageError(f"--config-dir {folder}: there is no such folder")
    return words, folder


def explain(error: Exception) -> str:
    r"""Returns what Hydra has against a config, with the keys that exist beside one that does not."""
    from hydra.errors import MissingConfigException
    from omegaconf import DictConfig
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, KeyValidationError

    if isinstance(error, MissingConfigException) and error.options:
        file = str(error.missing_cfg_file)
        group, _, name = file.rpartition("/") if file.startswith("hydra/") else file.partition("/")
        return f"there is no {group} {name!r}; {_hint(name, error.options)}"
    cause = error.__cause__
    if isinstance(cause, ConfigAttributeError | ConfigKeyError) and isinstance(cause.parent_node, DictConfig):
        path = str(cause.full_key)
        known = [str(key) for key in cause.parent_node if key not in ("_target_", "_partial_")]
        parent, _, key = path.rpartition(".")
        hint = _hint(key, known, f"{parent}.") if known else f"{parent!r} has no keys of its own"
        return f"there is no key {path!r}; {hint}"
    if isinstance(cause, KeyValidationError):
        what = str(error).splitlines()[0].removeprefix("Error merging override ")
        return f"{what}: a key is no name but a value; put the name in quotes in a YAML file, or use another"
    return "\n".join(line.rstrip() for line in str(error).splitlines() if line.strip())


def _hint(key: str, known: Iterable[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(key, known := sorted(known), n=1)
    return f"did you mean '{prefix}{close[0]}'?" if close else f"there are: {', '.join(known)}"

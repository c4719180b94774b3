r"""What we need of Hydra's inside, and only here: its grid of jobs, and a config that is not composed twice.

Hydra reads every file of a config again for every job of a sweep. What it makes of the choices (`task=`, `experiment=`,
...) is the same as long as these are: only the values that were given beside them are put in anew.
"""

__all__ = ["BasicSweeper", "composed_once"]

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra.core.plugins import Plugins

Plugins.instance()  # its first use executes the module of BasicSweeper again, and would leave us with an old class
from hydra._internal import config_loader_impl  # noqa: E402
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # noqa: E402
from hydra._internal.hydra import Hydra  # noqa: E402

if TYPE_CHECKING:
    from omegaconf import DictConfig

_inside: Any = config_loader_impl
_list_defaults = _inside.create_defaults_list
_compose = _inside.ConfigLoaderImpl._compose_config_from_defaults_list
_lists: dict[Any, Any] = {}  # what choices stand for
_configs: "dict[int, DictConfig]" = {}  # by the identity of such a list


def _known_defaults(repo: Any, config_name: str, overrides_list: list[Any], **how: bool) -> Any:
    r"""Hydra's list of the files of a config: that of before if the choices are, and no file can have changed."""
    sources = tuple((source.scheme(), source.path) for source in repo.get_sources())
    if not all(scheme in ("pkg", "structured") for scheme, _ in sources):
        return _list_defaults(repo, config_name, overrides_list, **how)
    given = [one for one in overrides_list if not one.is_sweep_override()]
    values = [one for one in given if isinstance(one.value(), dict) or not repo.group_exists(one.key_or_group)]
    choices = [one for one in given if not any(one is value for value in values)]
    key = (sources, config_name, *how.items(), *(one.input_line for one in choices))
    if key not in _lists:
        _lists[key] = _list_defaults(repo, config_name, choices, **how)
    return replace(_lists[key], config_overrides=values)


def _known_config(loader: Any, defaults: list[Any], repo: Any) -> "DictConfig":
    if not any(known.defaults is defaults for known in _lists.values()):
        return _compose(loader, defaults, repo)
    if id(defaults) not in _configs:
        _configs[id(defaults)] = _compose(loader, defaults, repo)
    return copy.deepcopy(_configs[id(defaults)])


@contextmanager
def composed_once(words: Sequence[str]) -> Iterator[None]:
    r"""Lets Hydra compose what it has not composed before.

    It is also spared the look for `hydra.mode`, which composes the whole config: only a user's own can say it.

    Arguments:
        words: The words of the command.
    """

    own = any(word.startswith("-") and word not in ("-m", "--multirun") for word in words)
    own = own or any("hydra.mode" in word or "hydra.searchpath" in word for word in words)
    places: list[tuple[Any, str]] = [
        (_inside, "create_defaults_list"),
        (_inside.ConfigLoaderImpl, "_compose_config_from_defaults_list"),
        (Hydra, "get_mode"),
    ]
    theirs = [getattr(place, name) for place, name in places]

    def unsaid(*_: Any, **__: Any) -> None:
        setattr(*places[-1], theirs[-1])  # a run inside this one may have other words

    for place, ours in zip(places, (_known_defaults, _known_config, theirs[-1] if own else unsaid), strict=True):
        setattr(*place, ours)
    try:
        yield
    finally:
        for place, before in zip(places, theirs, strict=True):
            setattr(*place, before)

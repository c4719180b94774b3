r"""Functions that numba compiles once: machine code is kept on disk, and made again when anything in it has changed.

numba alone looks at the file of a function, not at those of the functions that are inlined into it: after a change of
the latter, the old code would run. Here the key of the kept code knows all that the code is made of.
"""

__all__ = ["compiled"]

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache

P = ParamSpec("P")
R = TypeVar("R")


def compiled(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    r"""Returns a decorator that compiles a function when it is first called, and keeps the machine code on disk.

    Arguments:
        options: Those of `numba.njit`, e.g. `fastmath`. Compiled functions let other threads run.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        dispatcher = njit(nogil=True, **options)(function)
        with suppress(RuntimeError):  # nowhere to write, neither beside the source nor in the user's cache
            dispatcher._cache = _Cache(dispatcher)
        return dispatcher

    return decorate


class _Cache(FunctionCache):
    r"""The cache of a compiled function, whose keys name all that is compiled into it."""

    def __init__(self, dispatcher: Any) -> None:
        super().__init__(dispatcher.py_func)
        self._dispatcher = dispatcher
        self._key()  # reads files: what they say when the function is called may not be what was imported

    def _key(self) -> str:
        return hashlib.sha256("\n".join(sorted(_ingredients(self._dispatcher, set()))).encode()).hexdigest()

    def _index_key(self, sig: Any, codegen: Any) -> tuple:
        return sig, codegen.magic_tuple(), self._key()


@functools.cache
def _contents(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _ingredients(function: Any, seen: set[object]) -> Iterator[str]:
    r"""Yields the options, file and constants of a function, and those of all functions that it calls."""
    code = getattr(function, "py_func", function)
    if code in seen:
        return
    seen.add(code)
    for option, value in getattr(function, "targetoptions", {}).items():
        yield f"{code.__qualname__}: {option} = {sorted(value) if isinstance(value, set) else value}"
    yield f"{code.__qualname__} in {_contents(code.__code__.co_filename)}"
    used = {name: code.__globals__[name] for name in _names(code.__code__) & code.__globals__.keys()}
    used |= {n: cell.cell_contents for n, cell in zip(code.__code__.co_freevars, code.__closure__ or (), strict=True)}
    for name, value in used.items():
        if isinstance(getattr(value, "py_func", value), FunctionType):
            yield from _ingredients(value, seen)
        elif not isinstance(value, ModuleType):
            yield f"{name} = {value.tolist() if isinstance(value, np.ndarray) else value!r}"
        elif value.__name__.startswith(f"{__package__}."):
            yield f"{name} in {_contents(str(value.__file__))}"

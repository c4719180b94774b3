r"""What identifies things that a user brings along: code by what it does, objects by their content.

The running code is looked at, never the text of a file, which may have been edited since: the instructions and
constants of a function, its defaults, what it closes over, and the globals and helpers that it names, which may lie in
other modules of the user. Of a class, all its methods and attributes. Code of Python, of installed packages and of this
package is known by its name: their versions are part of every identity in the store.

What is read while the code runs (a file, an environment variable) is not seen: `canary.py` looks after that.
"""

__all__ = [
    "Fingerprint",
    "describe",
    "digest",
    "edited",
    "fingerprint",
    "hash_arrays",
    "is_library",
    "take_fingerprint",
]

import copyreg
import dataclasses
import functools
import hashlib
import json
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..moved import stable_name

# Attributes of a class that say nothing about its behavior, or say it again.
_BOOKKEEPING = {
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__firstlineno__",
    "__static_attributes__", "__slotnames__", "__match_args__", "__dataclass_fields__", "__dataclass_params__",
    "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__protocol_attrs__", "_is_protocol",
    "__non_callable_proto_members__", "__annotate__", "__annotations_cache__", "__annotate_func__", "__classdictcell__",
}  # fmt: skip


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def is_library(module: str | None) -> bool:
    r"""Whether a module belongs to Python, to an installed package or to this one, and not to the user."""

    top = (module or "__main__").partition(".")[0]
    if top in ("__main__", "__mp_main__"):  # also if Python was started with `-m` and a library
        return False
    if top in sys.stdlib_module_names or top in ("mira_bench", "builtins"):
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None:
        return False
    return file.startswith(_library_folders()) or "site-packages" in file or "dist-packages" in file


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    r"""What identifies a thing.

    Arguments:
        content: The hash of all that it consists of.
        code: The hash of every function of the user's modules in it, by `module:name`. The main script is left out:
            workers get it as it runs.
        files: The files of the user's modules in it.
    """

    content: str
    code: Mapping[str, str]
    files: frozenset[str]


def digest(*arrays: NDArray) -> str:
    r"""Returns the hash of the bytes of arrays."""

    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def hash_arrays(arrays: Mapping[str, NDArray]) -> str:
    r"""Returns the hash of arrays by name: their types, shapes and bytes."""

    told = [[key, str(arrays[key].dtype), list(arrays[key].shape), digest(arrays[key])] for key in sorted(arrays)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _code_parts(code: types.CodeType) -> list[Any]:
    r"""The instructions and constants of code, without its place in a file."""
    constants = [_code_parts(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    signature = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return [code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, signature]


def _names(code: types.CodeType) -> set[str]:
    r"""All names that code, and the code in it, takes from elsewhere."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


class _Reader:
    r"""Finds the hash of things by the hashes of their parts."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, frozenset[str]], str] = {}
        self.open: dict[tuple[int, frozenset[str]], int] = {}  # what is being read: a thing may hold itself
        self.kept: list[Any] = []  # what was made on the way, whose address must not be used again
        self.code: dict[str, str] = {}
        self.files: set[str] = set()

    def read(self, thing: Any, names: frozenset[str] = frozenset()) -> str:
        r"""Returns the hash of a thing. Of a module, only what has one of the names counts."""
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes) or thing is Ellipsis:
            return self._hash(type(thing).__name__, repr(thing))
        key = (id(thing), names if isinstance(thing, types.ModuleType) else frozenset())
        if key in self.known:
            return self.known[key]
        if key in self.open:
            return self._hash("itself", str(self.open[key]))
        self.open[key] = len(self.open)
        self.kept.append(thing)
        try:
            self.known[key] = self._read(thing, names)
        finally:
            del self.open[key]
        return self.known[key]

    def _hash(self, *parts: str) -> str:
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _all(self, kind: str, things: Iterable[Any]) -> str:
        return self._hash(kind, *map(self.read, things))

    def _named(self, kind: str, things: Mapping[str, Any]) -> str:
        return self._hash(kind, *(part for key in sorted(things) for part in (key, self.read(things[key]))))

    def _read(self, thing: Any, names: frozenset[str]) -> str:
        kind = type(thing)
        torch = sys.modules.get("torch")
        if kind in (list, tuple):
            return self._all(kind.__name__, thing)
        if kind is dict:
            return self._all("dict", (part for item in thing.items() for part in item))
        if kind in (set, frozenset):
            return self._hash("set", *sorted(map(self.read, thing)))
        if kind is np.ndarray and thing.dtype != object:
            return self._hash("array", str(thing.dtype), str(thing.shape), digest(thing))
        if torch is not None and isinstance(thing, torch.Tensor):
            bits = thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy() if thing.numel() else thing
            return self._hash("tensor", str(thing.dtype), str(tuple(thing.shape)), digest(np.asarray(bits)))
        if isinstance(thing, np.random.RandomState | np.random.Generator | np.random.BitGenerator):
            return self._hash("random state")  # where a stream stands says nothing about what it is used for
        if isinstance(thing, types.FunctionType):
            return self._function(thing)
        if isinstance(thing, types.CodeType):
            return self.read(_code_parts(thing))
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, types.ModuleType):
            return self._module(thing, names)
        if isinstance(thing, property):
            return self._all("property", (thing.fget, thing.fset, thing.fdel))
        if isinstance(thing, staticmethod | classmethod):
            return self._all(kind.__name__, (thing.__func__,))
        if isinstance(thing, functools.cached_property):
            return self._all("cached_property", (thing.func,))
        if isinstance(thing, types.MethodType):
            return self._all("method", (thing.__self__, thing.__func__))
        if hasattr(thing, "py_func"):  # a function that numba compiles
            return self._all("compiled", (thing.py_func,))
        return self._object(thing)

    def _function(self, function: types.FunctionType) -> str:
        code = function.__code__
        parts: list[Any] = [function.__defaults__, function.__kwdefaults__]
        for cell in function.__closure__ or ():
            try:
                parts.append(cell.cell_contents)
            except ValueError:  # it is not filled yet
                parts.append("empty cell")
        if is_library(function.__module__):
            return self._hash("function", stable_name(function.__module__, function.__qualname__), self.read(parts))
        self._note(function)
        wanted = frozenset(_names(code))
        around = function.__globals__
        used = [name for name in sorted(wanted) if name in around]
        values = [part for name in used for part in (name, self.read(around[name], wanted))]
        return self._hash("function", self.read(_code_parts(code)), self.read(parts), *values)

    def _note(self, function: types.FunctionType) -> None:
        module = sys.modules.get(function.__module__)
        file = getattr(module, "__file__", None)
        if file is not None:
            self.files.add(str(file))
        label = f"{function.__module__}:{function.__qualname__}"
        if function.__module__ != "__main__" and _resolve(label) is function:
            self.code[label] = _own_code(function)

    def _class(self, kind: type) -> str:
        name = stable_name(kind.__module__, kind.__qualname__)
        if is_library(kind.__module__):
            return self._hash("class", name)
        own = {key: value for key, value in vars(kind).items() if key not in _BOOKKEEPING}
        return self._hash("class", kind.__qualname__, *map(self.read, kind.__bases__), self._named("own", own))

    def _module(self, module: types.ModuleType, names: frozenset[str]) -> str:
        if is_library(module.__name__):
            return self._hash("module", module.__name__)
        if getattr(module, "__file__", None) is not None:
            self.files.add(str(module.__file__))
        there = vars(module)
        used = [part for key in sorted(names) if key in there for part in (key, self.read(there[key], names))]
        return self._hash("module", *used)

    def _object(self, thing: Any) -> str:
        kind = type(thing)
        try:
            reduce = copyreg.dispatch_table.get(kind)
            reduced = reduce(thing) if reduce is not None else thing.__reduce_ex__(4)
        except Exception:  # locks, handles and the like: whatever they do is for the canary to notice
            return self._hash("something", self._class(kind))
        if isinstance(reduced, str):
            return self._hash("global", getattr(thing, "__module__", None) or kind.__module__, reduced)
        maker, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        self.kept.append(reduced)
        parts = [self.read(maker), self._all("arguments", arguments)]
        parts.append(self._state(kind, state))
        parts.append(self._all("items", items) if items is not None else "")
        parts.append(self._all("pairs", (p for pair in pairs for p in pair)) if pairs is not None else "")
        return self._hash("object", *parts)

    def _state(self, kind: type, state: Any) -> str:
        if type(state) is not dict or not all(isinstance(key, str) for key in state):
            return self.read(state)
        # What is cached may be there or not.
        cached = {k for c in kind.__mro__ for k, v in vars(c).items() if isinstance(v, functools.cached_property)}
        return self._named("state", {key: value for key, value in state.items() if key not in cached})


def _own_code(function: types.FunctionType) -> str:
    r"""The hash of a function's instructions and defaults alone."""
    reader = _Reader()
    values = [v for v in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())]
    plain = [v for v in values if v is None or isinstance(v, bool | int | float | complex | str | bytes)]
    return reader.read([_code_parts(function.__code__), plain])


def take_fingerprint(thing: Any, name: str) -> Fingerprint:
    r"""Returns what identifies a thing, and the code and the files that it is made of.

    Arguments:
        thing: What is to be identified: an object, a class or a function.
        name: What to call it in an error.
    """

    reader = _Reader()
    try:
        content = reader.read(thing)
    except Exception as error:
        raise UsageError(
            f"{name} cannot be identified for the store ({type(error).__name__}: {error}): "
            "run without a store (store=null)"
        ) from error
    return Fingerprint(content, dict(sorted(reader.code.items())), frozenset(reader.files))


def fingerprint(thing: Any, name: str) -> str:
    r"""Returns a hash of what a thing consists of; see `take_fingerprint`."""

    return take_fingerprint(thing, name).content


def edited(code: Mapping[str, str]) -> str | None:
    r"""Returns the first function that is another one in this process than the hashes say, or none.

    Workers import the user's modules from their files, which may have been edited since the run began.

    Arguments:
        code: Hashes by `module:name`, from a `Fingerprint`.
    """

    for label, expected in code.items():
        found = _resolve(label)
        if isinstance(found, types.FunctionType) and _own_code(found) != expected:
            return label
    return None


def _resolve(label: str) -> Any:
    r"""Returns what `module:name` stands for in this process, or none."""
    module, _, name = label.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
        found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    return found


def describe(thing: Any) -> Any:
    r"""Returns what determines the behavior of a task, a candidate or a metric, as plain JSON.

    For a dataclass that is its class, its version and its fields, unless it has a `describe()` of its own; for what a
    user wrote, the content of the class as well. Anything else is known by its content.
    """

    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    kind = type(thing)
    code = {} if is_library(kind.__module__) else {"code": fingerprint(kind, kind.__qualname__)}
    if hasattr(thing, "describe") and not isinstance(thing, type):
        told = describe(thing.describe())
        return told | code if isinstance(told, dict) else told
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {f.name: describe(getattr(thing, f.name)) for f in dataclasses.fields(thing) if f.compare}
        identity = {"class": stable_name(kind.__module__, kind.__qualname__), "fields": fields}
        declared = {f.name for f in dataclasses.fields(thing)}
        # An undecorated subclass of a dataclass has what it likes beside the fields.
        if code and (more := {key: value for key, value in vars(thing).items() if key not in declared}):
            identity["more"] = _Reader()._state(kind, more)
        return identity | code | {"version": int(getattr(thing, "version", 0))}
    if isinstance(thing, Mapping):
        return {str(key): describe(value) for key, value in sorted(thing.items())}
    if isinstance(thing, list | tuple):
        return [describe(value) for value in thing]
    if kind is np.ndarray and thing.dtype != object:
        return {"dtype": str(thing.dtype), "shape": list(thing.shape), "sha256": digest(thing)}
    if isinstance(thing, np.generic):
        return thing.item()
    name = stable_name(kind.__module__, kind.__qualname__)
    return {"class": name, "content": fingerprint(thing, kind.__qualname__)} | code

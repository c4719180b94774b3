r"""What identifies things that a user brings along: functions by their text, objects by their content."""

__all__ = ["fingerprint", "load_file"]

import hashlib
import importlib.util
import inspect
import io
import pickle
import sys
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from .errors import UsageError


class _Content(pickle.Pickler):
    r"""Writes what a thing consists of, to be hashed and never read back."""

    def reducer_override(self, thing: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(thing, torch.Tensor):
            # The pickle of a tensor holds an address; its numbers do not change from process to process.
            return np.array, (thing.detach().cpu().numpy(), str(thing.dtype))[:1]
        if isinstance(thing, np.random.RandomState | np.random.Generator):
            return str, ("random state",)
        if isinstance(thing, FunctionType):
            try:
                text = inspect.getsource(thing)
            except OSError:
                text = repr((thing.__code__.co_code, thing.__code__.co_names, thing.__code__.co_varnames))
            cells = tuple(cell.cell_contents for cell in thing.__closure__ or ())
            return tuple, ((thing.__qualname__, text, thing.__defaults__, cells),)
        return NotImplemented


def fingerprint(thing: Any, name: str) -> str:
    r"""Returns a hash of what a thing consists of: the text of functions, the numbers of arrays and tensors.

    What a function reads from its module is not seen; neither are the methods of an object's class.

    Arguments:
        thing: The thing.
        name: What to call it in an error.
    """

    buffer = io.BytesIO()
    try:
        _Content(buffer, protocol=5).dump(thing)
    except Exception as error:
        raise UsageError(
            f"{name} cannot be identified for the store ({error}): run without a store (store=null)"
        ) from error
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def load_file(path: str, what: str) -> tuple[ModuleType, str]:
    r"""Runs a Python file of the user; returns its module and the hash of its text.

    A process runs a file once, until its text changes.

    Arguments:
        path: The file.
        what: What asks for it, for errors.
    """

    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{what}: there is no file {path}")
    text = file.read_bytes()
    key = hashlib.sha256(text).hexdigest()
    return _run_file(str(file.resolve()), key, what), key


@lru_cache
def _run_file(path: str, key: str, what: str) -> ModuleType:
    name = f"mira_bench_file_{Path(path).stem}_{key[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{what}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(Path(path).parent)
    sys.modules[name] = module  # dataclasses and the like look their module up
    sys.path.insert(0, folder)  # it may import what stands next to it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"{what}: {path} fails with {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    return module

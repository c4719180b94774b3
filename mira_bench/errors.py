r"""Errors whose message is a sentence that names the culprit; the command line prints it without a traceback."""

__all__ = ["RunError", "SimulationError", "UsageError"]


class UsageError(ValueError):
    r"""Bad input or bad usage: the user can fix it. The command line exits with 2."""


class SimulationError(UsageError):
    r"""Parameters that a task draws and cannot simulate. It ends a run: the cure, another prior, is another task."""


class RunError(RuntimeError):
    r"""A run that cannot go on: the simulator raised, for example. The command line exits with 1."""

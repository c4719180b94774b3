r"""Errors whose message is a sentence that names the culprit; the command line prints it without a traceback."""

__all__ = ["RunError", "SamplesError", "SimulationError", "UsageError", "refuse_to_hide_an_interrupt"]


class UsageError(ValueError):
    r"""Bad input or bad usage: the user can fix it. The command line exits with 2."""


class SamplesError(UsageError):
    r"""Samples of one candidate that cannot be read or used; others may do without it.

    Arguments:
        message: The sentence.
        candidate: The name of the candidate.
    """

    def __init__(self, message: str, candidate: str) -> None:
        super().__init__(message)
        self.candidate = candidate


class SimulationError(UsageError):
    r"""Parameters that a task draws and cannot simulate. It ends a run: the cure, another prior, is another task."""


class RunError(RuntimeError):
    r"""A run that cannot go on: the simulator raised, for example. The command line exits with 1."""


def refuse_to_hide_an_interrupt(error: BaseException) -> None:
    r"""Raises the interrupt that an error came from: code that cleans up after one may fail, and its error is not it.

    Arguments:
        error: An error that would be told as a failure.
    """

    earlier: BaseException | None = error
    while earlier is not None:
        if isinstance(earlier, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        earlier = earlier.__cause__ or earlier.__context__

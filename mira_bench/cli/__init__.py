r"""The command line: one file a verb."""

__all__ = ["main"]

from .command import main

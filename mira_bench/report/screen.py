r"""How wide what is printed may be: as the terminal, as COLUMNS says, or as a page where nobody says anything."""

__all__ = ["columns", "screen"]

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PAGE = 180  # what goes into a file or a pipe


def columns(page: int = PAGE) -> int:
    r"""Returns the number of characters in a line.

    Arguments:
        page: The number where there is neither a terminal nor COLUMNS.
    """

    return shutil.get_terminal_size((page, 24)).columns


def screen(page: int = PAGE) -> "Console":
    r"""Returns what tables are printed on.

    Arguments:
        page: The number of characters in a line where there is neither a terminal nor COLUMNS.
    """

    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            # Who read it, such as `head`, has seen enough; a run is not ended by that, as rich would.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    console = Screen()
    return console if console.is_terminal else Screen(width=columns(page))

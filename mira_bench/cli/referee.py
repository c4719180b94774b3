r"""The verb `referee`: one figure, one paragraph and the citation, for a posterior that somebody doubts."""

__all__ = ["main"]

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..report.page.reading import read_run
from ..report.referee import paragraph, write_referee


def main(arguments: Sequence[str]) -> int:
    r"""Writes the files, and prints the paragraph."""

    parser = argparse.ArgumentParser(
        prog="mira-bench referee",
        description="Writes what an author needs for a referee: a paragraph on how a posterior was tested and what "
        "would have been seen, a figure of a column's width, and the citation.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of a run")
    parser.add_argument("--candidate", metavar="NAME", help="default: the first of the ranking")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: the folder of the run")
    asked = parser.parse_args(arguments)
    run = read_run(asked.folder)
    written = write_referee(run, asked.out or asked.folder, asked.candidate)
    print(paragraph(run, asked.candidate))
    print(f"\nParagraph, citation and figure: {', '.join(map(str, written))}")
    return 0

r"""Runs the cells of tutorial.ipynb, and writes their outputs into it: python docs/execute.py"""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("tutorial.ipynb")


def executed() -> Any:
    r"""Returns the notebook with the outputs of a fresh kernel."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=NOTEBOOK.parent)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ every time
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)

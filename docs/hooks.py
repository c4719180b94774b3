r"""What the site has beyond docs/: the cards of tasks, the paper's results, sources, the tutorial, the reference.

Pages link to each other as files of the repository, so that links work wherever the repository is read. `place` says
where each file is in the site, and links are rewritten on the way.
"""

import json
import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path, PurePosixPath
from typing import Any

from latex2mathml.converter import convert
from markdown.extensions import Extension
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SEEDS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "tasks/*/README.md", "results/paper/README.md")
HOMES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
CODE = {".py": "python", ".yaml": "yaml", ".toml": "toml"}
LINK = re.compile(r"(?<!`)(!?\[[^\]]*\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
# Every public name, by page: tests/test_docs.py sees to it.
REFERENCE = {
    "score": ("Score, run, load", "score run load draw plan rank Result Saved Trained UsageError RunError"),
    "metrics": (
        "Metrics",
        "mira mira_sufficient calibration tarp sbc hpd_coverage energy_score fidelity moments c2st lc2st mmd "
        "wasserstein sliced_wasserstein pqmass log_bayes_factor theory effective_samples CalibrationResult "
        "FidelityResult MomentsResult TwoSampleResult Mira Tilt Sufficient Calibration Tarp Sbc PooledSbc Hpd Energy "
        "Fidelity Moments C2st Lc2st Mmd Wasserstein SlicedWasserstein SlicedDistances Pqmass Evidence Convergence",
    ),
    "contracts": ("Contracts", "Task Candidate Posterior Metric Fiducials Draws Block Scores Rehearsal Stage"),
}
INFERENCE = {
    "Networks": ("inference.neural.Neural", "inference.given.Given"),
    "Likelihoods with a gradient": ("inference.target.Target", "inference.smc.smc", "inference.mala.mala"),
    "Diffusion": (
        "inference.diffusion.samplers.ImageSampler",
        "inference.diffusion.linear.LinearOperator",
        "inference.diffusion.mixture.Mixture",
        "inference.diffusion.guidance.Dps",
        "inference.diffusion.guidance.Mmps",
        "inference.diffusion.splitting.DiffPir",
        "inference.diffusion.splitting.Daps",
        "inference.diffusion.splitting.PnpDm",
        "inference.diffusion.reddiff.RedDiff",
    ),
}

sources: dict[str, str] = {}  # the file of the repository behind each page


class ListsOfTwo(Extension):
    r"""Lists are indented by two spaces, as everywhere else in the world."""

    def extendMarkdown(self, md: Any) -> None:
        md.tab_length = 2


def place(path: str) -> str:
    r"""Returns where a file of the repository is in the site."""
    if path in HOMES:
        return HOMES[path]
    parts = PurePosixPath(path).parts
    if parts[0] == "docs":
        return str(PurePosixPath(*parts[1:])).replace(".ipynb", ".md")
    if parts[0] == "tasks" and parts[-1] == "README.md":
        return f"tasks/{parts[1]}.md"
    if parts[:2] == ("results", "paper"):
        return str(PurePosixPath("paper", *parts[2:])).replace("README.md", "index.md")
    return f"source/{path}.md" if PurePosixPath(path).suffix in CODE else path


def linked(path: str) -> Iterator[str]:
    r"""Yields the files of the repository that a page links to."""
    for match in LINK.finditer((ROOT / path).read_text(encoding="utf-8")):
        target = os.path.normpath(PurePosixPath(path).parent / match[2])
        if (ROOT / target).is_file():
            yield target


def on_config(config: Any) -> Any:
    config.markdown_extensions.append(ListsOfTwo())
    return config


def on_files(files: Any, config: Any) -> Any:
    r"""Adds all files that can be reached, and the pages that are made here."""
    open_ends = sorted(str(found.relative_to(ROOT)) for seed in SEEDS for found in ROOT.glob(seed))
    sources.clear()
    while open_ends:
        path = open_ends.pop()
        if place(path) in sources:
            continue
        sources[place(path)] = path
        if path.endswith(".md"):
            open_ends += linked(path)
        suffix = PurePosixPath(path).suffix
        if suffix in CODE:
            text = f"# {path}\n\n```{CODE[suffix]}\n{(ROOT / path).read_text(encoding='utf-8')}```\n"
            files.append(File.generated(config, place(path), content=text))
        elif suffix != ".ipynb" and files.get_file_from_path(place(path)) is None:
            files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    for uri, text in (("tutorial.md", tutorial()), ("tasks/index.md", tasks()), *reference()):
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    path = sources.get(page.file.src_uri)
    if path is None or not path.endswith(".md"):
        return markdown
    here = PurePosixPath(page.file.src_uri).parent

    def moved(match: re.Match[str]) -> str:
        target = os.path.normpath(PurePosixPath(path).parent / match[2])
        to = os.path.relpath(place(target), here) if place(target) in sources else match[2]
        return f"{match[1]}{to}{match[3]}"

    return outside_fences(lambda text: spaced(LINK.sub(moved, text)), markdown)


def on_page_content(html: str, **_: Any) -> str:
    r"""Formulas become MathML, which browsers draw by themselves."""
    inline = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
    block = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)
    html = inline.sub(lambda match: convert(unescape(match[1])), html)
    return block.sub(lambda match: f"<p>{convert(unescape(match[1]), display='block')}</p>", html)


def outside_fences(change: Any, text: str) -> str:
    r"""Changes a text, but not its blocks of code."""
    parts = re.split(r"(^ *```.*?^ *```[^\S\n]*$)", text, flags=re.M | re.S)
    return "".join(part if part.lstrip().startswith("```") else change(part) for part in parts)


def spaced(text: str) -> str:
    r"""Puts an empty line before lists and tables that follow a line of text: Markdown of Python wants it."""
    text = re.sub(r"^(?! *(?:[-*]|\d+\.) )(?! *\|)(?! )(.+)\n(?=(?:[-*]|\d+\.) )", r"\1\n\n", text, flags=re.M)
    return re.sub(r"^(?! *\|)(.*\S.*)\n(?= *\|.*\|$)", r"\1\n\n", text, flags=re.M)


def tutorial() -> str:
    r"""Returns the notebook with its outputs as a page."""
    parts = []
    for cell in json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            parts.append(_shown(output))
    parts.append("[This page is a notebook.](tutorial.ipynb)")
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```\n{''.join(output['text']).rstrip()}\n```"
    data = output["data"]
    if "image/png" in data:
        image = "".join(data["image/png"]).replace("\n", "")
        return f'<div class="output"><img alt="output of the cell above" src="data:image/png;base64,{image}"></div>'
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    return f"```\n{''.join(data['text/plain'])}\n```"


def tasks() -> str:
    r"""Returns the page of all task configs, each with the first sentence of its own comment."""
    from mira_bench.cli.listing import configs, sentence

    rows = [f"| `{name}` | {sentence('task', name)} |" for name in configs("task")]
    return "\n".join(["# Tasks", "", "By `python -m mira_bench list tasks`:", "", "| task | |", "|---|---|", *rows, ""])


def reference() -> Iterator[tuple[str, str]]:
    import mira_bench

    for uri, (title, names) in REFERENCE.items():
        # By the module that defines it: a function may have the name of its module.
        homes = ((name, getattr(mira_bench, name).__module__) for name in names.split())
        blocks = (f"::: {home}.{name}\n    options: {{heading: mb.{name}}}" for name, home in homes)
        yield f"api/{uri}.md", "\n\n".join([f"# {title}", "`import mira_bench as mb`", *blocks]) + "\n"
    parts = ["# Samplers and networks", "All of `mira_bench.inference`."]
    for title, names in INFERENCE.items():
        parts += [f"## {title}", *(f"::: mira_bench.{name}\n    options: {{heading_level: 3}}" for name in names)]
    yield "api/inference.md", "\n\n".join(parts) + "\n"

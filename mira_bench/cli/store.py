r"""The verb `store`: what the store holds, and how to empty it."""

__all__ = ["main"]

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from ..runner.store import Store


def _age(text: str) -> float:
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    try:
        return float(text[:-1]) * unit if unit else float(text) * 86400
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 30m, 12h or 7d") from None


def main(arguments: Sequence[str]) -> int:
    r"""Lists or prunes the store."""

    parser = argparse.ArgumentParser(prog="mira-bench store", description="Lists or prunes the store.")
    parser.add_argument("action", nargs="?", default="list", choices=["list", "prune"])
    parser.add_argument("--store", default="results/store", help="the folder (default: results/store)")
    parser.add_argument(
        "--kind",
        choices=["fiducials", "fit", "samples", "reference", "record", "damaged"],
        metavar="KIND",
        help="fiducials, fit, samples, reference, record or damaged",
    )
    parser.add_argument("--task", help="only blocks of this task")
    parser.add_argument("--older-than", type=_age, default=0.0, metavar="AGE", help="e.g. 12h or 7d")
    chosen = parser.parse_args(arguments)
    store = Store(chosen.store)
    if not Path(chosen.store).is_dir():
        print(f"There is no store at {chosen.store}.")
        return 0
    if chosen.action == "prune":
        count, size = store.prune(older_than=chosen.older_than, kind=chosen.kind, task=chosen.task)
        print(f"Removed {count} blocks, {size / 1e6:.1f} MB, from {chosen.store}.")
        return 0
    totals: dict[tuple[str, ...], tuple[int, int, float]] = {}
    for entry in store.entries():
        spec = entry.spec
        keys = ("task_name", "kind", "candidate_name", "metric_name", "seed")
        row = tuple(str(spec.get(key, "-")) for key in keys)
        wanted = chosen.kind in (None, spec.get("kind")) and chosen.task in (None, spec.get("task_name"))
        if wanted and time.time() - entry.modified >= chosen.older_than:
            count, size, newest = totals.get(row, (0, 0, 0.0))
            totals[row] = (count + 1, size + entry.size, max(newest, entry.modified))
    head = ("task", "kind", "candidate", "metric", "seed", "blocks", "MB", "last written")
    rows = [
        (*row, str(n), f"{size / 1e6:.2f}", time.strftime("%Y-%m-%d %H:%M", time.localtime(newest)))
        for row, (n, size, newest) in sorted(totals.items())
    ]
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    for line in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    total = sum(size for _, size, _ in totals.values())
    print(f"{sum(n for n, _, _ in totals.values())} blocks, {total / 1e6:.1f} MB in {chosen.store}")
    return 0

r"""What the tests of files and of other inputs share."""

import numpy as np
import pandas as pd
import pytest

import mira_bench as mb
from mira_bench.adapters.files import Files

L, S = 40, 24
NAMES = ["Om", "s8", "h"]
METRICS = {"mira": mb.Mira(regions=8), "energy": mb.Energy(), "sbc": mb.Sbc()}


def score_files(truths="truths.npy", metrics=METRICS, **candidates):
    r"""Scores samples in files; settings of `Files` may stand among the candidates."""
    settings = {k: candidates.pop(k) for k in list(candidates) if k in Files.__dataclass_fields__}
    return Files(truths, candidates, **settings).score(metrics=metrics)


def same(result, reference):
    r"""Asserts that two results are equal to the bit, but for the R-hat that only files of chains have."""
    for mine, other in ((result.summary, reference.summary), (result.scores, reference.scores)):
        rest = mine[mine.metric != "convergence"].reset_index(drop=True)
        pd.testing.assert_frame_equal(rest, other, check_exact=True)


def refused(words, function, *arguments, **more):
    r"""Asserts that a call is refused, in one sentence that has these words."""
    with pytest.raises(mb.UsageError) as caught:
        function(*arguments, **more)
    message = str(caught.value)
    assert "\n" not in message
    for word in [words] if isinstance(words, str) else words:
        assert word in message, message


def long_form(truths, samples):
    r"""Returns truths $(L, 3)$ and samples $(L, S, 3)$ as tables with a row per fiducial and per sample."""
    rows, draws = (a.ravel() for a in np.meshgrid(np.arange(L), np.arange(S), indexing="ij"))
    table = pd.DataFrame(samples.reshape(-1, 3), columns=NAMES)
    table.insert(0, "sample", draws)
    table.insert(0, "fiducial", rows)
    known = pd.DataFrame(truths, columns=NAMES)
    known.insert(0, "fiducial", np.arange(L))
    return known, table

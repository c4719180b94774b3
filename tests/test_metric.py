r"""The contract of a metric: what the runner looks at, where it is found, and what is refused."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Toy, ToyCandidate

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.cli.listing import configs
from mira_bench.metric import Context
from mira_bench.metrics import DEFAULT, all_metrics, choose_metrics
from mira_bench.ranks.scaling import Scaling
from mira_bench.runner.store import Store
from mira_bench.task import BLOCK

SIZE = {"fiducials": 40, "samples": 10}


@dataclass(frozen=True)
class Spread(mb.Metric):
    r"""The mean standard deviation of the samples."""

    factor: float = 1.0

    name = "spread"
    column = "sd"

    def depends_on(self, context):
        return ()

    def observe(self, block):
        return {"sd": self.factor * block.samples.std(axis=1).mean(axis=1)}

    def reduce(self, records, scaling):
        sd = np.concatenate([r["sd"] for r in records])
        return mb.Scores(score=float(sd.mean()), per_fiducial=sd)


def run(metrics, **settings):
    return mb.run(Toy(), {"correct": ToyCandidate()}, metrics=metrics, **(SIZE | settings))


def test_the_catalogue_is_one():
    known = all_metrics()
    assert list(known)[: len(DEFAULT)] == list(DEFAULT)
    assert all(name == metric.name for name, metric in known.items())
    assert set(configs("metric")) == {*known, "published"}
    assert all(isinstance(metric, mb.Metric) for metric in known.values())


def test_what_is_to_be_known_about_samples_stands_where_a_metric_has_room(rng):
    class Roomy(Spread):
        remarks = True

    truths = rng.normal(size=(30, 1))
    samples = {"few": rng.normal(size=(30, 10, 1)), "many": rng.normal(size=(30, 20, 1))}
    metrics = {"a": mb.Mira(regions=5), "b": Roomy(), "c": Spread()}
    notes = mb.score(truths, samples, metrics=metrics).summary.groupby("metric")["note"].agg(list)
    assert all(f"; S = {count}" in note for note, count in zip(notes["a"], (10, 20), strict=True))
    assert notes["b"] == ["S = 10", "S = 20"]
    assert notes["c"] == ["", ""]


def test_names_and_objects_in_one_list():
    result = run(["mira", Spread()])
    assert result.metrics == ["mira", "spread"]
    alone = run({"spread": Spread()})
    pd.testing.assert_frame_equal(
        result.scores.query("metric == 'spread'").reset_index(drop=True), alone.scores, check_exact=True
    )
    # It is in the ranking, in its order, and in the printed table.
    means = result.summary.query("metric == 'spread'").set_index("candidate").score
    assert result.ranking.set_index("candidate").spread.to_dict() == means.to_dict()
    both = run({"narrow": Spread(0.5), "wide": Spread(2.0)}).summary.set_index(["candidate", "metric"]).score
    assert both["correct", "wide"] == pytest.approx(4 * both["correct", "narrow"])
    with pytest.raises(mb.UsageError, match="two metrics 'spread'"):
        run([Spread(), Spread(2.0)])


def test_it_is_shown_where_people_look(tmp_path):
    run(["mira", Spread()]).save(tmp_path)
    header, _, first = (tmp_path / "ranking.md").read_text().splitlines()[2:5]
    titles, cells = header.split(" | "), first.split(" | ")
    assert cells[titles.index("sd")] == f"{pd.read_csv(tmp_path / 'ranking.csv').spread[0]:.4f}"


def test_a_config_of_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "conf" / "metric").mkdir(parents=True)
    (tmp_path / "conf" / "metric" / "spread.yaml").write_text(f"_target_: {__name__}.Spread\nfactor: 1.0\n")
    small = ["fiducials=40", "samples=10", "candidates=[correct]", "store=null", "metrics=[mira,spread]"]
    assert main(["--config-dir", "conf", *small, "out=one"]) == 0
    assert main(["--config-dir=conf", *small, "metric.spread.factor=2.0", "out=two"]) == 0
    one, two = (pd.read_csv(tmp_path / name / "ranking.csv") for name in ("one", "two"))
    assert (two.spread == 2 * one.spread).all()
    assert main(["--config-dir", "conf", *small[:-1], "metrics=[mira,spred]", "out=three"]) == 2


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        (object(), "derived from mira_bench.Metric"),
        (type("Nameless", (Spread,), {"name": ""})(), "has no name"),
        (type("Needy", (Spread,), {"needs": ("gradient",)})(), "needs gradient; blocks have x, reference"),
    ],
)
def test_what_is_no_metric_is_refused(metric, sentence):
    with pytest.raises(mb.UsageError, match=sentence):
        choose_metrics({"mine": metric})


def test_what_a_record_depends_on(rng):
    truths = rng.normal(size=(30, 2))
    free, bounded = Context(Scaling(truths)), Context(Scaling(truths, task=(np.full(2, -9.0), np.full(2, 9.0))))
    alone = {"calibration", "sbc", "pooled_sbc", "hpd", "log_score", "evidence", "convergence", "fidelity", "lc2st"}
    for name, metric in all_metrics().items():
        assert (len(metric.depends_on(free)) == 0) == (name in alone), name
        assert len(metric.depends_on(bounded)) == 0, name
    assert len(mb.Mira(centers="prior").depends_on(bounded)) == 1
    assert len(mb.Sbc(projections=3).depends_on(free)) == 1
    assert len(mb.Metric.depends_on(Spread(), bounded)) == 1  # the default: the truths of the whole run


def test_records_that_look_at_their_block_alone_are_reused_when_a_run_grows(tmp_path, monkeypatch):
    size = getattr(Toy(), "block", BLOCK)
    run({"spread": Spread()}, store=tmp_path, fiducials=size)
    written = []
    put = Store.put
    monkeypatch.setattr(Store, "put", lambda self, spec, *a, **k: (written.append(spec), put(self, spec, *a, **k)))
    run({"spread": Spread()}, store=tmp_path, fiducials=2 * size)
    assert {spec["block"] for spec in written if spec["kind"] == "record"} == {1}

r"""Lensing as a task: the samplers are right about a small lens, and tell the models apart."""

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.lensing import LensCandidate, Lensing, Likelihood, Sersic
from mira_bench.tasks.lensing.pictures import image_grid, posterior_corner
from scipy import stats

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.inference import smc

SMALL = Lensing(pixels=16, pixelscale=0.3, noise=0.3)
QUICK = {"particles": 80, "chains": 16, "draws": 40, "warmup": 5}


def test_the_likelihood_that_samplers_see_is_the_models(rng):
    fiducials = SMALL.simulate(1, rng)
    target = Likelihood(SMALL.model, fiducials.x[0], SMALL.exchangeable)
    theta = SMALL.prior_sample(3, rng)
    value = target.log_likelihood(theta)
    swapped = theta.copy()
    swapped[:, target.groups[0]], swapped[:, target.groups[2]] = theta[:, target.groups[2]], theta[:, target.groups[0]]
    assert np.allclose(target.log_likelihood(swapped), value, rtol=1e-5)
    # The intensities enter as a parabola with the terms that exact Gibbs draws from.
    square, slope = target.linear_terms(theta)
    moved = theta.copy()
    moved[:, target.linear] += 0.05
    change = 0.05 * (slope - np.einsum("wij,wj->wi", square, theta[:, target.linear])).sum(1)
    change -= 0.5 * 0.05**2 * square.sum((1, 2))
    assert np.allclose(target.log_likelihood(moved) - value, change, rtol=1e-3, atol=1e-3)


def test_the_sampler_is_calibrated_on_a_small_lens():
    # One source, few pixels: 60 posteriors, the ranks of all seven parameters uniform.
    task = Lensing(sources=(Sersic(),), pixels=12, pixelscale=0.4, noise=0.3)
    metrics = {"sbc": mb.Sbc(), "mira": mb.Mira(regions=50), "convergence": mb.Convergence()}
    result = mb.run(
        task,
        {"epl": LensCandidate(sources=1, smc=QUICK)},
        fiducials=60,
        samples=60,
        metrics=metrics,
        controls=False,
    )
    rows = result.summary.set_index("metric")
    assert rows.pvalue["sbc"] > 1e-4
    assert abs(rows.score["mira"] - rows.expected["mira"]) < 4 * rows.stderr["mira"]


def test_evidences_and_scores_tell_the_models_apart():
    candidates = {
        "epl_3": LensCandidate(smc=QUICK),
        "sie_1": LensCandidate("sie", 1, smc=QUICK),
    }
    metrics = {"evidence": mb.Evidence(), "mira": mb.Mira(regions=20), "convergence": mb.Convergence()}
    result = mb.run(SMALL, candidates, fiducials=6, samples=100, metrics=metrics, controls=False)
    right, wrong = (s.scores for s in result.standings)
    assert (right["evidence"].per_fiducial > wrong["evidence"].per_fiducial + 5).all()
    assert right["mira"].score > wrong["mira"].score + 0.05
    # Zeros where a source is missing are outside of its box: 1/2 by construction, whatever the fit.
    assert wrong["mira"].score < 0.52
    assert set(right["convergence"].result.values) >= {"rhat", "ess_bulk", "ess_tail", "acceptance"}


def test_candidates_answer_in_the_tasks_parameters(rng):
    fiducials = SMALL.simulate(1, rng)
    draws = LensCandidate("sie", 1, smc=QUICK).build(SMALL, rng).sample(fiducials.x, 50, rng)
    assert draws.values.shape == (1, 50, 13)
    assert (draws.values[..., 3] == 2).all()
    assert (draws.values[..., 7:] == 0).all()
    low, high = SMALL.bounds
    assert (draws.values[..., :3] >= low[:3]).all()
    assert (draws.values[..., :3] <= high[:3]).all()
    mala = LensCandidate(sampler="mala", mala={"walkers": 8, "warmup": 5, "draws": 10}).build(SMALL, rng)
    told = mala.sample(fiducials.x, 50, rng)
    assert told.log_evidence is None
    # From the prior, a few steps of MALA get nowhere near the posterior, and the diagnostics say so.
    assert told.diagnostics["rhat"][0] > 1.2


def test_the_evidence_agrees_with_importance_sampling(rng):
    task = Lensing(sources=(Sersic(),), pixels=8, pixelscale=0.6, noise=1.5)
    target = Likelihood(task.model, task.simulate(1, rng).x[0], False)
    runs = [smc(target, rng, particles=200, chains=4, draws=4).log_evidence for _ in range(8)]
    values = target.log_likelihood(task.prior_sample(40000, rng))
    weights = np.exp(values - values.max())
    truth = np.log(weights.mean()) + values.max()
    error = np.hypot(weights.std() / weights.mean() / np.sqrt(len(weights)), np.std(runs, ddof=1) / np.sqrt(8))
    assert abs(np.mean(runs) - truth) < stats.t.isf(3e-5, 7) * error


def test_pictures(rng):
    fiducials = SMALL.simulate(2, rng)
    # If all samples are the truth, what is left of the image is its noise.
    samples = np.repeat(fiducials.y[:, None], 10, axis=1)
    noise = (fiducials.x[0] - SMALL.model.images(fiducials.y[:1])[0]) / SMALL.noise
    lacking = samples.copy()
    lacking[..., 4:] = 0
    grid = image_grid(SMALL, fiducials, {"right": samples, "dark": lacking})
    shown = {axes.get_title(): axes.images[0].get_array() for axes in grid.axes if axes.images}
    said = [title for title in shown if title.startswith("residual")]
    assert np.allclose(shown[said[0]], noise, atol=1e-4)
    assert np.allclose(shown[said[1]], fiducials.x[0] / SMALL.noise, atol=1e-4)
    assert f"mean square {np.mean(noise**2):.3f}" in said[0]
    # Truth and samples have their sources in the same order, so the cross of the truth is inside the cloud.
    cloud = samples + 0.001 * rng.standard_normal(samples.shape)
    corner = posterior_corner(SMALL, fiducials, {"right": cloud})
    panels = [axes for axes in corner.axes if axes.lines and axes.get_visible()]
    assert len(panels) == 13 * 14 // 2
    for axes in panels:
        low, high = axes.get_xlim()
        assert 0.1 < (axes.lines[0].get_xdata()[0] - low) / (high - low) < 0.9


def test_bad_input(rng):
    with pytest.raises(mb.UsageError, match="sources is empty"):
        Lensing(sources=())
    with pytest.raises(mb.UsageError, match="sampler='nuts' is not one of smc, mala"):
        LensCandidate(sampler="nuts")
    with pytest.raises(mb.UsageError, match="the task has 3"):
        LensCandidate(sources=4).build(SMALL, rng)
    few = LensCandidate(smc=QUICK).build(SMALL, rng)
    with pytest.raises(mb.UsageError, match="samples=10000: the chains have 640 draws"):
        few.sample(SMALL.simulate(1, rng).x, 10000, rng)
    with pytest.raises(mb.UsageError, match="data is nan"):
        few.sample(np.full((1, 16, 16), np.nan), 10, rng)
    with pytest.raises(mb.UsageError, match="particles=1"):
        LensCandidate(smc={"particles": 1}).build(SMALL, rng).sample(SMALL.simulate(1, rng).x, 1, rng)


def test_the_small_task_runs_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "180")
    monkeypatch.setattr("sys.argv", ["mira_bench"])
    settings = "task.candidates.epl_3.smc={particles:40,chains:8,draws:20}"
    words = ["task=lensing/small", "fiducials=3", "samples=20", "candidates=[epl_3]", "views=[all,sorted]", "out=here"]
    assert main([*words, settings, "regions=5", "metric.convergence.limit=1.001", "progress=false"]) == 0
    assert "sorted" in (tmp_path / "here" / "summary.csv").read_text()
    drawn = {file.name for file in (tmp_path / "here" / "figures").glob("*.png")}
    assert drawn == {"overview.png", "sbc.png", "convergence.png", "image_grid.png", "posterior_corner.png"}
    ranking = pd.read_csv(tmp_path / "here" / "ranking.csv")
    summary = pd.read_csv(tmp_path / "here" / "summary.csv")
    convergence = summary.query("candidate == 'epl_3' and metric == 'convergence' and view == 'all'").iloc[0]
    assert ranking.rhat[0] == pytest.approx(convergence.score)
    # A posterior that misses the limit is marked everywhere, and dropped nowhere.
    assert ranking.not_converged[0] == 3
    sentence = "3 of 3 posteriors miss R-hat 1.001: fiducials 0, 1, 2"
    said = capsys.readouterr()
    for text in (convergence.note, ranking.evidence[0], said.err, (tmp_path / "here" / "ranking.md").read_text()):
        assert sentence in text
    assert f"{convergence.score:.2f}!" in said.out

r"""Progress: the time left is that of the work left."""

import mira_bench.runner.progress as module
from mira_bench.runner.progress import Progress


def lines(monkeypatch, capsys, steps, workers=1):
    r"""The line after each step, with a clock that says nothing but that it is time for a line."""
    clock = iter(range(0, 1_000_000, 100))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with Progress(True, workers) as bars:
        bars.add("fiducials", 100)
        bars.advance("fiducials", 100, 0)
        bars.add("slow", 10)
        bars.add("quick", 10)
        bars.add_sum()
        for step in steps:
            bars.advance(*step)
    return capsys.readouterr().err.splitlines()[1:]


def test_a_candidate_that_has_not_begun_costs_what_the_others_do(monkeypatch, capsys):
    assert lines(monkeypatch, capsys, [("slow", 2, 20.0)]) == ["slow: 2 of 10; about 3:00 left for all"]


def test_every_candidate_has_its_own_speed(monkeypatch, capsys):
    said = lines(monkeypatch, capsys, [("slow", 2, 120.0), ("quick", 5, 10.0)])
    assert said[-1] == "quick: 5 of 10; about 8:10 left for all"


def test_what_was_in_the_store_says_nothing_about_the_speed(monkeypatch, capsys):
    said = lines(monkeypatch, capsys, [("slow", 8, 0.0), ("slow", 1, 60.0), ("quick", 9, 540.0)])
    assert said[-1] == "quick: 9 of 10; about 2:00 left for all"


def test_workers_share_the_work(monkeypatch, capsys):
    said = lines(monkeypatch, capsys, [("slow", 5, 50.0)], workers=2)
    assert said[-1] == "slow: 5 of 10; about 1:15 left for all"


def test_a_candidate_that_failed_takes_no_more_time(monkeypatch, capsys):
    clock = iter(range(0, 1_000_000, 100))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with Progress(True) as bars:
        bars.add("good", 10)
        bars.add("bad", 10)
        bars.fail("bad")
        bars.advance("good", 5, 50.0)
    assert "about 0:50 left" in capsys.readouterr().err


def test_trainings_in_a_line(monkeypatch, capsys):
    clock = iter(range(0, 1_000_000, 100))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with Progress(True) as bars:
        bars.add_trainings(["npe/0", "npe/1", "nle/0"])
        bars.tell("npe/0", "epochs", 12, None)
        bars.trained("npe/0")
        bars.tell("npe/0", "epochs", 13, None)  # old news
        bars.tell("npe/1", "simulations", 500, 2000)
        bars.trained("nle/0", failed=True)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("training: npe/0 (12 epochs); 0 of 3 done, ")
    assert second.startswith("training: npe/1 (500 of 2000 simulations); 1 of 3 done, ")

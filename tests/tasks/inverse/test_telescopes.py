r"""Telescopes: where they are, what they see, and the tracks of the turning earth."""

from itertools import combinations

import numpy as np
import pytest
from mira_bench.tasks.inverse import TelescopeArray
from mira_bench.tasks.inverse.telescopes import SOURCES, STATIONS

import mira_bench as mb


def kilometers(a, b):
    return np.linalg.norm(STATIONS[a].place - STATIONS[b].place) / 1e3


def test_stations_are_where_they_are():
    assert 1 < kilometers("ALMA", "APEX") < 4
    assert 0.1 < kilometers("JCMT", "SMA") < 0.3
    assert abs(kilometers("PV", "JCMT") - 10900) < 50
    assert abs(kilometers("PV", "SPT") - 11400) < 50
    for station in STATIONS.values():
        assert 6_356_000 < np.linalg.norm(station.place) < 6_385_000
        assert station.place @ station.up > 6_350_000


@pytest.mark.parametrize("source", SOURCES)
def test_the_source_is_up(source):
    array = TelescopeArray(source=source)
    coverage, declination = array.coverage(), np.radians(SOURCES[source])
    seen = {
        (scan, station)
        for s in (coverage.first, coverage.second)
        for scan, station in zip(coverage.scan, s, strict=True)
    }
    for scan, turn in enumerate(array.turns):
        for index, name in enumerate(array.stations):
            latitude, longitude = np.radians([STATIONS[name].latitude, STATIONS[name].longitude])
            hour_angle = longitude - turn
            up = np.sin(latitude) * np.sin(declination) + np.cos(latitude) * np.cos(declination) * np.cos(hour_angle)
            assert ((scan, index) in seen) == (np.degrees(np.arcsin(up)) >= 10)
    assert np.bincount(coverage.scan).min() >= 6


def test_what_the_pole_sees():
    pole = list(STATIONS).index("SPT")
    used = {name: TelescopeArray(source=name).coverage() for name in SOURCES}
    assert pole not in used["M87"].second
    assert set(used["Sgr A*"].scan[used["Sgr A*"].second == pole]) == set(range(16))


def test_tracks_are_ellipses():
    # Around (0, z cos d), with the axes of the equatorial baseline and that times sin d (Thompson, Moran & Swenson).
    array = TelescopeArray(source="Sgr A*", scans=40)
    coverage, declination = array.coverage(), np.radians(SOURCES["Sgr A*"])
    for a, b in combinations(range(len(STATIONS)), 2):
        here = (coverage.first == a) & (coverage.second == b)
        one, other = (STATIONS[array.stations[index]].place * 230e9 / 299792458 for index in (a, b))
        x, y, z = other - one
        v = (coverage.v[here] - z * np.cos(declination)) / np.sin(declination)
        np.testing.assert_allclose(coverage.u[here] ** 2 + v**2, x**2 + y**2, rtol=1e-6, atol=1e6)


def test_the_earth_turns_to_the_east():
    # A telescope that sees the source in the meridian goes to the east, as seen from the source.
    array = TelescopeArray(source="Sgr A*", scans=100)
    coverage, turns = array.coverage(), array.turns
    pole, alma = list(array.stations).index("SPT"), list(array.stations).index("ALMA")
    here = (coverage.first == alma) & (coverage.second == pole)
    near = np.argsort(np.abs(turns[coverage.scan[here]] - np.radians(-67.755)))[:5]
    scans, u = coverage.scan[here][near], coverage.u[here][near]
    assert np.polyfit(scans, -u, 1)[0] > 0


def test_triangles_of_baselines_close():
    coverage = TelescopeArray().coverage()
    place = {(s, a, b): (u, v) for s, a, b, u, v in zip(*list(vars(coverage).values())[:5], strict=True)}
    for scan, a, b in place:
        for c in range(b + 1, 8):
            if (scan, b, c) in place:
                there = np.add(place[scan, a, b], place[scan, b, c])
                np.testing.assert_allclose(there, place[scan, a, c], rtol=1e-9)


def test_thermal_noise():
    coverage = TelescopeArray(duration=10.0).coverage()
    between = (coverage.first == 0) & (coverage.second == 5)  # ALMA and SMA
    assert abs(coverage.sigma[between][0] - np.sqrt(74 * 6200 / (2 * 2e9 * 10)) / 0.88) < 1e-9
    longer = TelescopeArray(duration=40.0).coverage()
    np.testing.assert_allclose(longer.sigma, coverage.sigma / 2)
    assert 7.5e9 < np.hypot(coverage.u, coverage.v).max() < 8.5e9  # a resolution of 25 microarcseconds


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"stations": ["ALMA", "APEX", "LMT"]}, "at least 4"),
        ({"stations": ["ALMA", "APEX", "LMT", "LMT"]}, "each of them once"),
        ({"stations": ["ALMA", "APEX", "LMT", "VLA"]}, "VLA is not one of ALMA"),
        ({"source": "M31"}, "source='M31'"),
        ({"scans": 0}, "scans=0"),
        ({"elevation": 90}, "elevation=90"),
        ({"stations": ["ALMA", "APEX", "JCMT", "SPT"]}, "see M87 for 0 minutes"),
    ],
)
def test_what_cannot_be_is_refused(keys, message):
    with pytest.raises(mb.UsageError, match=message):
        TelescopeArray(**keys).coverage()

r"""An array of telescopes like the Event Horizon Telescope, and the $(u, v)$ points that the turning earth gives it.

The stations are those of 2017, with rounded public values (Event Horizon Telescope Collaboration 2019, Paper II,
https://arxiv.org/abs/1906.11239). The noise of the visibility of two stations in a scan of length $\tau$ is

$$ \sigma_{ab} = \frac{1}{\eta} \sqrt{\frac{\mathrm{SEFD}_a \mathrm{SEFD}_b}{2 \Delta\nu \, \tau}} $$

in real and imaginary part each, with the bandwidth $\Delta\nu$ and $\eta = 0.88$ for two bits a sample.
"""

__all__ = ["SOURCES", "STATIONS", "Coverage", "Station", "TelescopeArray"]

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError

from .problem import require

LIGHT = 299792458.0  # m / s
EQUATOR, FLATTENING = 6378137.0, 1 / 298.257223563  # of the earth (WGS 84), in m
EFFICIENCY = 0.88
LEAST = 4  # stations in a scan: a closure amplitude takes as many
MINUTES = 1436  # of a sidereal day

SOURCES = {"M87": 12.39, "Sgr A*": -29.01}  # declinations in degrees


@dataclass(frozen=True)
class Station:
    r"""A telescope.

    Arguments:
        latitude: The geodetic latitude, in degrees.
        longitude: The longitude, in degrees to the east.
        elevation: The height, in m.
        sefd: The flux of a source that would be as bright as the noise, in Jy.
    """

    latitude: float
    longitude: float
    elevation: float
    sefd: float

    @property
    def up(self) -> NDArray[np.float64]:
        r"""The direction of the zenith, with axes to longitude 0, to longitude 90 east, and to the north pole."""
        latitude, longitude = np.radians([self.latitude, self.longitude])
        return np.array([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])

    @property
    def place(self) -> NDArray[np.float64]:
        r"""The position relative to the center of the earth, in m, with the same axes."""
        squashed = (1 - FLATTENING) ** 2
        normal = EQUATOR / np.sqrt(1 - (1 - squashed) * self.up[2] ** 2)
        return np.asarray(self.up * (np.array([normal, normal, squashed * normal]) + self.elevation))


STATIONS = {
    "ALMA": Station(-23.029, -67.755, 5070.0, 74.0),
    "APEX": Station(-23.006, -67.759, 5100.0, 4700.0),
    "JCMT": Station(19.823, -155.477, 4120.0, 10500.0),
    "LMT": Station(18.986, -97.315, 4600.0, 4500.0),
    "PV": Station(37.066, -3.393, 2900.0, 1900.0),
    "SMA": Station(19.824, -155.478, 4115.0, 6200.0),
    "SMT": Station(32.702, -109.891, 3160.0, 17100.0),
    "SPT": Station(-90.0, 0.0, 2820.0, 19300.0),
}


@dataclass(frozen=True)
class Coverage:
    r"""The visibilities that an array measures, in the order of their scans. Each field has shape $(M,)$.

    Arguments:
        scan: The scan, which counts from 0.
        first: The first station $a$, as an index into the stations of the array.
        second: The second station $b$.
        u: The distance of $b$ to the east of $a$, seen from the source, in wavelengths.
        v: That to the north.
        sigma: The standard deviation of the thermal noise in real and imaginary part each, in Jy.
    """

    scan: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    sigma: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scan)

    def only(self, kept: NDArray[np.bool_]) -> "Coverage":
        r"""Returns the visibilities that are kept, where `kept` has shape $(M,)$."""
        return Coverage(*(values[kept] for values in vars(self).values()))


@dataclass(frozen=True)
class TelescopeArray:
    r"""Telescopes that look at a source during a day.

    Arguments:
        stations: The names of the stations, from `STATIONS`.
        source: The source: `"M87"` or `"Sgr A*"`.
        scans: The number of scans, at equal steps of the time in which at least four stations see the source.
        elevation: The lowest elevation of the source above the horizon, in degrees.
        frequency: The frequency, in GHz.
        bandwidth: The bandwidth $\Delta\nu$, in GHz.
        duration: The length $\tau$ of a scan, in s.
    """

    stations: Sequence[str] = tuple(STATIONS)
    source: str = "M87"
    scans: int = 16
    elevation: float = 10.0
    frequency: float = 230.0
    bandwidth: float = 2.0
    duration: float = 300.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "stations", tuple(self.stations))
        unknown = [name for name in self.stations if name not in STATIONS]
        if unknown:
            raise UsageError(f"stations: {', '.join(unknown)} is not one of {', '.join(STATIONS)}")
        if len(set(self.stations)) < max(LEAST, len(self.stations)):
            raise UsageError(f"stations={list(self.stations)}: at least {LEAST} are needed, each of them once")
        if self.source not in SOURCES:
            raise UsageError(f"source={self.source!r} is not one of {', '.join(SOURCES)}")
        require(self, scans=0, frequency=0.0, bandwidth=0.0, duration=0.0)
        if not 0 <= self.elevation < 90:
            raise UsageError(f"elevation={self.elevation}: it is from 0 to 90 degrees")

    def _source(self, turn: NDArray) -> NDArray[np.float64]:
        r"""The direction of the source, with shape $(*, 3)$, when it is above a longitude (in radians)."""
        declination = np.radians(SOURCES[self.source])
        flat = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)], axis=-1)
        return np.asarray(np.cos(declination) * flat + np.sin(declination) * np.array([0.0, 0.0, 1.0]))

    def _seen(self, turn: NDArray) -> NDArray[np.bool_]:
        r"""Whether each station sees the source, with shape $(*, stations)$."""
        up = np.stack([STATIONS[name].up for name in self.stations])
        return np.asarray(self._source(turn) @ up.T >= np.sin(np.radians(self.elevation)))

    @property
    def turns(self) -> NDArray[np.float64]:
        r"""The longitudes above which the source is during the scans, in radians, with shape $(scans,)$."""
        day = -2 * np.pi * np.arange(MINUTES) / MINUTES  # the source moves to the west
        good = day[self._seen(day).sum(axis=1) >= LEAST]
        if len(good) < self.scans:
            raise UsageError(
                f"{LEAST} of the stations {', '.join(self.stations)} see {self.source} for {len(good)} minutes, which "
                f"are too few for scans={self.scans}"
            )
        return np.asarray(good[((np.arange(self.scans) + 0.5) * len(good) / self.scans).astype(int)])

    def coverage(self) -> Coverage:
        r"""Returns the visibilities of all pairs of stations that see the source in a scan."""
        declination = np.radians(SOURCES[self.source])
        places = np.stack([STATIONS[name].place for name in self.stations]) * (self.frequency * 1e9 / LIGHT)
        sefd = np.array([STATIONS[name].sefd for name in self.stations])
        scale = EFFICIENCY * np.sqrt(2 * self.bandwidth * 1e9 * self.duration)
        rows = []
        for scan, turn in enumerate(self.turns):
            east = np.array([-np.sin(turn), np.cos(turn), 0.0])
            north = np.array([0.0, 0.0, np.cos(declination)]) - np.sin(declination) * np.array(
                [np.cos(turn), np.sin(turn), 0.0]
            )
            for a, b in combinations(np.flatnonzero(self._seen(turn)), 2):
                away = places[b] - places[a]
                rows.append((scan, a, b, away @ east, away @ north, np.sqrt(sefd[a] * sefd[b]) / scale))
        scans, first, second, u, v, sigma = zip(*rows, strict=True)
        return Coverage(*(np.array(part) for part in (scans, first, second, u, v, sigma)))

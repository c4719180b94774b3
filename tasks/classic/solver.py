r"""Ordinary differential equations: the pair of Dormand and Prince, with steps that follow the error."""

__all__ = ["dormand_prince"]

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.compiling import compiled

SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0  # of the next step
MOST = 100_000  # steps; a solution that needs more is given up as not a number


def dormand_prince(rate: Callable[..., None]) -> Callable[..., NDArray]:
    r"""Returns a compiled solver of $u' = f(u, y)$.

    Arguments:
        rate: A compiled function of `(u, y, out)` that writes $f(u, y)$ into `out`.

    Returns:
        A function of the parameters $y$ $(n, d)$, the start $u_0$ $(k,)$, the times $(T,)$ and the tolerance of a step
        (absolute, on all of $u$), which returns the solutions at the times, with shape $(n, T, k)$. The first time is
        that of the start.

    References:
        | A family of embedded Runge-Kutta formulae (Dormand & Prince 1980)
    """

    return compiled()(_solver(rate))


def _solver(rate: Any) -> Callable[..., NDArray]:
    def solve(parameters: NDArray, start: NDArray, times: NDArray, tolerance: float) -> NDArray:
        dim = len(start)
        out = np.full((len(parameters), len(times), dim), np.nan)
        k1, k2, k3, k4, k5, k6, k7 = np.empty((7, dim))
        stage, new = np.empty(dim), np.empty(dim)
        for n in range(len(parameters)):
            y = parameters[n]
            u = start.copy()
            out[n, 0] = u
            step, taken = 0.01, 0
            rate(u, y, k1)
            for i in range(1, len(times)):
                now = times[i - 1]
                while now < times[i] and taken < MOST:
                    taken += 1
                    last = now + step >= times[i]
                    h = times[i] - now if last else step
                    for d in range(dim):
                        stage[d] = u[d] + h * k1[d] / 5
                    rate(stage, y, k2)
                    for d in range(dim):
                        stage[d] = u[d] + h * (3 / 40 * k1[d] + 9 / 40 * k2[d])
                    rate(stage, y, k3)
                    for d in range(dim):
                        stage[d] = u[d] + h * (44 / 45 * k1[d] - 56 / 15 * k2[d] + 32 / 9 * k3[d])
                    rate(stage, y, k4)
                    for d in range(dim):
                        stage[d] = u[d] + h * (
                            19372 / 6561 * k1[d] - 25360 / 2187 * k2[d] + 64448 / 6561 * k3[d] - 212 / 729 * k4[d]
                        )
                    rate(stage, y, k5)
                    for d in range(dim):
                        stage[d] = u[d] + h * (
                            9017 / 3168 * k1[d]
                            - 355 / 33 * k2[d]
                            + 46732 / 5247 * k3[d]
                            + 49 / 176 * k4[d]
                            - 5103 / 18656 * k5[d]
                        )
                    rate(stage, y, k6)
                    for d in range(dim):
                        new[d] = u[d] + h * (
                            35 / 384 * k1[d]
                            + 500 / 1113 * k3[d]
                            + 125 / 192 * k4[d]
                            - 2187 / 6784 * k5[d]
                            + 11 / 84 * k6[d]
                        )
                    rate(new, y, k7)
                    error = 0.0
                    for d in range(dim):
                        # The difference between the solutions of fifth and of fourth order.
                        off = h * (
                            71 / 57600 * k1[d]
                            - 71 / 16695 * k3[d]
                            + 71 / 1920 * k4[d]
                            - 17253 / 339200 * k5[d]
                            + 22 / 525 * k6[d]
                            - k7[d] / 40
                        )
                        error = max(error, abs(off) / tolerance)
                    if error <= 1:
                        now = times[i] if last else now + h
                        u[:] = new
                        k1[:] = k7
                    factor = GROW if error < 1e-10 else min(GROW, max(SHRINK, SAFETY * error**-0.2))
                    if not np.isfinite(error):
                        factor = SHRINK
                    # A step cut short by an output time says little about the length of the next one.
                    step = max(step, h * factor) if last and error <= 1 else h * factor
                if taken >= MOST:
                    break
                out[n, i] = u
        return out

    return solve

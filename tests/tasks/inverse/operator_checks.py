r"""What every linear operator must satisfy."""

import numpy as np
import torch


def images(operator, count=3, seed=0, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(seed).standard_normal((count, *operator.event)), dtype=dtype)


def is_adjoint(operator):
    r"""Asserts $\langle A y, x \rangle = \langle y, A^\top x \rangle$ in double precision, and about so in single."""
    y = images(operator)
    x = torch.tensor(np.random.default_rng(1).standard_normal((3, *operator.data)))
    left, right = (operator.forward(y) * x).flatten(1).sum(1), (y * operator.adjoint(x)).flatten(1).sum(1)
    scale = operator.forward(y).flatten(1).norm(dim=1) * x.flatten(1).norm(dim=1)
    assert ((left - right).abs() / scale).max() < 1e-10
    assert operator.forward(y.float()).dtype == operator.adjoint(x.float()).dtype == torch.float32
    pairs = (operator.forward(y), operator.forward(y.float())), (operator.adjoint(x), operator.adjoint(x.float()))
    for exact, single in pairs:
        assert (exact - single).norm() < 1e-5 * exact.norm()


def has_basis(operator):
    r"""Asserts that $V S^2 V^\top = A^\top A$, with orthonormal $V$."""
    y, basis = images(operator), operator.basis
    gram = operator.gram(y)
    assert (basis.images(basis.squares * basis.along(y)) - gram).norm() < 1e-5 * gram.norm()
    c = torch.tensor(np.random.default_rng(2).standard_normal((3, len(basis.squares))))
    assert (basis.along(basis.images(c)) - c).norm() < 1e-5 * c.norm()
    for dtype in (torch.float32, torch.float64):
        assert basis.images(basis.along(y.to(dtype))).dtype == dtype


def has_white_noise(problem, image, repeats=400):
    r"""Asserts mean and variance of the noise, and that the misfit of the truth is one."""
    operator = problem.operator()
    x = problem.measure(np.repeat(image[None], repeats, axis=0), np.random.default_rng(3))
    assert x.dtype == np.float32
    assert x.shape == (repeats, *problem.data)
    away = (x - operator.forward(torch.tensor(image[None], dtype=torch.float64)).numpy()) / operator.noise
    assert abs(away.mean()) < 4 / np.sqrt(away.size)
    assert abs(np.square(away).mean() - 1) < 4 * np.sqrt(2 / away.size)
    size = away[0].size
    misfit = operator.misfit(torch.tensor(image[None], dtype=torch.float64), torch.tensor(x, dtype=torch.float64))
    assert abs(misfit.mean() - 1) < 4 * np.sqrt(2 / size / repeats)

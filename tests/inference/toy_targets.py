r"""Targets whose posterior is known, or can be had by brute force."""

import numpy as np
from scipy import special, stats


class Gaussian:
    r"""A correlated normal likelihood, cut by the box."""

    low, high = np.array([-1.0, 0.0]), np.array([1.0, 3.0])
    mean, covariance = np.array([0.7, 0.4]), np.array([[0.5, -0.55], [-0.55, 0.9]])

    def __init__(self):
        self.precision = np.linalg.inv(self.covariance)
        self.constant = -0.5 * np.linalg.slogdet(2 * np.pi * self.covariance)[1]

    def log_likelihood(self, theta):
        return self.log_likelihood_gradient(theta)[0]

    def log_likelihood_gradient(self, theta):
        slope = (self.mean - theta) @ self.precision
        return self.constant - 0.5 * ((self.mean - theta) * slope).sum(axis=1), slope

    def fisher(self, theta):
        return np.broadcast_to(self.precision, (len(theta), 2, 2))

    @property
    def log_evidence(self):
        inside = stats.multivariate_normal.cdf(
            self.high, self.mean, self.covariance, lower_limit=self.low, abseps=1e-8, releps=1e-8
        )
        return np.log(inside / np.prod(self.high - self.low))

    def grid(self, side=1000):
        r"""The midpoints of a grid over the box and their posterior weights."""
        axes = [
            low + (np.arange(side) + 0.5) / side * (high - low) for low, high in zip(self.low, self.high, strict=True)
        ]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        return points, special.softmax(self.log_likelihood(points))


class Pressed:
    r"""A normal law in a box that begins a hundred standard deviations from its mean, and five others inside it."""

    low, high = np.zeros(6), np.ones(6)
    mean, width = np.array([-2.0, 0.3, 0.4, 0.5, 0.6, 0.7]), np.array([0.02, 0.02, 0.02, 0.02, 0.02, 0.02])

    def log_likelihood(self, theta):
        return self.log_likelihood_gradient(theta)[0]

    def log_likelihood_gradient(self, theta):
        z = (theta - self.mean) / self.width
        return -0.5 * (z**2).sum(axis=1), -z / self.width

    def fisher(self, theta):
        return np.broadcast_to(np.diag(self.width**-2), (len(theta), 6, 6))

    @property
    def exact_mean(self):
        cut = stats.truncnorm((self.low - self.mean) / self.width, (self.high - self.mean) / self.width)
        return self.mean + self.width * cut.mean()


class Blind(Gaussian):
    r"""The same without a Fisher information."""

    fisher = None


class Circle:
    r"""A von Mises law on a circle whose seam goes through its mode, and a coordinate that is cut by a wall."""

    low, high = np.array([0.0, 0.0]), np.array([np.pi, 1.0])
    periodic = np.array([True, False])
    concentration, mode, rate = 3.0, 0.1, 4.0

    def log_likelihood(self, theta):
        return self.log_likelihood_gradient(theta)[0]

    def log_likelihood_gradient(self, theta):
        angle = 2 * (theta[:, 0] - self.mode)
        value = self.concentration * np.cos(angle) - self.rate * theta[:, 1]
        slope = np.stack([-2 * self.concentration * np.sin(angle), np.full(len(theta), -self.rate)], axis=1)
        return value, slope

    @property
    def log_evidence(self):
        return np.log(special.i0(self.concentration) * -np.expm1(-self.rate) / self.rate)


class Mixture:
    r"""Two separate modes with weights .3 and .7 and different widths."""

    low, high = np.array([0.0, -4.0]), np.array([2.0, 4.0])
    weights, means, widths = np.array([0.3, 0.7]), np.array([[0.4, -2.0], [1.5, 2.0]]), np.array([0.08, 0.05])

    def _parts(self, theta):
        width = self.widths[:, None] * (self.high - self.low)
        z = (theta[:, None] - self.means) / width
        return np.log(self.weights) - 0.5 * (z**2).sum(axis=2) - np.log(2 * np.pi * width.prod(axis=1)), -z / width

    def log_likelihood(self, theta):
        return special.logsumexp(self._parts(theta)[0], axis=1)

    def log_likelihood_gradient(self, theta):
        parts, slopes = self._parts(theta)
        share = special.softmax(parts, axis=1)
        return special.logsumexp(parts, axis=1), (share[:, :, None] * slopes).sum(axis=1)

    @property
    def log_evidence(self):
        return -np.log(np.prod(self.high - self.low))  # the modes are five widths from every wall


class Sources:
    r"""Sources $(x, I)$ of a common width on a detector of one dimension: the image is linear in every $I$."""

    pixels = np.linspace(0, 1, 24)

    def __init__(self, data, count=3):
        self.data = np.asarray(data)
        self.count = count
        self.low = np.array([0.06] + [0.0, 0.5] * count)
        self.high = np.array([0.2] + [1.0, 2.0] * count)
        self.groups = 1 + np.arange(2 * count).reshape(count, 2)
        self.linear = self.groups[:, 1]
        self.constant = -0.5 * len(self.pixels) * np.log(2 * np.pi)

    @classmethod
    def observed(cls, rng, count=3):
        r"""Draws a truth from the prior and its data; returns the target and the truth."""
        target = cls(np.zeros(len(cls.pixels)), count)
        truth = rng.uniform(target.low, target.high)
        return cls(target._images(truth[None])[0][0] + rng.standard_normal(len(cls.pixels)), count), truth

    def _images(self, theta):
        width, (x, intensity) = theta[:, 0, None, None], np.moveaxis(theta[:, self.groups], -1, 0)
        z = (self.pixels - x[:, :, None]) / width
        profile = np.exp(-0.5 * z**2)
        return np.einsum("wgp,wg->wp", profile, intensity), profile, z, width, intensity[:, :, None]

    def _jacobian(self, theta):
        image, profile, z, width, intensity = self._images(theta)
        jacobian = np.empty((*theta.shape, len(self.pixels)))
        jacobian[:, 0] = (intensity * profile * z**2 / width).sum(axis=1)
        jacobian[:, self.groups[:, 0]] = intensity * profile * z / width
        jacobian[:, self.groups[:, 1]] = profile
        return image, jacobian

    def log_likelihood(self, theta):
        return self.constant - 0.5 * ((self.data - self._images(theta)[0]) ** 2).sum(axis=1)

    def log_likelihood_gradient(self, theta):
        image, jacobian = self._jacobian(theta)
        residual = self.data - image
        return self.constant - 0.5 * (residual**2).sum(axis=1), np.einsum("wip,wp->wi", jacobian, residual)

    def fisher(self, theta):
        jacobian = self._jacobian(theta)[1]
        return np.einsum("wip,wjp->wij", jacobian, jacobian)

    def linear_terms(self, theta):
        profile = self._images(theta)[1]
        return np.einsum("wip,wjp->wij", profile, profile), profile @ self.data


def agrees(estimates, exact, error=0.0):
    r"""Whether the means of independent runs $(runs, ...)$ are within four standard errors of the exact values."""
    estimates = np.asarray(estimates)
    stderr = np.hypot(estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates)), error)
    return np.abs(estimates.mean(axis=0) - exact) < 4 * stderr

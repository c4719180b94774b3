r"""The lensing simulator against caustics, finite differences and lens theory."""

from dataclasses import replace

import numpy as np
import pytest
from mira_bench.tasks.lensing import LensModel, Sersic
from mira_bench.tasks.lensing.reference import caustics_parameters, caustics_simulator, reference_images

import mira_bench as mb

# caustics builds its cosmology with a call that NumPy will not support for ever.
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")

FAINT = (Sersic(), Sersic(), Sersic())
BRIGHT = (Sersic(1.7, 0.35, 0.9, 0.3), Sersic(1.9, 0.26, 0.64, 1.2), Sersic(2.3, 0.37, 0.85, 2.0))
MODELS = [
    LensModel("epl", FAINT),
    LensModel("sie", FAINT),
    LensModel("epl", FAINT[:1]),
    LensModel("sie", FAINT[:1]),
    LensModel("epl", BRIGHT),
    LensModel("sie", BRIGHT),
]


@pytest.fixture(params=MODELS, ids=lambda m: f"{m.kind}-{len(m.sources)}-{m.sources[0].n}")
def model(request):
    return request.param


def double(model):
    r"""The same model in double precision, with the terms of caustics."""
    return replace(model, dtype="float64", terms=18)


def prior(model, count, rng):
    return rng.uniform(*model.bounds, size=(count, len(model.names)))


def observation(model, rng):
    return model.images(prior(model, 1, rng))[0] + model.noise * rng.standard_normal((model.pixels, model.pixels))


def resolution(model, images):
    r"""What single precision resolves: the cusps of the bright example leave 1e-5 of the peak, also in caustics."""
    return 1e-4 if model.sources[0].n == 1 else 1e-4 * images.max()


def difference(call, theta, step):
    r"""Central differences by every parameter, along the second axis."""
    steps = step * np.eye(theta.shape[1])
    return np.stack([(call(theta + h) - call(theta - h)) / (2 * step) for h in steps], axis=1)


@pytest.mark.parametrize("pixels", [100, 24, 25])
def test_images_equal_caustics(rng, model, pixels):
    model = replace(model, pixels=pixels)
    theta = prior(model, 8, rng)
    theta[:4, 1] = model.bounds[0][1]  # the flattest lens, whose series converges the slowest
    exact = reference_images(double(model), theta)
    tolerance = resolution(model, exact)
    assert np.abs(model.images(theta) - reference_images(model, theta)).max() < tolerance
    assert np.abs(model.images(theta) - exact).max() < tolerance
    assert np.abs(double(model).images(theta) - exact).max() < 1e-12 * exact.max()


def test_log_likelihood_is_that_of_the_images(rng, model):
    model = replace(model, noise=0.7)
    theta, data = prior(model, 6, rng), observation(model, rng)
    expected = -0.5 * ((data - double(model).images(theta)) ** 2).sum((1, 2)) / 0.7**2
    assert np.allclose(double(model).log_likelihood(theta, data), expected, rtol=1e-12)
    assert np.abs(model.log_likelihood(theta, data) - expected).max() < 2e-6 * np.abs(expected).max()


def test_gradient_and_fisher_equal_finite_differences(rng, model):
    exact = replace(double(model), noise=0.7, pixels=61)  # odd: one pixel is the center of the lens
    theta, data = prior(exact, 4, rng), observation(exact, rng)
    value, gradient, fisher = exact.log_likelihood_fisher(theta, data)
    assert np.array_equal(value, exact.log_likelihood(theta, data))
    scale = np.sqrt(np.einsum("wii->wi", fisher))  # what a parameter moves the likelihood by
    slope = difference(lambda t: exact.log_likelihood(t, data), theta, 1e-6)
    assert (np.abs(gradient - slope) / scale).max() < 1e-3
    jacobian = difference(exact.images, theta, 1e-6).reshape(4, len(exact.names), -1)
    expected = np.einsum("wip,wjp->wij", jacobian, jacobian) / 0.7**2
    assert (np.abs(fisher - expected) / scale[:, :, None] / scale[:, None]).max() < 1e-5


def test_single_precision_gradient_and_fisher(rng, model):
    theta, data = prior(model, 6, rng), observation(model, rng)
    value, gradient, fisher = double(model).log_likelihood_fisher(theta, data)
    single = model.log_likelihood_fisher(theta, data)
    scale = np.sqrt(np.einsum("wii->wi", fisher))
    assert np.abs(single[0] - value).max() < 2e-6 * np.abs(value).max()
    assert np.abs(single[1] - gradient).max() < 1e-3 * np.abs(gradient).max()
    assert (np.abs(single[2] - fisher) / scale[:, :, None] / scale[:, None]).max() < 1e-3
    for a, b in zip(model.log_likelihood_gradient(theta, data), single[:2], strict=True):
        assert np.array_equal(a, b)


def test_gradient_equals_that_of_caustics(rng):
    torch = pytest.importorskip("torch")
    model = double(LensModel())
    theta, data = prior(model, 2, rng), observation(model, rng)
    simulator, target = caustics_simulator(model), torch.as_tensor(data)
    for walker, ours in zip(theta, model.log_likelihood_gradient(theta, data)[1], strict=True):
        v = caustics_parameters(model, walker[None])[0].requires_grad_()
        (-0.5 * ((target - simulator(v)) ** 2).sum()).backward()
        theirs = v.grad.numpy()[[2, 0, 1, *range(3, 13)]]
        assert np.allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())


def test_image_is_linear_in_the_intensities(rng, model):
    model = double(model)
    theta, data = prior(model, 5, rng), observation(model, rng)
    n = len(model.sources)
    columns = np.arange(len(model.names) - 3 * n + 2, len(model.names), 3)
    design = []
    for i in range(n):
        alone = theta.copy()
        alone[:, columns] = np.eye(n)[i]
        design.append(model.images(alone).reshape(5, -1))
    design = np.stack(design, axis=1)
    assert np.allclose(np.einsum("wip,wi->wp", design, theta[:, columns]), model.images(theta).reshape(5, -1))
    gram, projection = model.intensity_gram(theta, data)
    assert np.allclose(gram, np.einsum("wip,wjp->wij", design, design), rtol=1e-12)
    assert np.allclose(projection, design @ data.ravel(), rtol=1e-10)
    single = replace(model, dtype="float32", terms=12).intensity_gram(theta, data)
    assert np.abs(single[0] - gram).max() < 1e-4 * np.abs(gram).max()
    assert np.abs(single[1] - projection).max() < 1e-4 * np.abs(projection).max()


def test_angle_is_periodic(rng, model):
    theta = prior(model, 5, rng)
    turned = theta + np.pi * model.periodic
    assert model.periodic.sum() == 1
    assert np.abs(double(model).images(theta) - double(model).images(turned)).max() < 1e-11
    images = model.images(theta)
    assert np.abs(model.images(turned) - images).max() < resolution(model, images)


@pytest.mark.parametrize("sources", [FAINT, BRIGHT[:2]])
def test_sie_is_an_epl_with_slope_two(rng, sources):
    sie, epl = LensModel("sie", sources), LensModel("epl", sources)
    theta, data = prior(sie, 5, rng), observation(sie, rng)
    full = sie.complete(theta)
    assert np.array_equal(full[:, 3], np.full(5, 2.0))
    assert np.array_equal(sie.images(theta), epl.images(full))
    free = [i for i, name in enumerate(epl.names) if name != "gamma"]
    value, gradient, fisher = epl.log_likelihood_fisher(full, data)
    assert np.array_equal(sie.log_likelihood_fisher(theta, data)[0], value)
    assert np.array_equal(sie.log_likelihood_fisher(theta, data)[1], gradient[:, free])
    assert np.array_equal(sie.log_likelihood_fisher(theta, data)[2], fisher[:, free][:, :, free])


def test_einstein_ring():
    # Behind a round isothermal lens every ray is deflected by b: a source in the center becomes a ring.
    source = Sersic(n=1.0, radius=0.2, q=1.0, phi=0.0)
    model = double(LensModel("sie", (source,), pixels=101))
    theta = np.array([[1.2, 1.0, 0.3, 0.0, 0.0, 0.5]])
    side = (np.arange(101) - 50) * 0.05
    radius = np.hypot(*np.meshgrid(side, side))
    expected = 0.5 * np.exp(-source.k * (np.abs(radius - 1.2) / 0.2 - 1))
    expected[50, 50] = 0.5 * np.exp(source.k)  # by symmetry the center is not deflected
    assert np.allclose(model.images(theta)[0], expected, rtol=1e-10)
    for either in (model, replace(model, dtype="float32", terms=12)):
        assert all(np.isfinite(x).all() for x in either.log_likelihood_fisher(theta, expected))


def test_half_of_the_light_is_inside_the_effective_radius():
    radius = np.linspace(0, 400, 400001) + 5e-4
    for n in (1.0, 2.3):
        source = Sersic(n=n)
        light = radius * np.exp(-source.k * (radius ** (1 / n) - 1))
        assert abs(light[radius < 1].sum() / light.sum() - 0.5) < 1e-3


def test_walkers_do_not_depend_on_each_other(rng):
    model = LensModel()
    theta, data = prior(model, 7, rng), observation(model, rng)
    together = model.log_likelihood_fisher(theta, data)
    for w in range(7):
        for whole, one in zip(together, model.log_likelihood_fisher(theta[w : w + 1], data), strict=True):
            assert np.array_equal(whole[w : w + 1], one)
    assert model.images(theta[:0]).shape == (0, 100, 100)


CODE = """
import numpy as np
from mira_bench.tasks.lensing import LensModel
model = LensModel()
rng = np.random.default_rng(0)
theta, data = rng.uniform(*model.bounds, size=(20, 13)), rng.normal(size=(100, 100))
for array in model.log_likelihood_fisher(theta, data):
    print(array.tobytes().hex())
"""


def test_fresh_and_cached_code_give_the_same_bits(fresh_and_cached):
    assert [len(line) // 16 for line in fresh_and_cached(CODE).split()] == [20, 20 * 13, 20 * 13 * 13]


def test_names_and_bounds():
    model = LensModel("sie", FAINT[:2])
    assert model.names == ("b", "q", "phi", "x1", "y1", "I1", "x2", "y2", "I2")
    low, high = model.bounds
    assert low == [1.0, 0.5, 0.0, -0.5, 0.05, 0.4, -0.5, 0.05, 0.4]
    assert high == [1.5, 0.9, np.pi, 0.5, 0.1, 0.8, 0.5, 0.1, 0.8]
    assert LensModel().names[3] == "gamma"
    assert LensModel(sources=list(FAINT)) == LensModel(sources=FAINT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "sis"}, "no lens of kind 'sis'"),
        ({"sources": ()}, "sources is empty"),
        ({"sources": (1.0,)}, "every source must be a Sersic"),
        ({"pixels": 0}, "pixels is 0"),
        ({"pixels": 10.5}, "pixels is 10.5"),
        ({"pixelscale": 0.0}, "pixelscale is 0.0"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"noise": float("nan")}, "noise is nan"),
        ({"dtype": "float16"}, "dtype is 'float16'"),
        ({"terms": 1}, "terms is 1"),
    ],
)
def test_bad_models_are_refused(options, message):
    with pytest.raises(mb.UsageError, match=message):
        LensModel(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0.1}, "index n"),
        ({"radius": 0.0}, "effective radius"),
        ({"q": 1.5}, "axis ratio"),
        ({"phi": np.inf}, "phi"),
    ],
)
def test_bad_sources_are_refused(options, message):
    with pytest.raises(mb.UsageError, match=message):
        Sersic(**options)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 0.0, "b = 0.0 at walker 1; it must be positive"),
        (1, 1.01, "q = 1.01 at walker 1; it must be above 0 and at most 1"),
        (1, np.nan, "q = nan"),
        (3, 1.0, "gamma = 1.0 at walker 1; it must be above 1"),
        (4, np.inf, "x1 = inf at walker 1; it must be finite"),
    ],
)
def test_bad_walkers_are_refused(rng, column, value, message):
    model = LensModel()
    theta = prior(model, 3, rng)
    theta[1, column] = value
    with pytest.raises(mb.UsageError, match=message):
        model.images(theta)


def test_walkers_may_leave_the_prior_box(rng):
    model = double(LensModel())
    theta = prior(model, 3, rng)
    theta[:, :4] = [[2.0, 1.0, -7.0, 2.9], [0.1, 0.35, 9.0, 1.2], [1.0, 0.6, 0.0, 2.5]]
    theta[:, 6] = -1.0
    exact = reference_images(model, theta)
    assert np.allclose(model.images(theta), exact, atol=1e-11 * np.abs(exact).max())


def test_bad_shapes_and_images_are_refused(rng):
    model = LensModel()
    theta, data = prior(model, 2, rng), observation(model, rng)
    with pytest.raises(mb.UsageError, match=r"theta has shape \(13,\)"):
        model.images(theta[0])
    with pytest.raises(mb.UsageError, match=r"\(W, 13\), one column for each of b, q, phi"):
        model.images(theta[:, :12])
    with pytest.raises(mb.UsageError, match=r"data has shape \(99, 100\)"):
        model.log_likelihood(theta, data[1:])
    data[3, 5] = np.nan
    with pytest.raises(mb.UsageError, match=r"data is nan at index \(3, 5\)"):
        model.log_likelihood_gradient(theta, data)

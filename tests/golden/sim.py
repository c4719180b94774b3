from scipy import stats

prior = {"mean": stats.norm(0, 1), "width": stats.uniform(0.5, 1.5)}


def simulator(y, rng):
    return y[:, :1] + y[:, 1:] * rng.normal(size=(len(y), 3))

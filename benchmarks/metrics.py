r"""How long does each metric of the default run take? `python benchmarks/metrics.py [fiducials] [samples]`

Every default metric looks at the same blocks of the task `gaussian` (L = 1000, S = 500, one candidate), on one core,
after one pass that compiles. Columns: processor seconds for looking at blocks (shared out over workers in a run), for
putting the records together (done once), and both as a share of all.
"""

import sys
import time

import numpy as np
from mira_bench.tasks.gaussian import Toy

from mira_bench import Block
from mira_bench.metrics import choose_metrics
from mira_bench.ranks.kernel import one_blas_thread
from mira_bench.ranks.scaling import Scaling, as_bounds

SIZE = 100


def main(fiducials: int = 1000, samples: int = 500) -> None:
    task = Toy()
    rng = np.random.default_rng(0)
    drawn = task.simulate(fiducials, rng)
    posterior = task.exact_posterior()
    values, reference = (posterior.sample(drawn.x, samples, rng) for _ in range(2))
    scaling = Scaling(drawn.y, task=as_bounds(task.bounds, drawn.y.shape[1]))

    def block(start: int, stop: int) -> Block:
        rows = slice(start, stop)
        index = np.arange(start, min(stop, fiducials))
        return Block(drawn.y[rows], values[rows], index, scaling, 0, x=drawn.x[rows], reference=lambda: reference[rows])

    spent = {}
    with one_blas_thread():
        for name, metric in choose_metrics(None).items():
            metric.reduce([metric.observe(block(0, 20))], Scaling(drawn.y[:20], task=scaling.task))
            start = time.process_time()
            records = [metric.observe(block(i, i + SIZE)) for i in range(0, fiducials, SIZE)]
            middle = time.process_time()
            metric.reduce(records, scaling)
            spent[name] = middle - start, time.process_time() - middle
    total = sum(map(sum, spent.values()))
    print(f"{'metric':12s} observe  reduce  share   (L = {fiducials}, S = {samples}, one candidate, one core)")
    for name, (observe, reduce) in spent.items():
        print(f"{name:12s} {observe:6.2f} s {reduce:6.2f} s {(observe + reduce) / total:5.0%}")
    print(f"{'all':12s} {total:6.2f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

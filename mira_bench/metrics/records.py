r"""What metrics keep of a block, and how they put the blocks together again."""

__all__ = ["joined", "rank_record", "ranks_of"]

import numpy as np
from numpy.typing import NDArray

from ..metric import Block, Record


def joined(records: list[Record], key: str) -> NDArray:
    r"""Returns an array that was kept of every block, for all fiducials.

    Arguments:
        records: The records of all blocks, in their order.
        key: The name of the array in each record.
    """

    return np.concatenate([record[key] for record in records])


def rank_record(ranks: NDArray[np.int32], block: Block) -> Record:
    r"""Returns the record of a metric that keeps the ranks of the truths.

    Arguments:
        ranks: The ranks, with shape $(L, R)$.
        block: The block that they were found in.
    """

    return {"ranks": ranks, "samples": np.array(block.samples.shape[1]), "seed": np.array(block.seed)}


def ranks_of(records: list[Record]) -> tuple[NDArray[np.int32], int, int]:
    r"""Returns the ranks of all fiducials, the number of samples $S$ and the seed, which `rank_record` kept."""

    return joined(records, "ranks"), int(records[0]["samples"]), int(records[0]["seed"])

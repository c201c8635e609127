"""What a single item takes by its weight, on a CPU, where nothing stops an item that does not fit.

Items that are predicted to exceed the budget alone are flagged and not run. The prediction must not depend on what else
the process holds, nor on what earlier runs measured, or the same call would give different answers: so it is made from
a few light items that are run on their own, by the bytes of the tensors that they make.
"""

import numpy as np

from ...core.memory.cost import Cost
from ...core.memory.oom import is_out_of_memory
from ...core.memory.probe import peak_bytes
from .executor import Executor
from .sources import ItemSource

_STEP = 4  # times the weight of an item: that of the next, and how far beyond the last the line is trusted
_MOST = 6  # items to run


def item_cost(executor: Executor, items: ItemSource, limit: int) -> Cost | None:
    """The cost of an item by its weight; None where all weigh the same, or a stream will tell.

    Runs the lightest item, then heavier ones, as long as they are predicted to fit.
    """
    weights = items.weights
    if weights is None or items.forward or not len(weights) or weights.min() == weights.max():
        return None
    order = np.argsort(weights, kind="stable")
    ascending, rank = weights[order], 0
    samples: list[tuple[float, float]] = []
    cost = None
    while len(samples) < _MOST:
        position, weight = int(order[rank]), float(ascending[rank])
        loaded = items.load(position, position + 1)
        try:
            peak = peak_bytes(lambda loaded=loaded: executor.run(loaded), executor.device)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return cost
        samples.append((weight, float(peak)))
        cost = Cost.fit(samples[-2:], margin=0.0)
        if weight * _STEP >= ascending[-1]:
            return cost
        heavier = int(np.searchsorted(ascending, weight, side="right"))
        rank = max(heavier, int(np.searchsorted(ascending, _STEP * weight, side="right")) - 1)
        if cost.at(float(ascending[rank])) > limit:
            return cost
    return cost

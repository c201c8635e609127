"""What training takes on the device, by a rough formula: for plans that are made without measuring.

Legend: Q questions and the unknown one, K categories, D value size, N slots, F hidden size.
"""

from ...core.memory.cost import Cost
from ..model.deep_gpcm import DeepGPCMConfig


def step_cost(config: DeepGPCMConfig, steps: int) -> Cost:
    """Bytes of forward and backward by the number of students, with so many steps each: gradients, the tables of
    questions and answers, and what a step saves for the backward pass."""
    Q, K, D, N, F = config.questions + 1, config.categories, config.value_size, config.slots, config.hidden
    tables = Q * (N + F + K) + 3 * Q * K * D
    return Cost(4 * (_weights(config) + 3 * tables), 8 * steps * (6 * D + 8 * F + 10 * K + 2 * N))


def train_bytes(config: DeepGPCMConfig, students: int, steps: int) -> int:
    """Bytes of training with batches of so many students: the step, the weights, and the optimizer's moments and
    average of them."""
    return 4 * 4 * _weights(config) + step_cost(config, steps).at(students)


def _weights(config: DeepGPCMConfig) -> int:
    D, key = config.value_size, config.key_size
    return (
        (config.questions + 1) * (key + config.categories * D)
        + 2 * config.slots * D
        + 2 * D * D
        + (D + key) * config.hidden
    )

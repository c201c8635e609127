"""A stand-in for the library of NVIDIA's driver, with cards that a test makes up."""

from dataclasses import dataclass
from types import SimpleNamespace

GB = 10**9


@dataclass
class Card:
    uuid: str
    total: int
    lost: bool = False


def _memory(card: Card) -> SimpleNamespace:
    if card.lost:
        raise RuntimeError("GPU is lost")
    return SimpleNamespace(total=card.total, free=card.total)


def driver_library(cards: list[Card]) -> SimpleNamespace:
    """NVIDIA's library with some cards."""
    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda index: cards[index],
        nvmlDeviceGetMemoryInfo=_memory,
        nvmlDeviceGetUtilizationRates=lambda card: SimpleNamespace(gpu=50),
        nvmlDeviceGetPowerUsage=lambda card: 300_000,
        nvmlDeviceGetName=lambda card: b"A card",
        nvmlDeviceGetUUID=lambda card: card.uuid,
    )

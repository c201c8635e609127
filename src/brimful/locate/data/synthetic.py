"""Recordings by simulation, many at a time.

Candidates are made in blocks of 4,096 whose random numbers are a function of (seed, block) alone: the words of NumPy's
Philox generator, whose stream is fixed. Those that are not rejected, in order, are the recordings. So the first
thousand are the same however many are asked for, and however many blocks are made at a time.

Legend: C candidates of a block, R receivers.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.base.arguments import as_count, check_type
from ...core.base.errors import ConfigError
from ..physics import prior, tangent_plane
from ..physics.dilution import gdop
from ..physics.prior import TransmitterPrior
from ..physics.propagation import loss_db
from ..physics.scenario import Scenario
from .recordings import MIN_RECEIVERS, Recordings

BLOCK = 4096
_AHEAD = 4  # blocks made at a time, on threads
_HOPELESS = 16  # blocks in a row without a recording
_SITES = 1 << 40  # the number of the block whose words place fixed sites


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    """Uniform random numbers of one block, in order."""

    words: np.random.Philox

    @classmethod
    def of(cls, seed: int, block: int) -> "_Stream":
        return cls(np.random.Philox(key=np.array([seed, block], np.uint64)))

    def uniform(self, *shape: int) -> Tensor:
        """Numbers strictly between 0 and 1."""
        words = self.words.random_raw(int(np.prod(shape))) >> np.uint64(11)
        return torch.from_numpy((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def normal(self, *shape: int) -> Tensor:
        return torch.special.ndtri(self.uniform(*shape))


def generate(
    samples: int, scenario: Scenario | None = None, seed: int = 0, done: Callable[[int], None] | None = None
) -> Recordings:
    """Simulated recordings; see `Scenario` for the model.

    Args:
        samples: how many recordings that are not rejected.
        seed: the same seed gives the same recordings, and the first ones of a longer set.
        done: called with the number of recordings after every few blocks.

    Raises:
        ConfigError: nearly all candidates are rejected.
    """
    samples, scenario = as_count(samples, "samples"), scenario or Scenario()
    check_type(scenario, Scenario, "give a locate.Scenario")
    parts, count = [], 0
    for part in _accepted(scenario, seed, min(_AHEAD, -(-samples // BLOCK))):
        parts.append(part)
        count += len(part)
        if done is not None:
            done(min(count, samples))
        if count >= samples:
            break
    return Recordings.concatenate(parts).select(slice(0, samples))


def _accepted(scenario: Scenario, seed: int, ahead: int) -> Iterator[Recordings]:
    """The recordings of block after block, so many of which are made at a time."""
    sites = fixed_sites(scenario) if scenario.sites == "fixed" else None
    number, empty = 0, 0
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        while True:
            blocks = range(number, number + ahead)
            for part in threads.map(lambda block: simulate_block(scenario, seed, block, sites), blocks):
                empty = 0 if len(part) else empty + 1
                if empty >= _HOPELESS:
                    raise ConfigError(
                        f"of {_HOPELESS * BLOCK:,} simulated recordings in a row all were rejected: with min_snr_db="
                        f"{scenario.min_snr_db}, max_gdop={scenario.max_gdop} and detection_snr_db="
                        f"{scenario.detection_snr_db} "
                        "hardly any can be accepted. Give more power_dbm, a smaller radius_km, or looser limits"
                    )
                yield part
            number += ahead


def fixed_sites(scenario: Scenario) -> Tensor:
    """The sites (R, 2) of fixed receivers, as latitude and longitude: one per ring of equal area, turned by the golden
    angle from one to the next and moved at random, so that no region is left without."""
    R = scenario.receivers
    stream = _Stream.of(scenario.site_seed, _SITES)
    radial, angle = stream.uniform(2, R)
    golden = 2.399963229728653  # radians: what sunflowers turn by from seed to seed
    turn = golden * (torch.arange(R, dtype=torch.float64) + angle - 0.5) + 2 * torch.pi * stream.uniform(1)
    return _disc_to_positions((torch.arange(R, dtype=torch.float64) + radial) / R, turn, scenario)


def _disc_to_positions(area_share: Tensor, turn: Tensor, scenario: Scenario) -> Tensor:
    radius = 1e3 * scenario.radius_km * area_share.sqrt()
    center = torch.tensor([scenario.latitude, scenario.longitude], dtype=torch.float64)
    return tangent_plane.from_plane(
        torch.stack((radius * turn.cos(), radius * turn.sin()), -1), center.expand(*radius.shape, 2)
    )


def simulate_block(scenario: Scenario, seed: int, block: int, sites: Tensor | None) -> Recordings:
    """The recordings of one block of candidates, without those that are rejected."""
    stream, C, R = _Stream.of(seed, block), BLOCK, scenario.receivers
    up = stream.uniform(C, R) < scenario.availability
    if sites is None:
        positions = _disc_to_positions(stream.uniform(C, R), 2 * torch.pi * stream.uniform(C, R), scenario)
    else:
        positions = sites.expand(C, R, 2)
    usable = up.sum(1) >= MIN_RECEIVERS
    up[~usable] = True  # rejected below; here so that nothing has to deal with them
    centroid = tangent_plane.centroid(positions, up)
    plane = tangent_plane.to_plane(positions, centroid[:, None].expand_as(positions))
    transmitter, placed = TransmitterPrior.of(plane, up, scenario).sample(stream.uniform(C, prior.NUMBERS))
    power = scenario.power_dbm + scenario.power_sd_db * stream.normal(C)
    shadowing, noise, figure, oscillator = stream.normal(4, C, R)
    level = power[:, None] - loss_db((plane - transmitter[:, None]).square().sum(-1), scenario)
    level = level + scenario.shadowing_db * shadowing + scenario.level_noise_db * noise
    snr = level - (scenario.noise_floor_dbm + scenario.noise_figure_sd_db * figure)
    detected = up & (snr >= scenario.detection_snr_db)
    offset = scenario.frequency_mhz * scenario.oscillator_ppm * (oscillator + stream.normal(C, 1))
    dilution = gdop(plane, transmitter, detected)
    mean_snr = torch.where(detected, snr, 0.0).sum(1) / detected.sum(1).clamp(min=1)
    accepted = usable & placed & (detected.sum(1) >= MIN_RECEIVERS)
    accepted &= (mean_snr >= scenario.min_snr_db) & (dilution <= scenario.max_gdop)
    made = Recordings.of(
        positions=positions,
        mask=up,
        detected=detected,
        snr_db=snr,
        psd_dbm_hz=level - scenario.bandwidth_db,
        frequency_offset_hz=offset,
        transmitter=tangent_plane.from_plane(transmitter, centroid),
        power_dbm=power,
        gdop=dilution,
    )
    return made.select(accepted)

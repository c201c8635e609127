"""Recordings as the tensors that networks and judges see: one definition for training, validation and prediction.

    features  (N, R, 6) float32   snr, power spectral density and frequency offset, scaled to about 0 to 1, and 0 where
                                  nothing was detected; east and north of the receivers' centroid, z-scored; and
                                  whether something was detected
    mask      (N, R) bool         which receivers took part
    target    (N, 2) float32      the transmitter, east and north of the centroid in the same unit
    gdop      (N,) float32
    centroid  (N, 2) float64      latitude, longitude

A sample of ten receivers takes 278 bytes.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from ...core.base.errors import InputError
from ..physics import tangent_plane
from .recordings import Recordings

FEATURES = ("snr", "psd", "frequency_offset", "east", "north", "detected")
SNR, PSD, OFFSET, EAST, NORTH, DETECTED = range(len(FEATURES))


@dataclass(frozen=True, slots=True)
class Scaling:
    """From physical units to features, by the training recordings alone; stored with a model.

    Attributes:
        snr_db, psd_dbm_hz, frequency_offset_hz: the values that become 0 and 1.
        position_m: metres that become 1, the same to the east and to the north, so that directions stay what they are.
    """

    snr_db: tuple[float, float]
    psd_dbm_hz: tuple[float, float]
    frequency_offset_hz: tuple[float, float]
    position_m: float

    @classmethod
    def of(cls, recordings: Recordings) -> Self:
        """The least and the greatest of each measurement, and the deviation of receivers from their centroid."""
        plane = tangent_plane.to_plane(
            recordings.positions, recordings.centroid[:, None].expand_as(recordings.positions)
        )
        deviation = plane[recordings.mask].square().mean().sqrt()
        if not deviation > 0:
            raise InputError("the receivers are all at their centroid, so that distances have no scale; give others")

        def ends(values: Tensor) -> tuple[float, float]:
            there = values[recordings.detected]
            low, high = float(there.min()), float(there.max())
            return low, high if high > low else low + 1.0

        return cls(
            ends(recordings.snr_db),
            ends(recordings.psd_dbm_hz),
            ends(recordings.frequency_offset_hz),
            float(deviation),
        )

    def samples(self, recordings: Recordings) -> dict[str, Tensor]:
        """The tensors of the recordings, as in the table above."""
        centroid = recordings.centroid
        plane = tangent_plane.to_plane(recordings.positions, centroid[:, None].expand_as(recordings.positions))
        columns = [
            torch.where(recordings.detected, (values.double() - low) / (high - low), 0.0)
            for values, (low, high) in (
                (recordings.snr_db, self.snr_db),
                (recordings.psd_dbm_hz, self.psd_dbm_hz),
                (recordings.frequency_offset_hz, self.frequency_offset_hz),
            )
        ]
        columns += [torch.where(recordings.mask, axis / self.position_m, 0.0) for axis in plane.unbind(-1)]
        columns.append(recordings.detected.double())
        return {
            "features": torch.stack(columns, -1).float(),
            "mask": recordings.mask,
            "target": (tangent_plane.to_plane(recordings.transmitter, centroid) / self.position_m).float(),
            "gdop": recordings.gdop,
            "centroid": centroid,
        }

    def levels(self, features: Tensor, bandwidth_db: float) -> Tensor:
        """The measured levels in dBm, from features; of receivers that detected nothing they mean nothing."""
        low, high = self.psd_dbm_hz
        return low + (high - low) * features[..., PSD] + bandwidth_db

    def receivers(self, features: Tensor) -> Tensor:
        """The receivers' places (..., R, 2) in metres from their centroid, from features."""
        return self.position_m * features[..., EAST : NORTH + 1]

    def positions(self, target: Tensor, centroid: Tensor) -> Tensor:
        """Latitude and longitude (..., 2) of targets, or of predictions of them."""
        return tangent_plane.from_plane(self.position_m * target.double(), centroid)


def sample_bytes(receivers: int) -> int:
    """Bytes of one sample, from the table above."""
    return receivers * (4 * len(FEATURES) + 1) + 2 * 4 + 4 + 2 * 8

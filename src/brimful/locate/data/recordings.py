"""Recordings: what several receivers measured of one transmission, and, where it is known, where it came from.

Legend: N recordings, R receivers of a recording at most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ...core.base.formatting import plural
from ..physics import tangent_plane
from ..physics.dilution import gdop

MIN_RECEIVERS = 3
_SAME_PLACE = (
    10.0  # metres: receivers that spread less than this across their main direction are on a line, or together
)


class Fault(IntEnum):
    """Why a recording cannot be located. 0 is none; the codes are those that `predict` gives as status."""

    NONE = 0
    NO_RECEIVERS = 16
    TOO_FEW = 17
    NOT_FINITE = 18
    BAD_POSITION = 19
    TOO_FAR = 20
    SINGULAR = 21


MEANING = {
    Fault.NO_RECEIVERS: "no receiver took part in the recording",
    Fault.TOO_FEW: f"fewer than {MIN_RECEIVERS} receivers detected the transmitter",
    Fault.NOT_FINITE: "a receiver that detected the transmitter has a measurement that is missing or not finite",
    Fault.BAD_POSITION: "a receiver's latitude is outside -90 to 90, its longitude outside -360 to 360, or missing",
    Fault.TOO_FAR: "receivers are more than 1,000 km from their centroid",
    Fault.SINGULAR: "the receivers are at one place or on one line, from which no position follows",
}


@dataclass(frozen=True, slots=True, eq=False)
class Recordings:
    """Recordings as tensors, on the CPU.

    Attributes:
        positions: (N, R, 2) float64, of the receivers: latitude, longitude.
        mask: (N, R), which receivers took part; the others are padding.
        detected: (N, R), which of them detected the transmitter.
        snr_db, psd_dbm_hz, frequency_offset_hz: (N, R) float32, what they measured; NaN where nothing was detected.
        transmitter: (N, 2) float64, latitude and longitude; NaN where they are not known.
        power_dbm: (N,) float32; NaN where it is not known.
        gdop: (N,) float32, at the transmitter; NaN where that is not known.
        names: (N,) texts; the numbers from 0 on by default.
    """

    positions: Tensor
    mask: Tensor
    detected: Tensor
    snr_db: Tensor
    psd_dbm_hz: Tensor
    frequency_offset_hz: Tensor
    transmitter: Tensor
    power_dbm: Tensor
    gdop: Tensor
    names: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        *,
        positions: Any,
        mask: Any,
        detected: Any,
        snr_db: Any,
        psd_dbm_hz: Any,
        frequency_offset_hz: Any,
        transmitter: Any = None,
        power_dbm: Any = None,
        gdop: Any = None,
        names: Any = None,
    ) -> Self:
        """From arrays, which are brought to their types; what nobody detected becomes NaN."""
        mask, N = torch.as_tensor(mask, dtype=torch.bool), len(mask)
        detected = torch.as_tensor(detected, dtype=torch.bool) & mask

        def measured(values: Any) -> Tensor:
            return torch.where(detected, torch.as_tensor(values, dtype=torch.float32), math.nan)

        def known(values: Any, dtype: torch.dtype, *shape: int) -> Tensor:
            return (
                torch.full((N, *shape), math.nan, dtype=dtype) if values is None else torch.as_tensor(values).to(dtype)
            )

        positions = torch.where(mask.unsqueeze(-1), torch.as_tensor(positions, dtype=torch.float64), 0.0)
        return cls(
            positions=positions,
            mask=mask,
            detected=detected,
            snr_db=measured(snr_db),
            psd_dbm_hz=measured(psd_dbm_hz),
            frequency_offset_hz=measured(frequency_offset_hz),
            transmitter=known(transmitter, torch.float64, 2),
            power_dbm=known(power_dbm, torch.float32),
            gdop=known(gdop, torch.float32),
            names=None if names is None else np.asarray(names, dtype=str),
        )

    def __len__(self) -> int:
        return len(self.mask)

    def __repr__(self) -> str:
        located = int(self.transmitter.isfinite().all(1).sum())
        sizes = f"{plural(len(self), 'recording')}, at most {plural(self.receivers, 'receiver')}"
        return f"Recordings({sizes}, {located:,} with a known transmitter)"

    @property
    def receivers(self) -> int:
        return self.mask.shape[1]

    @property
    def centroid(self) -> Tensor:
        """(N, 2), the middle of the receivers: latitude, longitude."""
        return tangent_plane.centroid(self.positions, self.mask)

    @property
    def mean_snr_db(self) -> Tensor:
        """(N,), over the receivers that detected the transmitter; NaN where none did."""
        return torch.where(self.detected, self.snr_db, 0.0).sum(1) / self.detected.sum(1)

    def name(self, index: int) -> str:
        return str(index if self.names is None else self.names[index])

    def select(self, index: Any) -> Self:
        """Some of them: by a slice, a mask or numbers."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        names = values.pop("names")
        chosen = {name: value[index] for name, value in values.items()}
        where = index.numpy() if isinstance(index, Tensor) else index
        return replace(self, **chosen, names=None if names is None else names[where])

    def padded(self, receivers: int) -> Self:
        """The same, with room for so many receivers."""
        more = receivers - self.receivers
        if more <= 0:
            return self
        pad = torch.nn.functional.pad
        per_receiver = ("snr_db", "psd_dbm_hz", "frequency_offset_hz")
        return replace(
            self,
            positions=pad(self.positions, (0, 0, 0, more)),
            mask=pad(self.mask, (0, more)),
            detected=pad(self.detected, (0, more)),
            **{name: pad(getattr(self, name), (0, more), value=math.nan) for name in per_receiver},
        )

    @classmethod
    def concatenate(cls, parts: Sequence["Recordings"]) -> "Recordings":
        """All of them, one after the other. Names are kept where all have some."""
        width = max(part.receivers for part in parts)
        parts = [part.padded(width) for part in parts]
        names = [part.names for part in parts if part.names is not None]
        joined = {
            field.name: torch.cat([getattr(part, field.name) for part in parts])
            for field in fields(cls)
            if field.name != "names"
        }
        return cls(**joined, names=np.concatenate(names) if len(names) == len(parts) else None)

    def with_gdop(self) -> Self:
        """The same, with the dilution of precision wherever the transmitter's position is known."""
        centroid = self.centroid
        plane = tangent_plane.to_plane(self.positions, centroid[:, None].expand_as(self.positions))
        dilution = gdop(plane, tangent_plane.to_plane(self.transmitter, centroid), self.detected)
        known = self.transmitter.isfinite().all(1)
        return replace(self, gdop=torch.where(known, dilution, math.nan).float())

    def faults(self) -> Tensor:
        """(N,) the `Fault` of each recording, as whole numbers."""
        plane = tangent_plane.to_plane(self.positions, self.centroid[:, None].expand_as(self.positions))
        degrees = torch.tensor([90.0, 360.0], dtype=torch.float64)
        misplaced = ~(self.positions.abs() <= degrees).all(-1) & self.mask
        too_far = plane.isnan().any(-1) & self.mask
        measurements = torch.stack((self.snr_db, self.psd_dbm_hz, self.frequency_offset_hz))
        missing = ~measurements.isfinite().all(0) & self.detected
        found = torch.zeros(len(self), dtype=torch.int64)
        for fault, wrong in (  # the gravest last
            (Fault.SINGULAR, _spread(plane, self.mask) < _SAME_PLACE),
            (Fault.TOO_FAR, too_far.any(1)),
            (Fault.NOT_FINITE, missing.any(1)),
            (Fault.BAD_POSITION, misplaced.any(1)),
            (Fault.TOO_FEW, self.detected.sum(1) < MIN_RECEIVERS),
            (Fault.NO_RECEIVERS, ~self.mask.any(1)),
        ):
            found = torch.where(wrong, int(fault), found)
        return found


def _spread(plane: Tensor, mask: Tensor) -> Tensor:
    """The deviation of receivers across the line that fits them best, in metres; infinite where no line does."""
    x, y = torch.where(mask.unsqueeze(-1), plane, 0.0).unbind(-1)
    count = mask.sum(1).clamp(min=1)
    xx, yy, xy = ((one * two).sum(1) / count for one, two in ((x, x), (y, y), (x, y)))
    least = (xx + yy) / 2 - torch.sqrt((xx - yy).square() / 4 + xy.square())
    return torch.where(least.isnan(), math.inf, least.clamp(min=0).sqrt())


def recording_bytes(receivers: int) -> int:
    """Bytes of one recording, by the dtypes above."""
    return receivers * (2 * 8 + 2 * 1 + 3 * 4) + 2 * 8 + 2 * 4

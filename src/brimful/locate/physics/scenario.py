"""What is simulated: where receivers and transmitters are, and how radio gets from one to the other. The options of
`locate generate`, stored with what is generated, and all that the grid posterior knows beside the features."""

import math
from dataclasses import dataclass

from ...core.base.errors import ConfigError
from ...core.declare.config import option

SITES = ("fixed", "random")
MOST_RECEIVERS = 15
THERMAL = -174.0  # dBm per hertz, at room temperature


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A region, its receivers, and the radio. Levels are in dBm at the receiver's input, for antennas without gain.

    A recording has the sites that are up at the time. The transmitter is in their convex hull with probability
    `inside_share`, with equal density there, and otherwise with equal density in the rest of the disc around their
    centroid whose radius is `reach` times the distance of the farthest. A receiver measures

        level = power - loss(distance) + shadowing + level noise        snr = level - noise floor

    and detects the transmitter where snr >= detection_snr_db. Recordings that fewer than three detect, whose mean
    snr over those who do is below min_snr_db, or whose GDOP is above max_gdop are rejected.
    """

    receivers: int = option(10, help="receivers of a recording, at most", ge=3, le=MOST_RECEIVERS)
    sites: str = option(
        "fixed", help="whether receivers are at the same sites in all recordings, or at random ones", choices=SITES
    )
    site_seed: int = option(0, help="seed of the places of fixed receivers", ge=0)
    availability: float = option(0.9, help="share of the time that a receiver is up", gt=0, le=1)
    latitude: float = option(45.0, help="latitude of the region's center", ge=-90, le=90)
    longitude: float = option(8.0, help="longitude of the region's center", ge=-180, le=180)
    radius_km: float = option(50.0, help="radius of the disc that receivers are in", gt=0, le=300)
    reach: float = option(1.5, help="radius of the transmitters' disc, in distances of the farthest receiver", ge=1)
    inside_share: float = option(0.7, help="share of transmitters inside the receivers' hull", ge=0, le=1)
    frequency_mhz: float = option(433.92, help="carrier frequency", gt=0)
    bandwidth_khz: float = option(25.0, help="bandwidth of a receiver", gt=0)
    power_dbm: float = option(10.0, help="mean power of transmitters")
    power_sd_db: float = option(1.5, help="its standard deviation over transmitters", gt=0)
    shadowing_db: float = option(4.0, help="standard deviation of log-normal shadowing", gt=0)
    level_noise_db: float = option(1.0, help="standard deviation of the error in a measured level", ge=0)
    noise_figure_db: float = option(12.0, help="mean noise figure of receivers, man-made noise included")
    noise_figure_sd_db: float = option(2.0, help="its standard deviation over receivers and time", ge=0)
    oscillator_ppm: float = option(1.0, help="standard deviation of the oscillators' frequency errors", ge=0)
    antenna_height_m: float = option(30.0, help="height of receivers above the transmitters", gt=0)
    detection_snr_db: float = option(6.0, help="signal-to-noise ratio from which a receiver detects a transmitter")
    min_snr_db: float = option(10.0, help="least mean signal-to-noise ratio over the receivers that detect it")
    max_gdop: float = option(5.0, help="greatest geometric dilution of precision", gt=0)

    def __post_init__(self) -> None:
        if self.min_snr_db > self.power_dbm - self.loss_at_1_m - self.noise_floor_dbm:
            raise ConfigError(
                f"min_snr_db is {self.min_snr_db}, which no receiver reaches even 1 m from a transmitter of "
                f"{self.power_dbm} dBm; give less, or more power"
            )

    @property
    def loss_at_1_m(self) -> float:
        """Free-space loss over one metre, in dB; it grows by 20 dB for ten times the distance."""
        return 20 * math.log10(4 * math.pi * self.frequency_mhz * 1e6 / 299_792_458.0)

    @property
    def noise_floor_dbm(self) -> float:
        """The mean noise in a receiver's bandwidth."""
        return THERMAL + self.bandwidth_db + self.noise_figure_db

    @property
    def bandwidth_db(self) -> float:
        """The bandwidth, in dB above one hertz: what a level has more than its power spectral density."""
        return 10 * math.log10(self.bandwidth_khz * 1e3)

    @property
    def level_sd_db(self) -> float:
        """The deviation of a measured level from power less loss."""
        return math.hypot(self.shadowing_db, self.level_noise_db)

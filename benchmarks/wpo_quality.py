"""How well `wpo` learns a distribution, beside a kernel density estimate and a Gaussian mixture on the same rows.

    python benchmarks/wpo_quality.py [--data 8gaussians ...] [--device cuda] [--steps 400] [--quick] [--threads N]
        [--out RESULTS]

RESULTS is such as benchmarks/results/wpo-quality-cpu.json. `wpo` runs with its defaults, but for `--steps`, and for a
smaller batch of digits, of which there are few.

All are given the same rows, and the same others to choose by: the epoch, the calibration, the bandwidth, the number of
components. `wpo` takes a part of the rows for its centers and trains on the rest; "add_training_points" adds these as
centers afterwards. The measures are of rows that none has seen: the mean log-density, and the sliced Wasserstein
distance of as many samples (256 fixed directions, the mean of 8 sets of samples); "fresh data" says how far other sets
of true rows are.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from torch import Tensor

from brimful import wpo
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.wpo.training.calibrate import Calibration
from saving import save

NAMES = ("8gaussians", "2spirals", "checkerboard", "digits")
ROWS, CHOSEN_BY, TESTED, CENTERS = 6000, 1000, 5000, 1000
CENTERS_OF_DIGITS = 400
OPTIONS: dict[str, dict[str, Any]] = {"digits": {"batch_size": 64}}
WIDTHS, COMPONENTS = np.geomspace(0.015, 0.6, 32), (1, 2, 4, 8, 16, 32, 64, 128, 256)
SETS = 8


def parts(name: str, quick: bool) -> tuple[wpo.DataSplits, Tensor]:
    """Rows to learn from, and rows that nobody sees before the end."""
    if name == "digits":
        rows = wpo.dataset("digits", 1, held_out=0.2)
        test, choose = rows.held_out_Md.chunk(2)
        K = 100 if quick else CENTERS_OF_DIGITS
        train = torch.cat((rows.centers_Kd, rows.train_Nd))
        return wpo.DataSplits("digits", train[K:], choose, train[:K], rows.image_shape), test
    n, K = (1000, 200) if quick else (ROWS, CENTERS)
    train, choose = (torch.from_numpy(wpo.toy(name, *each)) for each in ((n, 0), (CHOSEN_BY, 1)))
    test = torch.from_numpy(wpo.toy(name, 1000 if quick else TESTED, 3))
    return wpo.DataSplits(name, train[K:], choose, train[:K]), test


def truth(name: str, test: Tensor) -> float | None:
    """The mean log-density of the true distribution, where it has a simple formula."""
    if name == "checkerboard":
        return -math.log(32)
    if name == "8gaussians":
        turn = torch.arange(8) * (math.pi / 4)
        middles = torch.stack((turn.cos(), turn.sin()), 1) * (4 / 1.414)
        wide = 0.5 / 1.414
        squares = torch.cdist(test, middles).square() / (2 * wide**2)
        return float((-squares).logsumexp(1).mean()) - math.log(8 * 2 * math.pi * wide**2)
    return None


def row(
    run: str, likelihood: float | None, draws: Callable[[int], Tensor], test: Tensor, **more: Any
) -> dict[str, Any]:
    """`draws` gives as many rows as are tested, for a seed."""
    distances = [wpo.sliced_wasserstein(draws(seed), test) for seed in range(SETS)]
    return {"run": run, "log_likelihood": likelihood, "sliced_wasserstein": sum(distances) / SETS, **more}


def copied(drawn: Tensor, data: wpo.DataSplits, test: Tensor) -> dict[str, float]:
    rows = (drawn.float(), test.float())
    ratio, rate = wpo.memorization(*(wpo.nearest_neighbors(part, known_rows(data))[0] for part in rows))
    return {"neighbor_distance_ratio": ratio, "memorization_rate": rate}


def known_rows(data: wpo.DataSplits) -> Tensor:
    return torch.cat((data.centers_Kd, data.train_Nd)).float()


def peers(data: wpo.DataSplits, test: Tensor) -> Iterator[dict[str, Any]]:
    known = known_rows(data).double().numpy()
    choose, name, seen = data.held_out_Md.double().numpy(), data.name, test.double().numpy()
    started = time.perf_counter()
    spread = float(known.std())
    kde = max(
        (KernelDensity(bandwidth=each * spread).fit(known) for each in WIDTHS), key=lambda each: each.score(choose)
    )

    def estimated(seed: int) -> Tensor:
        return torch.from_numpy(kde.sample(len(seen), random_state=seed))

    yield row(
        f"{name}: kernel density estimate",
        float(kde.score(seen)) / len(seen),
        estimated,
        test,
        **copied(estimated(0), data, test),
        chosen=f"bandwidth {kde.bandwidth_:.3g}",
        seconds=time.perf_counter() - started,
    )
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixtures = [GaussianMixture(each, reg_covar=1e-5, random_state=0).fit(known) for each in COMPONENTS]
    best = max(mixtures, key=lambda each: each.score(choose))

    def mixed(seed: int) -> Tensor:
        return torch.from_numpy(best.set_params(random_state=seed).sample(len(seen))[0])

    yield row(
        f"{name}: Gaussian mixture",
        float(best.score(seen)),
        mixed,
        test,
        **copied(mixed(0), data, test),
        chosen=f"{best.n_components} components",
        seconds=time.perf_counter() - started,
    )


def ours(data: wpo.DataSplits, test: Tensor, given: argparse.Namespace, **options: Any) -> Iterator[dict[str, Any]]:
    """Not calibrated, calibrated (the default), and with training points added as centers."""
    what = "".join(f", {name}={value}" for name, value in options.items())
    kind = {name: options.pop(name) for name in ("factor", "rank") if name in options}
    common: dict[str, Any] = {**OPTIONS.get(data.name, {}), **options, "device": given.device, "progress": False}
    common |= {"steps": 20} if given.quick else {} if given.steps is None else {"steps": given.steps}
    variants: tuple[dict[str, Any], ...] = ({"calibrate": False}, {}, {"add_training_points": True})
    for more in variants:
        model = wpo.ScoreModel(data.centers_Kd, **kind)
        found = wpo.train(model, data.train_Nd, held_out=data.held_out_Md, **common, **more)
        name = what + "".join(f", {option}={value}" for option, value in more.items())
        moved = Calibration(**found.settings["calibration"])
        epoch = f"epoch {found.best_epoch + 1} of {len(found.history)}"
        chosen = f"{epoch}, {moved}" if more.get("calibrate", True) else epoch
        yield of(model.cpu(), data, test, name, chosen, found.seconds)


@torch.no_grad()
def of(
    model: wpo.ScoreModel, data: wpo.DataSplits, test: Tensor, what: str, chosen: str, seconds: float
) -> dict[str, Any]:
    def drawn(seed: int) -> Tensor:
        return model.sample(len(test), seed=seed)

    return row(
        f"{data.name}: wpo{what}",
        float(torch.cat([model.log_prob(part) for part in test.split(500)]).double().mean()),
        drawn,
        test,
        **copied(drawn(0), data, test),
        loss=float(torch.cat([model.losses(part) for part in test[:1000].split(500)]).double().mean()),
        chosen=chosen,
        parameters=sum(each.numel() for each in model.parameters()),
        seconds=seconds,
    )


def measured(name: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    data, test = parts(name, given.quick)

    def fresh(seed: int) -> Tensor:
        return data.held_out_Md if name == "digits" else torch.from_numpy(wpo.toy(name, len(test), 4 + seed))

    yield row(f"{name}: fresh data", truth(name, test), fresh, test)
    yield from peers(data, test)
    yield from ours(data, test, given)
    yield from ours(data, test, given, objective="score")
    if name == "digits":
        yield from ours(data, test, given, factor="lowrank", rank=4)


def shown(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for each in rows for name in each if name not in ("run", "seconds")))

    def cell(value: Any) -> str:
        return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)

    return format_table(
        [(each["run"], *(cell(each.get(name)) for name in names)) for each in rows], ("run", *names), ""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and steps, to see that it runs")
    parser.add_argument("--data", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, help="of training; by default wpo's own")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows: dict[str, dict[str, Any]] = {}
    about = {
        "machine": devices.model_name(torch.device(given.device)),
        "threads": given.threads,
        "torch": torch.__version__,
    }
    for name in given.data:
        for each in measured(name, given):
            rows[each["run"]] = each
            print(shown([each]), flush=True)
            save(given.out, about | {"rows": list(rows.values())}, shown(list(rows.values())))


if __name__ == "__main__":
    main()

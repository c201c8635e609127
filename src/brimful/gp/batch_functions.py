"""What is fitted to each task, and the functions of a batch of tasks that `map` runs.

Legend: T tasks, N points, M new points, D input dimensions, P parameters (the noise variance last), Q regressors.
"""

import functools
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..engine.map.batch import Batch, Status
from .model import periods, posterior, sgpr
from .model.invalid import causes
from .model.kernels import CustomKernel, Kernel
from .model.priors import Limits, limits
from .model.tasks import MESSAGES, TaskBatch, TaskStatus, Units, coefficients, standardize
from .optimize import adam, eigenbasis, matrices, scoring, subsets
from .optimize import sgpr as bound
from .posteriors import Posterior

LOG = "log_"
"""What stands before the name of a parameter that is stored as its logarithm."""
PREDICTED = "predicted_"
"""What stands before a prediction that is kept with the parameters."""
LOWER_BOUND = "lml_lower_bound"
"""The column of an approximation's bound, in place of the likelihood."""
_WORDS = {
    "native": "compiled loop",
    "fused": "fused kernel",
    "matrices": "batched matrices from subsets of the points",
    "torch": "batched LAPACK",
}
_MEANING = {**MESSAGES, Status.FAILED: "the covariance is not positive definite at any initial value"}
_COMPILED = 400  # points up to which the compiled loop beats batched linear algebra on the CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class GPModel:
    """What is fitted.

    Attributes:
        kernel: the covariance function.
        mean: "zero", "constant" or "linear".
        priors, bounds: as `gp.fit` takes them.
        known: whether the noise of every point is given, and none is fitted.
        options: when to stop.
        shared: inputs that all tasks share; None where each has its own.
        dimensions: of the inputs; what a kernel defined by the user does not know.
        inducing: inducing points of each task; 0 is the exact likelihood.
        basis_pays: whether there are enough tasks for a shared eigenbasis of so many points.
    """

    kernel: Kernel | CustomKernel
    mean: str = "constant"
    priors: Any = "weak"
    bounds: Any = None
    known: bool = False
    options: scoring.ScoringOptions = scoring.ScoringOptions()
    shared: Tensor | None = None
    dimensions: int = 1
    inducing: int = 0
    basis_pays: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, the noise variance last."""
        return (*self.kernel.names, "noise")

    @property
    def regressors(self) -> int:
        dimensions = self.kernel.dimensions if isinstance(self.kernel, Kernel) else self.dimensions
        return coefficients(self.mean, dimensions)

    @property
    def eigenbasis(self) -> bool:
        """Whether tasks without missing points begin from the shared eigenbasis."""
        few = self.shared is not None and len(self.shared) <= eigenbasis.MOST_POINTS
        return few and self.basis_pays and not (self.known or self.inducing) and eigenbasis.serves(self.kernel)

    def method(self, device: torch.device, points: int) -> str:
        """How it is fitted, in words."""
        if isinstance(self.kernel, CustomKernel):
            return "Adam with gradients by torch, several starts, then scoring to the optimum (a kernel of your own)"
        if self.inducing:
            return f"SGPR: scoring to the greatest lower bound, {self.inducing} inducing points per task (float64)"
        first = "shared eigenbasis over 49 lengthscales" if self.eigenbasis else "a grid of initial values"
        fast, most = self.fastest(device)
        loop = _WORDS[self.backend(device, points)]
        if points > most > 0:
            loop += f"; up to {most} points, {_WORDS[fast]}"
        return f"{first}, then average-information scoring to the optimum ({loop}, float64)"

    def rejected(self, device: torch.device, points: int) -> list[tuple[str, int, str]]:
        """Strategies that were not chosen: name, bytes (0: memory was not the reason), and the reason."""
        if isinstance(self.kernel, CustomKernel):
            return [("a grid of initial values", 0, "of a kernel of your own nothing is known but its values")]
        if self.inducing:
            return [("exact likelihood", 0, 'approximation="sgpr" was asked for')]
        reasons = []
        if not self.eigenbasis:
            because = (
                "each task has inputs of its own"
                if self.shared is None
                else "the noise of each point is given"
                if self.known
                else f"{len(self.shared)} points are more than {eigenbasis.MOST_POINTS}, up to which it pays"
                if len(self.shared) > eigenbasis.MOST_POINTS
                else f"of {len(self.shared)} points, it would take longer than it saves so few tasks"
                if not self.basis_pays
                else f"the kernel {self.kernel.text} has more than one nonlinear parameter"
            )
            reasons.append(("shared eigenbasis", 0, because))
        fast, most = self.fastest(device)
        if points > most > 0:
            other = _WORDS[self.backend(device, points)]
            reasons.append((_WORDS[fast], 0, f"{points} points are more than {most}; from there on {other} are faster"))
        elif most == 0:
            needs = "Triton, one shape of rbf, matern12, matern32 and matern52, and a mean of 2 coefficients at most"
            reasons.append((_WORDS["fused"], 0, f"it needs {needs}"))
        reasons.append(("Adam", 0, "scoring takes a tenth of the steps, and converges"))
        return reasons

    def backend(self, device: torch.device, points: int) -> str:
        """What evaluates the likelihood there."""
        if self.inducing:
            return "sgpr"
        fast, most = self.fastest(device)
        if points <= most:
            return fast
        has_matrices = device.type == "cpu" or has_kernels(device)
        return "matrices" if has_matrices and matrices.serves(self.kernel, self.regressors) else "torch"

    def fastest(self, device: torch.device) -> tuple[str, int]:
        """What is fastest there, and for how many points."""
        if isinstance(self.kernel, CustomKernel) or self.inducing:
            return "torch", 0
        if device.type == "cpu":
            return "native", _COMPILED
        if has_kernels(device):
            from .gpu import likelihood, matrix_fit

            if likelihood.serves(self.kernel, 1, self.regressors):
                return "fused", matrix_fit.FEWEST - 1
        return "torch", 0

    def posterior(self, tasks: TaskBatch) -> Posterior:
        """What predicts such tasks fastest."""
        backend = self.backend(tasks.y_TN.device, tasks.y_TN.shape[1])
        kernels = backend in ("fused", "matrices") and tasks.y_TN.device.type == "cuda"
        return Posterior(self.kernel, self.mean, self.inducing, backend if kernels else "torch")

    def inputs(self, batch: dict[str, Tensor]) -> Float[Tensor, "T N D"]:
        """The inputs of a batch, its own or those that all share."""
        y_TN = batch["y"]
        return batch["x"] if self.shared is None else self.shared.to(y_TN.device).expand(len(y_TN), -1, -1)

    def standardized(self, batch: dict[str, Tensor], for_kernels: bool = False) -> tuple[TaskBatch, Units, Tensor]:
        """A batch of data in its own units; only for fused kernels, where there are some, if `for_kernels`."""
        y_TN, x_TND = batch["y"], self.inputs(batch)
        if isinstance(self.kernel, Kernel) and has_kernels(y_TN.device):
            from .gpu import standardize as fused

            if fused.serves(self.kernel, y_TN.shape[1]):
                once = for_kernels and self.backend(y_TN.device, y_TN.shape[1]) == "fused"
                return fused.standardize(x_TND, y_TN, self.kernel, self.mean, batch.get("noise"), once)
        return standardize(x_TND, y_TN, self.kernel, self.mean, batch.get("noise"))


def has_kernels(device: torch.device) -> bool:
    return device.type == "cuda" and find_spec("triton") is not None


def fit_batch(batch: dict[str, Tensor], *, model: GPModel, at: Tensor | None = None, storage: str = "float64") -> Batch:
    """Fits a batch of tasks. With `at`, predicts there too. A storage of "float16" gives logarithms of parameters,
    which lose nothing that matters."""
    tasks, units, flag_T = model.standardized(batch, for_kernels=True)
    bounds = limits_of(model, tasks, units)
    index = torch.nonzero(flag_T == 0)[:, 0]
    whole = len(index) == len(tasks)
    fitted = _fit(model, tasks if whole else tasks.select(index), bounds if whole else bounds.select(index))
    if not whole:
        fitted = fitted.scattered(index, len(tasks))
    # Without a look at what is where: on a GPU each would wait for all that was asked before it.
    count_T, ending_T, unfitted_T = tasks.mask_TN.sum(1), fitted.ending_T, flag_T != 0
    status_T = torch.where((ending_T == scoring.UNFINISHED) & ~unfitted_T, int(TaskStatus.LIMIT), flag_T)
    failed_T = (ending_T == scoring.FAILED) & ~unfitted_T
    status_T = torch.where(failed_T, int(Status.FAILED), status_T)
    unknown_T = failed_T | unfitted_T
    theta_TP = fitted.theta_TP.double().masked_fill(unknown_T[:, None], torch.nan)
    nlml_T = (fitted.nlml_T.double() + count_T * torch.log(units.y_scale_T)).masked_fill(unknown_T, torch.nan)
    gradient_T = fitted.gradient_T.double().masked_fill(unknown_T, torch.nan)
    beta_TQ = fitted.beta_TQ.double().masked_fill(unfitted_T[:, None], 0.0)
    iterations_T = fitted.iterations_T.masked_fill(unfitted_T, 0)
    natural_TP = torch.exp(theta_TP + units.shift(model.kernel))
    if model.known:
        natural_TP[:, -1] = 0.0
    coefficients_TQ = units.coefficients(beta_TQ)
    nothing_T = (flag_T == TaskStatus.EMPTY) | (flag_T == TaskStatus.INVALID)
    coefficients_TQ = coefficients_TQ.masked_fill(nothing_T[:, None], torch.nan)
    values = dict(zip(model.names, natural_TP.unbind(1), strict=True))
    values |= {f"mean_{position}": value for position, value in enumerate(coefficients_TQ.unbind(1))}
    reached = {LOWER_BOUND: -nlml_T} if model.inducing else {"nlml": nlml_T}
    values |= {"points": count_T, **reached, "gradient": gradient_T, "iterations": iterations_T}
    if at is not None:
        mean_TM, variance_TM = model.posterior(tasks).predict(tasks, units, theta_TP, beta_TQ, _new_points(batch, at))
        there = _in_data_units(mean_TM, variance_TM, units, flag_T)
        values |= {f"{PREDICTED}{name}": value for name, value in there.items()}
    message = {} if whole else causes(model.inputs(batch), batch["y"], batch.get("noise"), units, flag_T)
    return Batch(_packed(values, model.names, storage), status_T.to(torch.int8), message, _MEANING)


def _packed(values: dict[str, Tensor], names: tuple[str, ...], storage: str) -> dict[str, Tensor]:
    """The columns as they are stored, the parameters first."""
    if storage == "float64":
        return values
    logs = {f"{LOG}{name}": torch.log(values[name]).half() for name in names if storage == "float16"}
    return logs | {
        name: value.float() if value.is_floating_point() else value.to(torch.int32)
        for name, value in values.items()
        if f"{LOG}{name}" not in logs
    }


def limits_of(model: GPModel, tasks: TaskBatch, units: Units) -> Limits:
    result = limits(model.kernel, units, model.priors, model.bounds, model.known)
    if isinstance(model.kernel, CustomKernel):
        return adam.default_bounds(result, model.kernel, tasks, model.bounds or ())
    return periods.bound_periods(result, model.kernel, tasks, model.bounds or ())


def _fit(model: GPModel, tasks: TaskBatch, bounds: Limits) -> scoring.Optima:
    """Fits the tasks of each kind by themselves: those without missing points, which start from the eigenbasis where
    there is one; those with few points, which do not pay for neighbors that have more; and the others."""
    kernel, (_, most) = model.kernel, model.fastest(tasks.y_TN.device)
    if isinstance(kernel, CustomKernel):
        return adam.fit(kernel, tasks, bounds, model.options)
    has_long = 0 < most < tasks.y_TN.shape[1]
    if not (model.eigenbasis or has_long) or len(tasks) == 0:
        return _optimize(model, kernel, tasks, bounds)
    whole_T = tasks.mask_TN.all(1) & model.eigenbasis
    few_T = ~tasks.mask_TN[:, most:].any(1) & ~whole_T & has_long
    parts = []
    for kind_T, padded in ((whole_T, tasks), (few_T, tasks.narrowed(most)), (~(whole_T | few_T), tasks)):
        index = torch.nonzero(kind_T)[:, 0]
        if len(index):
            alone = len(index) == len(tasks)
            some, within = (padded, bounds) if alone else (padded.select(index), bounds.select(index))
            parts.append((index, _optimize(model, kernel, some, within, kind_T is whole_T)))
    indices, fitted = zip(*parts, strict=True)
    return scoring.Optima.concatenated(fitted).select(torch.argsort(torch.cat(indices)))


def _optimize(
    model: GPModel, kernel: Kernel, tasks: TaskBatch, bounds: Limits, in_eigenbasis: bool = False
) -> scoring.Optima:
    device, points = tasks.y_TN.device, tasks.y_TN.shape[1]
    starts, search = None, eigenbasis.search
    if in_eigenbasis and has_kernels(device):
        from .gpu import eigenbasis as fused

        search = fused.search if fused.serves(points, tasks.coefficients) else search
    if in_eigenbasis:
        starts = eigenbasis.starts(kernel, tasks, bounds, model.options.starts, search)
    match model.backend(device, points):
        case "sgpr":
            return bound.fit(kernel, tasks, bounds, model.options, model.inducing)
        case "native":
            from .cpu import fit as optimizer  # compiles, or loads what was compiled: not before it is needed
        case "fused":
            from .gpu import fit as optimizer
        case "matrices" if device.type == "cpu":
            optimizer = subsets
        case "matrices":
            from .gpu import matrix_fit as optimizer
        case _:
            optimizer = scoring
    return optimizer.fit(kernel, tasks, bounds, model.options, starts)


def _in_data_units(mean_TM: Tensor, variance_TM: Tensor, units: Units, flag_T: Tensor) -> dict[str, Tensor]:
    """Mean and variance as the data are; in place."""
    unknown_T = (flag_T == TaskStatus.EMPTY) | (flag_T == TaskStatus.INVALID)
    mean_TM.mul_(units.y_scale_T[:, None]).add_(units.y_offset_T[:, None]).masked_fill_(unknown_T[:, None], torch.nan)
    return {"mean": mean_TM, "variance": variance_TM.mul_(units.y_scale_T[:, None].square())}


def _own_units(
    batch: dict[str, Tensor], model: GPModel, for_kernels: bool = False
) -> tuple[TaskBatch, Units, Tensor, Tensor, Tensor]:
    """A batch of data with parameters: tasks, units, flags, and the parameters and coefficients in those units."""
    tasks, units, flag_T = model.standardized(batch, for_kernels)
    theta_TP = torch.log(batch["parameters"].double()) - units.shift(model.kernel)
    beta_TQ = torch.zeros(len(tasks), tasks.coefficients, dtype=torch.float64, device=theta_TP.device)
    return tasks, units, flag_T, theta_TP, beta_TQ


def _new_points(batch: dict[str, Tensor], at: Tensor | None) -> Float[Tensor, "T M D"]:
    """In the units of the data."""
    return (batch["new"] if at is None else at.to(batch["y"].device).expand(len(batch["y"]), -1, -1)).double()


def predict_batch(
    batch: dict[str, Tensor], *, model: GPModel, at: Tensor | None = None, noise: bool = False, known: float = 0.0
) -> dict[str, Tensor]:
    """Mean and variance at new points, for tasks with their parameters; of an observation, with the fitted noise, or
    with a known one."""
    tasks, units, flag_T, theta_TP, beta_TQ = _own_units(batch, model, for_kernels=True)
    mean_TM, variance_TM = model.posterior(tasks).predict(tasks, units, theta_TP, beta_TQ, _new_points(batch, at))
    if noise:
        variance_TM += torch.exp(theta_TP[:, -1:])
    values = _in_data_units(mean_TM, variance_TM, units, flag_T)
    values["variance"] += known
    return values


def loo_batch(batch: dict[str, Tensor], *, model: GPModel, width: int = 0) -> dict[str, Tensor]:
    """Mean, variance and log density of each point without itself, padded to a number of points."""
    tasks, units, _, theta_TP, _ = _own_units(batch, model, for_kernels=True)
    mean_TN, variance_TN, density_TN = model.posterior(tasks).leave_one_out(tasks, theta_TP)
    scale_T1 = units.y_scale_T[:, None]
    values = {
        "mean": mean_TN * scale_T1 + units.y_offset_T[:, None],
        "variance": variance_TN * scale_T1.square(),
        "density": density_TN - torch.log(scale_T1),
    }
    lacking = max(0, width - mean_TN.shape[1])
    return {name: torch.nn.functional.pad(value, (0, lacking), value=torch.nan) for name, value in values.items()}


def sample_batch(
    batch: dict[str, Tensor], *, model: GPModel, samples: int, seed: int, at: Tensor | None = None
) -> dict[str, Tensor]:
    """Samples of the function at new points. Each task has a generator of its own, so that the way the work is split
    does not change what it gets."""
    tasks, units, _, theta_TP, beta_TQ = _own_units(batch, model)
    new_TMD, generator = units.inputs(_new_points(batch, at)), torch.Generator()
    normal = [
        torch.randn(
            samples,
            new_TMD.shape[1],
            dtype=torch.float64,
            generator=generator.manual_seed((seed * 1_000_003 + task) % 2**63),
        )
        for task in batch["task"].tolist()
    ]
    normal_TSM = torch.stack(normal).to(theta_TP.device)
    sample = functools.partial(sgpr.sample, most=model.inducing) if model.inducing else posterior.sample
    samples_TSM = sample(model.kernel, tasks, theta_TP, beta_TQ, new_TMD, model.mean, normal_TSM)
    return {"samples": samples_TSM * units.y_scale_T[:, None, None] + units.y_offset_T[:, None, None]}

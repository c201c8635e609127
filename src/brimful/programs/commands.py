"""What the commands of `programs` do with their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..core.declare.report import with_report
from ..core.declare.result import measured
from ..core.memory.devices import resolve
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.events import Warned
from ..core.runs.files import write_atomic
from .batched.machine import Usage
from .compiled import compile
from .executors.operation_table import measured_usage, operation_table, plan_rows, random_samples
from .executors.usage import RunUsage
from .generate import generate
from .language.graph import Graph, Level
from .language.problems import ProgramError
from .loading import load, loads, problems_of
from .options import CheckConfig, CompileConfig, ExplainConfig, GenerateConfig, ProgramsReportConfig, RunConfig
from .report import report
from .run import plan, run
from .store import load_result
from .verify import verify

_CPU = torch.device("cpu")


def run_check(config: CheckConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        programs, problems = problems_of(config.file, config.vocabulary)
        if programs is None:
            raise ProgramError(problems)
        for problem in problems:
            context.events.emit(Warned(message=f"{problem}; it will fail on every sample, and yield its default"))
        graph = programs.merge()
        summary |= {
            "programs": len(programs),
            "vocabulary": ", ".join(sorted({source.vocabulary for source in programs.sources})),
            "operations": graph.operations,
            "operations_merged": graph.merged,
            "operations_dead": graph.dead,
            "operations_per_task": graph.at(Level.TASK),
            "depth": graph.depth,
            "always_failing": len(problems),
        }
    return summary


def run_compile(config: CompileConfig, context: RunContext) -> Mapping[str, Any]:
    device = resolve(config.device)
    with measured(device) as summary:
        samples = config.data if config.samples else None
        options: dict[str, Any] = {"split": config.split, "count": config.samples or 1, "seed": config.seed}
        compiled = compile(load(config.file, config.vocabulary), samples, **options, device=device)
        module = compiled.save(config.out)
        summary |= {
            "programs": len(compiled.graph.programs),
            "operations": compiled.graph.operations,
            "operations_merged": compiled.graph.merged,
            "module": str(module),
            "table": str(module.with_suffix(".csv")),
            "plan": plan_rows(compiled.operations),
        }
    return summary


def _usage(graph: Graph, config: ExplainConfig, device: torch.device) -> Mapping[str, Usage]:
    """Where the time goes on random samples; nothing where none are wanted."""
    if not config.samples:
        return {}
    return measured_usage(graph, random_samples(config.data, config.split, config.samples, config.seed), device)


def _arguments(config: RunConfig) -> dict[str, Any]:
    return {
        "programs": load(config.file, config.vocabulary),
        "samples": config.data,
        "split": config.split,
        "executor": config.executor,
        "on_error": config.on_error,
        "pair_by_name": config.pair_by_name,
        "budget": config.budget,
        "device": config.device,
        "cluster": config.cluster,
        "workers": config.workers or "auto",
        "batch_size": config.batch_size or "auto",
    }


def plan_run(config: RunConfig, probe: bool) -> Plan:
    return plan(**_arguments(config), probe=probe)


def run_programs(config: RunConfig, context: RunContext) -> Mapping[str, Any]:
    result = run(**_arguments(config), out=config.out, progress=context.events.emit, cancel=context.cancel)
    verified = {}
    if config.verify:
        options: dict[str, Any] = {"on_error": config.on_error, "pair_by_name": config.pair_by_name}
        options["device"] = "cpu" if config.cluster else result.plan.devices[0]
        verified = {"verified": verify(result.outcomes, config.verify, **options)}
    return with_report(result.summary() | verified, lambda _: report(result), config.out)


def run_explain(config: ExplainConfig, context: RunContext) -> Mapping[str, Any]:
    device = resolve(config.device)
    with measured(device) as summary:
        graph = load(config.file, config.vocabulary).merge()
        usage = _usage(graph, config, device)
        table = operation_table(graph, usage)
        summary |= {
            "operations_merged": graph.merged,
            "samples": config.samples,
            "batched_seconds": sum(row.seconds for row in table),
            "sequential_share": RunUsage(usage).sequential_share,
            "operations": [row._asdict() for row in table],
        }
    return summary


def run_report(config: ProgramsReportConfig, context: RunContext) -> Mapping[str, Any]:
    result = load_result(config.directory)
    return with_report(result.summary(), lambda _: report(result), config.out or config.directory)


def run_generate(config: GenerateConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        programs = None if config.file is None else list(load(config.file))
        text = generate(config.operations, config.seed, config.mutation_rate, programs)
        config.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(config.out, text.encode())
        batt = loads(text)[0]
        summary |= {"operations": batt.operations, "outputs": len(batt.outputs), "file": str(config.out)}
    return summary

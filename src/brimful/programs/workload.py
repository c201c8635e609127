"""`brimful programs`: the registration."""

from ..core.declare.registry import Command, Workload
from .commands import plan_run, run_check, run_compile, run_explain, run_generate, run_programs, run_report
from .options import CheckConfig, CompileConfig, ExplainConfig, GenerateConfig, ProgramsReportConfig, RunConfig
from .store import load_result

WORKLOAD = Workload(
    name="programs",
    help="Programs of a thousand steps over thousands of ARC grids; every step may fail, for its sample alone.",
    commands=(
        Command(
            name="check",
            help="Read a file of programs without running it, and say what is wrong, or what merging saves.",
            config=CheckConfig,
            run=run_check,
        ),
        Command(
            name="compile",
            help="Merge programs, and write them as an importable module with batt(task_id, S, I, C, log_path).",
            config=CompileConfig,
            run=run_compile,
        ),
        Command(
            name="run",
            help="Run programs on the pairs of ARC tasks; score them, and write outputs and a submission.",
            config=RunConfig,
            plan=plan_run,
            run=run_programs,
            job=True,
            stores=True,
        ),
        Command(
            name="explain",
            help="How each operation of programs runs in the batched executor, and where its time goes.",
            config=ExplainConfig,
            run=run_explain,
        ),
        Command(name="report", help="Summarise and draw a run.", config=ProgramsReportConfig, run=run_report),
        Command(
            name="generate",
            help="Write a batt of any length, merged from solvers and mutated.",
            config=GenerateConfig,
            run=run_generate,
        ),
    ),
    load=load_result,
)

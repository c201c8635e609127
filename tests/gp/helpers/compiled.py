"""Compiles the Triton kernels for a card that need not be there, "all" of them or the "first"; run by
gpu/test_fit.py, in a process that does not interpret."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
import sys

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from brimful.gp.gpu import (
    eigenbasis,
    elimination,
    grid_search,
    leave_one_out,
    likelihood,
    predict,
    scoring_step,
    standardize,
    stragglers,
)

_WHOLE = dict.fromkeys(("begin", "L", "T", "XT", "XN", "NB", "NP", "workspace", "M", "N", "limit", "wide"), "i32")
_WHOLE |= dict.fromkeys(("NT", "own", "groups", "item"), "i32")
_INDEX = dict.fromkeys(("last", "index", "iterations", "ending", "going", "counts", "start", "made", "count"), "*i32")
_TYPES = _WHOLE | _INDEX | {"out_good": "*i8", "fixed": "*i8", "tolerance": "fp32", "max_step": "fp32"}
_TYPES |= {"first": "i32", "again": "*i8", "scales": "*i8"}
_TASK = {"D": 1, "P": 3, "Q": 2, "SHAPE": 3, "ARD": 0, "INTERPRETED": False}
_STEP = {"P": 3, "PB": 4, "Q": 1, "R": 5, "STARTS": 2, "S": 16, "PATIENCE": 12, "FAILED": 0, "UNFINISHED": 1}


def build(kernel, constants: dict, plain: str, warps: int, **other: str) -> None:
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else (_TYPES | other).get(name, plain) for name in names}
    source = ASTSource(kernel, signature, {(names.index(name),): value for name, value in constants.items()})
    compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})


def build_long() -> None:
    """The kernels that take many seconds each."""
    build(likelihood._evaluate, _TASK | {"WANT": True}, "*fp64", 1, known="*i32")
    for scratch in ("*fp64", "*fp32"):
        build(likelihood._evaluate, _TASK | {"WANT": False}, "*fp64", 1, known="*i32", scratch=scratch)
    build(predict._factor, _TASK, "*fp64", 1, known="*i32")
    build(predict._points, _TASK, "*fp64", 1, known="*i32")
    basis = {"L": 49, "R": 32, "Q": 1, "HAS_PRIORS": True, "REACH": 3, "B": 64, "S": 64, "PRECISION": "tf32x3"}
    for steps in (0, 16):
        build(eigenbasis._lowest, basis | {"STEPS": steps}, "*fp32", 4, M="*fp32")
    build(scoring_step._advance, _STEP | {"CONVERGED": 2}, "*fp64", 1)
    patience = {name: value for name, value in _STEP.items() if name != "S"} | _TASK | {"CONVERGED": 2, "N": 64}
    build(stragglers._descend, patience, "*fp64", 4, known="*i32")


def build_short() -> None:
    for rows, warps in elimination.WARPS.items():
        build(elimination._invert_block, {"B": rows}, "*fp64", warps, good="*i8", width="i32")
    held = {name: value for name, value in _TASK.items() if name != "INTERPRETED"} | {"B": 32}
    for pair in (False, True):
        whole = dict.fromkeys(("second", "XD", "YT", "YN"), "i32")
        build(leave_one_out._without_itself, held | {"PAIR": pair}, "*fp64", 1, **whole)
    build(grid_search._score, {"P": 3, "SCALED": True, "SURE": -10.4, "W": 256}, "*fp64", 4)
    chosen = {"REACH": 3, "L": 49, "LB": 64, "STARTS": 2, "WORTH": 3.0, "S": 16}
    build(eigenbasis._begin, chosen, "*fp32", 2, positions="*fp64", starts="*fp64")
    sizes = {"D": 2, "Q": 1, "KNOWN": True, "CENTERED": True, "EACH": False, "SHIFTED": True, "NB": 64, "S": 32}
    names = "N up xt xn xd yt yn kt kn FLAT FEW EMPTY INVALID"
    whole = dict.fromkeys(names.split(), "i32")
    whole |= {"x": "*fp32", "y": "*fp32", "out_mask": "*u8", "out_flag": "*i64"}
    for own in (True, False):
        build(standardize._standardize, sizes | {"OWN": own}, "*fp64", 4, **whole)


if __name__ == "__main__":
    build(grid_search._initialize, {"G": 28, "P": 3, "W": 256}, "*fp64", 4)
    if sys.argv[1] == "all":
        build_short()
        build_long()
    print("compiled")

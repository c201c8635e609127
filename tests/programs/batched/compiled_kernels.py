"""Compiles the Triton kernels of records for a card that need not be there; run by test_gpu_kernels.py, in a process
that does not interpret: the interpreter takes types as they come, and the compiler does not."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from brimful.programs.batched.gpu import records
from brimful.programs.batched.loops.records import LARGE

_TYPES = {"rows": "i32", "wanted": "*u8", "cells": "*u8"}


def build(kernel, out: str, **constants: int) -> None:
    names = kernel.arg_names
    types = {name: "constexpr" if name in constants else _TYPES.get(name, "*i64") for name in names} | {"out": out}
    source = ASTSource(kernel, types, {(names.index(name),): value for name, value in constants.items()})
    compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for count, head in ((1, 0), (2, 2)):
        build(records._number_lengths, "*i64", COUNT=count, HEAD=head, MOST=LARGE, BLOCK=256)
        build(records._write_numbers, "*u8", COUNT=count, BLOCK=256)
    build(records._write_flags, "*u8", BLOCK=256)
    build(records._grid_lengths, "*i64", BLOCK=256)
    build(records._write_grids, "*u8", LANES=16, BLOCK=1024)
    print("compiled")

"""Compiles the fused kernels for a GPU that need not be there, and prints the registers that they use and spill.

python tests/gpcm/helpers/registers.py [N D float32 [tile warps]]
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from brimful.gpcm.model import memory_triton

PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


def compiled(kernel: Any, kind: str, sizes: dict[str, int], warps: int) -> Any:
    def type_of(name: str) -> str:
        if name in sizes:
            return "constexpr"
        if name in ("B", "S", "segments") or (name == "final" and kernel is memory_triton._backward):
            return "i32"
        return "*i64" if name in ("question", "row", "length") else f"*{kind}"

    types = {name: type_of(name) for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in sizes.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, each in enumerate(types.values()) if each.startswith("*")}
    source = ASTSource(fn=kernel, signature=types, constexprs=places, attrs=aligned)  # pyright: ignore[reportArgumentType]
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})


def registers(kernel: Any, kind: str, sizes: dict[str, int], warps: int) -> tuple[int, int]:
    """Used by a thread, and bytes spilt."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(compiled(kernel, kind, sizes, warps).asm["ptx"])
        file.flush()
        command = [str(PTXAS), "-v", "-arch=sm_90a", file.name, "-o", "/dev/null"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    used, spilt = re.search(r"Used (\d+) registers", output), re.search(r"(\d+) bytes spill stores", output)
    assert used and spilt
    return int(used[1]), int(spilt[1])


def main(N: int, D: int, kind: torch.dtype, *cut: int) -> None:
    launch = memory_triton.launch_for(N, D, kind)
    tile, warps = cut or (launch.tile, launch.warps)
    sizes = {"N": N, "D": D, "NB": triton.next_power_of_2(N), "DB": tile, "STEPS": 16, "OWN": 0}
    name = {torch.float32: "fp32", torch.float64: "fp64"}[kind]
    print("forward", *registers(memory_triton._forward, name, sizes | {"SAVE": 1}, max(1, warps // 2)))
    print("backward", *registers(memory_triton._backward, name, sizes, warps))


if __name__ == "__main__":
    given = sys.argv[1:] or ["50", "200", "float32"]
    main(int(given[0]), int(given[1]), getattr(torch, given[2]), *map(int, given[3:]))

"""Blocks of 4 x 4 numbers in registers, for Triton kernels in which each lane has a matrix of its own.

A block is a tuple of 16 float64 tensors, by rows, each with one element per lane. A lane's own numbers are interleaved
in memory with those of the other lanes, so that every access is contiguous. A vector of 4 is a tuple of 4. Memory may
be float32: then what is stored is rounded, and all arithmetic is still float64.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false
import torch
import triton
import triton.language as tl

LANES = tl.constexpr(32)
"""Lanes of a program, and so how far apart the numbers of a lane lie."""
INTERPRETED = triton.knobs.runtime.interpret
# Triton's pass over memory accesses takes time in the square of their number: a block is read by one piece of assembly.
_ASSEMBLY = tl.constexpr(not INTERPRETED and torch.version.hip is None)


def _load_assembly(count: int, narrow: bool = False) -> tl.constexpr:
    positions = range(count)
    if not narrow:
        return tl.constexpr("".join(f"ld.global.b64 ${k}, [${count}+{8 * LANES.value * k}];" for k in positions))
    loads = "".join(f"ld.global.f32 t{k}, [${count}+{4 * LANES.value * k}];" for k in positions)
    return tl.constexpr(f"{{.reg .f32 t<{count}>;{loads}{''.join(f'cvt.f64.f32 ${k}, t{k};' for k in positions)}}}")


def _store_assembly(count: int, narrow: bool = False) -> tl.constexpr:
    positions, lead = range(count), "mov.u32 $0, 0;"
    if not narrow:
        return tl.constexpr(lead + "".join(f"st.global.b64 [$1+{8 * LANES.value * k}], ${2 + k};" for k in positions))
    rounded = "".join(f"cvt.rn.f32.f64 t{k}, ${2 + k};" for k in positions)
    stores = "".join(f"st.global.f32 [$1+{4 * LANES.value * k}], t{k};" for k in positions)
    return tl.constexpr(f"{{.reg .f32 t<{count}>;{lead}{rounded}{stores}}}")


_GATHER4 = tl.constexpr("".join(f"ld.global.b64 ${k}, [${4 + k}];" for k in range(4)))
_READ4, _READ16, _WRITE4, _WRITE16 = _load_assembly(4), _load_assembly(16), _store_assembly(4), _store_assembly(16)
_READ4N, _READ16N, _WRITE4N, _WRITE16N = (
    _load_assembly(4, True),
    _load_assembly(16, True),
    _store_assembly(4, True),
    _store_assembly(16, True),
)
_FOUR, _SIXTEEN = tl.constexpr((tl.float64,) * 4), tl.constexpr((tl.float64,) * 16)
_TO4, _TO16 = tl.constexpr("=d," * 4 + "l"), tl.constexpr("=d," * 16 + "l")
_FROM4, _FROM16 = tl.constexpr("=r,l" + ",d" * 4), tl.constexpr("=r,l" + ",d" * 16)


@triton.jit
def gather4(p, S):
    """Four numbers, S apart."""
    if _ASSEMBLY:
        at = [p.to(tl.int64), (p + S).to(tl.int64), (p + 2 * S).to(tl.int64), (p + 3 * S).to(tl.int64)]
        return tl.inline_asm_elementwise(_GATHER4, _TO4 + ",l,l,l", at, _FOUR, False, 1)
    else:  # noqa: RET505, the branch that is not taken is not compiled
        return (tl.load(p), tl.load(p + S), tl.load(p + 2 * S), tl.load(p + 3 * S))


@triton.jit
def load4(p):
    """Four numbers of a lane's own."""
    if _ASSEMBLY:
        return tl.inline_asm_elementwise(
            _READ4 if p.dtype.element_ty == tl.float64 else _READ4N, _TO4, [p.to(tl.int64)], _FOUR, False, 1
        )  # fmt: skip
    else:  # noqa: RET505
        a = gather4(p, LANES)
        return (a[0].to(tl.float64), a[1].to(tl.float64), a[2].to(tl.float64), a[3].to(tl.float64))


@triton.jit
def store4(p, v):
    if _ASSEMBLY:
        tl.inline_asm_elementwise(
            _WRITE4 if p.dtype.element_ty == tl.float64 else _WRITE4N, _FROM4,
            [p.to(tl.int64), v[0], v[1], v[2], v[3]], tl.int32, False, 1,
        )  # fmt: skip
    else:
        tl.store(p, v[0])
        tl.store(p + LANES, v[1])
        tl.store(p + 2 * LANES, v[2])
        tl.store(p + 3 * LANES, v[3])


@triton.jit
def from_rows(a, b, c, d):
    """A block from its rows."""
    return (a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3])


@triton.jit
def load(p):
    """A block of a lane's own."""
    if _ASSEMBLY:
        return tl.inline_asm_elementwise(
            _READ16 if p.dtype.element_ty == tl.float64 else _READ16N, _TO16, [p.to(tl.int64)], _SIXTEEN, False, 1
        )  # fmt: skip
    else:  # noqa: RET505
        return from_rows(load4(p), load4(p + 4 * LANES), load4(p + 8 * LANES), load4(p + 12 * LANES))


@triton.jit
def zeros(zero):
    return (zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero)


@triton.jit
def row(a, i: tl.constexpr):
    return (a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3])


@triton.jit
def store(p, a):
    if _ASSEMBLY:
        tl.inline_asm_elementwise(
            _WRITE16 if p.dtype.element_ty == tl.float64 else _WRITE16N, _FROM16,
            [p.to(tl.int64), a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
             a[14], a[15]], tl.int32, False, 1,
        )  # fmt: skip
    else:
        store4(p, row(a, 0))
        store4(p + 4 * LANES, row(a, 1))
        store4(p + 8 * LANES, row(a, 2))
        store4(p + 12 * LANES, row(a, 3))


@triton.jit
def transpose(a):
    """The transpose, which costs nothing."""
    return (
        a[0], a[4], a[8], a[12], a[1], a[5], a[9], a[13],
        a[2], a[6], a[10], a[14], a[3], a[7], a[11], a[15],
    )  # fmt: skip


@triton.jit
def dot4(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@triton.jit
def _add_dot(c, a, b):
    return c + a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@triton.jit
def _sub_dot(c, a, b):
    return c - a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3]


@triton.jit
def sub_av(v, A, u):
    """v - A u."""
    return (
        _sub_dot(v[0], u, row(A, 0)), _sub_dot(v[1], u, row(A, 1)),
        _sub_dot(v[2], u, row(A, 2)), _sub_dot(v[3], u, row(A, 3)),
    )  # fmt: skip


@triton.jit
def add_av(v, A, u):
    """v + A u."""
    return (
        _add_dot(v[0], u, row(A, 0)), _add_dot(v[1], u, row(A, 1)),
        _add_dot(v[2], u, row(A, 2)), _add_dot(v[3], u, row(A, 3)),
    )  # fmt: skip


@triton.jit
def sub_abt(C, A, B):
    """C - A B^T."""
    return from_rows(
        sub_av(row(C, 0), B, row(A, 0)), sub_av(row(C, 1), B, row(A, 1)),
        sub_av(row(C, 2), B, row(A, 2)), sub_av(row(C, 3), B, row(A, 3)),
    )  # fmt: skip


@triton.jit
def add_abt(C, A, B):
    """C + A B^T."""
    return from_rows(
        add_av(row(C, 0), B, row(A, 0)), add_av(row(C, 1), B, row(A, 1)),
        add_av(row(C, 2), B, row(A, 2)), add_av(row(C, 3), B, row(A, 3)),
    )  # fmt: skip


@triton.jit
def _pivot(d, least):
    safe = tl.where(d > 0.0, d, 1.0)
    return safe, 1.0 / tl.sqrt(safe), tl.where(d > 0.0, tl.minimum(least, d), 0.0)  # 0 for a NaN


@triton.jit
def factor(c, least):
    """The Cholesky factor of a block, with 1 / l on its diagonal and 0 above it; its determinant squared; and the least
    pivot so far, which is not positive where there is no factor."""
    d0, i0, least = _pivot(c[0], least)
    l10, l20, l30 = c[4] * i0, c[8] * i0, c[12] * i0
    d1, i1, least = _pivot(c[5] - l10 * l10, least)
    l21, l31 = (c[9] - l20 * l10) * i1, (c[13] - l30 * l10) * i1
    d2, i2, least = _pivot(c[10] - l20 * l20 - l21 * l21, least)
    l32 = (c[14] - l30 * l20 - l31 * l21) * i2
    d3, i3, least = _pivot(c[15] - l30 * l30 - l31 * l31 - l32 * l32, least)
    zero = i0 * 0.0
    L = (i0, zero, zero, zero, l10, i1, zero, zero, l20, l21, i2, zero, l30, l31, l32, i3)
    return L, d0 * d1 * d2 * d3, least


@triton.jit
def solve4(L, c):
    """L^-1 c, L as `factor` gives it."""
    x0 = c[0] * L[0]
    x1 = (c[1] - x0 * L[4]) * L[5]
    x2 = (c[2] - x0 * L[8] - x1 * L[9]) * L[10]
    x3 = (c[3] - x0 * L[12] - x1 * L[13] - x2 * L[14]) * L[15]
    return (x0, x1, x2, x3)


@triton.jit
def solve(L, C):
    """C L^-T: each row as `solve4` has it."""
    return from_rows(solve4(L, row(C, 0)), solve4(L, row(C, 1)), solve4(L, row(C, 2)), solve4(L, row(C, 3)))


@triton.jit
def invert(L):
    """L^-1, with true numbers on its diagonal."""
    w10 = -L[4] * L[0] * L[5]
    w21 = -L[9] * L[5] * L[10]
    w32 = -L[14] * L[10] * L[15]
    w20 = -(L[8] * L[0] + L[9] * w10) * L[10]
    w31 = -(L[13] * L[5] + L[14] * w21) * L[15]
    w30 = -(L[12] * L[0] + L[13] * w10 + L[14] * w20) * L[15]
    return (L[0], L[1], L[2], L[3], w10, L[5], L[6], L[7], w20, w21, L[10], L[11], w30, w31, w32, L[15])

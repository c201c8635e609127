"""Gaussian processes by fused Triton kernels."""

from ...core.base.compilers.activity import connect_triton

connect_triton()

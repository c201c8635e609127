"""Compilers of loops and kernels: where what they made is kept, and when they are at work."""

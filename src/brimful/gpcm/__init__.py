"""Ordinal knowledge tracing: what a student will answer next, from what was answered before (Deep-GPCM)."""

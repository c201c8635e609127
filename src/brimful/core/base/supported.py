"""Which tensors can be samples or results, and the sentence about those that cannot."""

import torch


def refusal(tensor: torch.Tensor) -> str | None:
    """Why a tensor cannot be a part of a batch, and what to give instead; None for one that can."""
    if tensor.is_nested:
        return "is a nested tensor; give a data.Ragged(values, offsets)"
    if tensor.layout != torch.strided:
        return f"is a {tensor.layout} tensor; use .to_dense(), or a Ragged"
    if tensor.is_quantized:
        return "is a quantized tensor; use .dequantize(), or .int_repr()"
    if tensor.is_meta:
        return "is on the meta device and holds no data; give a tensor that does"
    if tensor.dtype.is_floating_point and tensor.element_size() == 1:
        return f"is of {tensor.dtype}, which torch can store and not compute with; use .to(torch.float16)"
    return None

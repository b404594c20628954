"""All uses of private names of other libraries; they have no public equivalent.

Besides these, `training/trainer.py`, `models/base.py`, `models/generation.py` and `models/heads/seq2seq.py` override
private methods of Hugging Face's classes.
"""

import functools
from typing import Any

import torch
from torch import Tensor

from .machine import cpu_vendor


def storage_references(storage: torch.UntypedStorage) -> int:
    """The number of references to a storage, including those of autograd."""
    return torch._C._storage_Use_Count(storage._cdata)


_CPU_HAS_BFLOAT16 = bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
_CPU_MULTIPLIES_BFLOAT16 = _CPU_HAS_BFLOAT16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def cpu_multiplies_bfloat16() -> bool:
    """Whether this CPU has instructions for products in bfloat16, and PyTorch uses them.

    A constant: compiled code cannot contain cached functions.
    """
    return _CPU_MULTIPLIES_BFLOAT16


@functools.cache
def cpu_has_vnni() -> bool:
    """Whether oneDNN multiplies 8-bit numbers by AVX512-VNNI, which does not overflow, on this CPU."""
    return torch.cpu._is_vnni_supported() and "onednn" in torch.backends.quantized.supported_engines


@functools.cache
def onednn_multiplies_faster() -> bool:
    """Whether oneDNN's products in float32 use wider vectors than those of MKL, which PyTorch calls by default: MKL
    uses AVX-512 on Intel's CPUs only."""
    here = torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()
    return here and torch.cpu._is_avx512_supported() and cpu_vendor() != "GenuineIntel"


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` by oneDNN, without gradients.

    For a weight with spare room between its rows oneDNN has only its reference code, a thousand times slower.
    """
    if not (weight.is_contiguous() or weight.mT.is_contiguous()):
        weight = weight.contiguous()
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def transforms_functions() -> bool:
    """Whether `torch.func` or forward-mode differentiation is transforming what is computed now."""
    stack = torch._C._functorch.peek_interpreter_stack()  # pyright: ignore[reportAttributeAccessIssue]
    return stack is not None or torch.autograd.forward_ad._current_level >= 0


def sharded_modules(model: Any) -> list[str]:
    """The classes of a model's modules that FSDP shards one by one."""
    return list(model._no_split_modules or [])


def dataset_fingerprint(rows: Any) -> str:
    """The fingerprint by which the datasets library identifies a dataset's content."""
    return rows._fingerprint


def dataset_indices(rows: Any) -> Any:
    """The numbers of the selected rows of a dataset as an Arrow table; None if all are selected."""
    return rows._indices


def forget_device(device: torch.device) -> None:
    """Resets the device that accelerate has chosen, if it is of another type."""
    from accelerate import PartialState
    from accelerate.state import AcceleratorState

    before = PartialState._shared_state.get("device")
    if before is not None and before.type != device.type:
        AcceleratorState._reset_state(reset_partial_state=True)

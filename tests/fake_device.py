"""Models and tensors on a GPU that does not exist: shapes, types and devices are real, values are not."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import Node

from transevolve.evolution import reads

DEVICE = "cuda:0"
CUDA, META, DEVICE_TYPES = 1, 14, 22
ANSWERS = {"drift": -1.0, "padding": True, "passes": 0, "frequencies": [12, 7, 12]}


def _let_autograd_see_cuda() -> None:
    """A build without CUDA has no device guard for it, which autograd needs; that of `meta` does nothing either."""
    if torch.backends.cuda.is_built():
        return
    library = ctypes.CDLL(os.fspath(Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * DEVICE_TYPES).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    guards[CUDA] = guards[META]


class FakeGPU:
    """Moves modules and tensors there, and records what was read back from it."""

    def __init__(self, mode: FakeTensorMode):
        self.mode = mode
        self.reads: list[str] = []

    def tensor(self, x: Tensor) -> Tensor:
        moved = self.mode.from_tensor(x).detach().to(DEVICE)
        return moved.requires_grad_() if x.requires_grad else moved

    def module(self, module: nn.Module) -> nn.Module:
        moved: dict[int, nn.Parameter] = {}
        for part in module.modules():
            for name, p in part._parameters.items():
                if p is not None:
                    part._parameters[name] = moved.setdefault(id(p), nn.Parameter(self.tensor(p), p.requires_grad))
            for name, b in part._buffers.items():
                part._buffers[name] = None if b is None else self.tensor(b)
        return module


@torch.no_grad()
def backward(y: Tensor) -> dict[int, Tensor]:
    """The gradients of the sum of y by the id of each leaf: autograd's engine would ask for a real GPU."""
    assert y.grad_fn is not None
    waiting: dict[Node, dict[int, Tensor]] = {y.grad_fn: {0: torch.ones_like(y)}}
    found: dict[int, Tensor] = {}
    for node in _in_order(y.grad_fn):
        grads = waiting.pop(node, {})
        if hasattr(node, "variable"):
            if grads:
                found[id(node.variable)] = grads[0]
            continue
        inputs = [grads.get(i) for i in range(len(node._input_metadata))]
        if not grads:
            continue
        outputs = node(*inputs) if not hasattr(node, "apply") else node.apply(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for (following, place), grad in zip(node.next_functions, outputs, strict=False):
            if following is not None and grad is not None:
                wanted, slots = following._input_metadata[place], waiting.setdefault(following, {})
                assert grad.device == wanted.device, f"{node.name()} has a gradient on {grad.device}"
                grad = grad.real if grad.is_complex() and not wanted.dtype.is_complex else grad
                grad = grad.sum_to_size(tuple(wanted.shape)).to(wanted.dtype)
                slots[place] = slots[place] + grad if place in slots else grad
    return found


def _in_order(root: Node) -> list[Node]:
    """Every node of the graph, each after all that lead to it."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(following, False) for following, _ in node.next_functions if following is not None]
    return order[::-1]


@contextmanager
def low_precision(low: torch.dtype | None) -> Iterator[None]:
    """Autocast on a GPU, which `torch.autocast` switches off where there is none."""
    torch.set_autocast_enabled("cuda", low is not None)
    torch.set_autocast_dtype("cuda", low or torch.float16)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", False)


@contextmanager
def fake_gpu(answers: dict[str, object] | None = None) -> Iterator[FakeGPU]:
    """A GPU whose reads get fixed answers; any other way to read a value, such as `.item()`, fails."""
    _let_autograd_see_cuda()
    before = reads._take
    with FakeTensorMode() as mode:
        gpu = FakeGPU(mode)

        def take(x: Tensor, what: str) -> object:
            gpu.reads.append(what)
            return (ANSWERS | (answers or {}))[what]

        reads._take = take
        try:
            yield gpu
        finally:
            reads._take = before

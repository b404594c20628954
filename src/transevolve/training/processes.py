"""The distributed processes of a run, as started by torchrun."""

import atexit
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from ..core.devices import default_device
from ..core.errors import UserError
from ..core.private import forget_device

T = TypeVar("T")


def join_processes() -> PartialState:
    """Join the process group, if there is one, and leave it when the interpreter exits.

    If the group's threads outlive the interpreter, the process is aborted.
    """
    atexit.unregister(leave_processes)
    device = default_device()
    forget_device(device)
    state = PartialState(cpu=device.type == "cpu")
    atexit.register(leave_processes)
    return state


def leave_processes() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def decided_by_main(state: PartialState, decide: Callable[[], T]) -> T:
    """Call `decide` in the main process and return its result in all; a `UserError` is raised in all of them."""
    answer: list[Any] = [None, None]
    if state.is_main_process:
        try:
            answer = [decide(), None]
        except UserError as error:
            answer = [None, str(error)]
            if state.num_processes == 1:
                raise
    if state.num_processes > 1:
        broadcast_object_list(answer)
    if answer[1] is not None:
        raise UserError(answer[1])
    return answer[0]

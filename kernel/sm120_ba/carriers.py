"""Parameter subclasses that only carry something, such as the loader of a serving engine.

vLLM's weights are of such a class. What counts is what a class does, not what it is called.
"""

from __future__ import annotations

from functools import cache
from threading import Thread
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode

# What the guards and the launch read of a weight.
_READ = [
    "shape",
    "dtype",
    "device",
    "layout",
    "requires_grad",
    "is_nested",
    "is_contiguous",
    "data_ptr",
]


class _Calls(TorchDispatchMode):  # type: ignore[misc, unused-ignore]  # without torch
    """The operators that reach the dispatcher, in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@cache
def only_carries(kind: type) -> bool:
    """Whether `F.linear` of a weight of class `kind` is that of the same values as a Parameter.

    True of a subclass of Parameter that adds attributes and whose `__torch_function__` hands on;
    asked once for each class, with a small weight. One that only watches calls cannot be told
    from it.
    """
    if not issubclass(kind, torch.nn.Parameter):
        return False
    if any(getattr(kind, name) is not getattr(torch.Tensor, name) for name in _READ):
        return False
    answers: list[bool] = []
    # Whatever mode the caller is in (fake tensors, autocast, ...) is not on in a new thread.
    thread = Thread(target=lambda: answers.append(_is_linear_of_its_data(kind)))
    thread.start()
    thread.join()
    return answers == [True]


def _is_linear_of_its_data(kind: type) -> bool:
    x = torch.ones((2, 3), dtype=torch.float32)
    data = torch.arange(12, dtype=torch.float32).view(4, 3)
    try:
        weight: torch.Tensor = data.as_subclass(kind)  # a constructor could ask for anything
        with _Calls() as through:
            y = F.linear(x, weight)
    except Exception:  # noqa: BLE001 (whatever such a class raises)
        return False
    with _Calls() as plain:
        expected = F.linear(x, data)
    return type(y) is torch.Tensor and through.seen == plain.seen and torch.equal(y, expected)

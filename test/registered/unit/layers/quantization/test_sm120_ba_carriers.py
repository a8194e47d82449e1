"""Which subclasses of Parameter the BA dispatcher takes as a weight; runs on the CPU."""

from __future__ import annotations

import unittest
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from ba_calls import BF16, BranchAssertions, Spec, any_autocast, dense
from torch.nn.parameter import Buffer, UninitializedParameter

from runci import register_cpu_ci
from sm120_ba.carriers import only_carries
from sm120_ba.gemm import K, N
from sm120_ba.reasons import Reason
from sm120_ba.testing import fake_dispatcher

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


class Named(torch.nn.Parameter):
    """Adds an attribute, and no function of its own."""

    tensor_parallel_rank = 3


class Loaded(torch.nn.Parameter):
    """Knows how to load itself; its function hook hands on, as that of vLLM's weights does."""

    def __new__(cls, data: torch.Tensor, **_: Any) -> Loaded:
        return super().__new__(cls, data=data, requires_grad=False)

    def __init__(self, data: torch.Tensor, weight_loader: Any) -> None:
        self.weight_loader = weight_loader

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class LoadedByColumns(Loaded):
    """Inherits the hook."""


class Doubling(torch.nn.Parameter):
    """Another product."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 2 if func is F.linear else result


class Dequantizing(torch.nn.Parameter):
    """The same product in another way."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            return args[0] @ args[1].as_subclass(torch.Tensor).clone().t()
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapping(torch.nn.Parameter):
    """Results are of its own class, as those of a subclass of Tensor."""

    __torch_function__ = classmethod(torch.Tensor.__torch_function__.__func__)


class Refusing(torch.nn.Parameter):
    """Refuses to be multiplied."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(func)


class Dispatching(torch.nn.Parameter):
    """Sees what torch calls below."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Elsewhere(torch.nn.Parameter):
    """Its values are not where torch has them."""

    def data_ptr(self) -> int:
        return 4096


class PlainTensor(torch.Tensor):
    """A subclass of Tensor gives results of its own class."""


def weight_of(kind: type) -> torch.Tensor:
    return dense((N, K), BF16, 0, 0, seed=2).as_subclass(kind)


class TestCarriers(BranchAssertions, unittest.TestCase):
    """The answer for each class, and the branch of the dispatcher."""

    def test_each_kind(self) -> None:
        for kind in (Named, Loaded, LoadedByColumns):
            with self.subTest(kind.__name__):
                self.assertTrue(only_carries(kind))
                self.assert_fast(Spec(weight_wrap=lambda t, kind=kind: t.as_subclass(kind)))
        refused = (Doubling, Dequantizing, Wrapping, Refusing, Dispatching, Elsewhere, PlainTensor)
        for kind in refused:
            with self.subTest(kind.__name__):
                self.assertFalse(only_carries(kind))
                dispatcher, runtime = fake_dispatcher()
                x, weight = Spec().x(), weight_of(kind)
                self.assertIs(dispatcher.why_not(x, weight), Reason.SUBCLASS)
                self.assertEqual(runtime.loads, [])
        for kind in (UninitializedParameter, Buffer, int, torch.Tensor):
            with self.subTest(kind.__name__):
                self.assertFalse(only_carries(kind))

    def test_the_other_guards_see_it(self) -> None:
        for changes, reason in (
            ({"weight_shape": (96, 5120)}, Reason.WEIGHT_SHAPE),
            ({"weight_dtype": torch.float16}, Reason.DTYPE),
            ({"weight_row_gap": 8}, Reason.STRIDES),
            ({"weight_grad": True}, Reason.REQUIRES_GRAD),
            ({"weight_device": "meta"}, Reason.OTHER_DEVICE),
        ):
            with self.subTest(reason.name):
                self.assert_fallback(
                    Spec(weight_wrap=lambda t: t.as_subclass(Loaded), **changes), reason
                )

    def test_the_answer_does_not_depend_on_the_modes_of_the_first_call(self) -> None:
        modes = {
            "fake tensors": torch._subclasses.FakeTensorMode,
            "autocast": lambda: any_autocast("cpu"),
            "default device": lambda: torch.device("meta"),
            "inference": torch.inference_mode,
        }
        for name, mode in modes.items():
            with self.subTest(name):
                only_carries.cache_clear()
                with mode():
                    self.assertTrue(only_carries(Loaded))
                    self.assertFalse(only_carries(Dequantizing))


if __name__ == "__main__":
    unittest.main()

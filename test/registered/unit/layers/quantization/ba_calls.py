"""Calls of the BA dispatcher as data, for the tests beside this file; runs on the CPU.

A `Spec` is one call, `BREAKS` says what breaks which guard, `BranchAssertions`
asserts which branch ran. Only the capability query and what follows it (loading, launching) are
faked.
"""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils._python_dispatch import BaseTorchDispatchMode

from sm120_ba import dispatch
from sm120_ba.gemm import GemmUnavailable, K, N
from sm120_ba.reasons import Reason
from sm120_ba.testing import RecordingRuntime, fake_dispatcher

BF16 = torch.bfloat16
Thunk = Callable[[], None]


def pretend_sm120(
    test: Any, capability: tuple[int, int] = (12, 0), *, warm: bool = True
) -> RecordingRuntime:
    """For one test the public functions take every device for a warm GPU of 12.0; its launches."""
    fake, runtime = fake_dispatcher(capability, warm=warm)
    for name in ("_capability", "_runtime", "_prover", "_store", "_devices"):
        patch = mock.patch.object(dispatch.DEFAULT, name, getattr(fake, name))
        patch.start()
        test.addCleanup(patch.stop)
    dispatch.reset_stats()
    return runtime


class Subclass(torch.Tensor):
    """A tensor subclass that changes nothing."""


class CountingMode(torch.overrides.TorchFunctionMode):
    """A function mode that notes what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func, types_, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def any_autocast(device_type: str) -> Iterator[None]:
    """Autocast switched on for a device type that this machine may lack."""
    torch.set_autocast_enabled(device_type, True)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device_type, False)


@contextlib.contextmanager
def deterministic_algorithms(warn_only: bool) -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def batch_invariant_library(name: str, enabled: bool = True) -> Iterator[None]:
    module = types.ModuleType(name)
    module.is_batch_invariant_mode_enabled = lambda: enabled
    with mock.patch.dict(sys.modules, {name: module}):
        yield


@contextlib.contextmanager
def reductions(allowed: bool | tuple[bool, bool]) -> Iterator[None]:
    """Other reduced-precision reductions of BF16, and split-K, than at warm-up."""
    matmul = torch.backends.cuda.matmul
    before = torch._C._get_cublas_allow_bf16_reduced_precision_reduction()
    matmul.allow_bf16_reduced_precision_reduction = allowed
    try:
        yield
    finally:
        matmul.allow_bf16_reduced_precision_reduction = before


def within(context: Callable[[], Any]) -> Callable[[Thunk], None]:
    def runner(thunk: Thunk) -> None:
        with context():
            thunk()

    return runner


def under_vmap(thunk: Thunk) -> None:
    torch.vmap(lambda z: (thunk(), z)[1])(torch.zeros(2))


def under_jit_trace(thunk: Thunk) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates jit.trace
        torch.jit.trace(lambda z: (thunk(), z + 0)[1], torch.zeros(1), check_trace=False)


def as_parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor, requires_grad=False)


@dataclass(frozen=True)
class Spec:
    """One call, as data: what the tensors are, and in which modes the call happens."""

    rows: int = 4
    columns: int = K
    dims: int = 2
    weight_shape: tuple[int, ...] = (N, K)
    x_dtype: torch.dtype = BF16
    weight_dtype: torch.dtype = BF16
    x_row_gap: int = 0
    weight_row_gap: int = 0
    x_offset: int = 0
    weight_offset: int = 0
    x_grad: bool = False
    weight_grad: bool = False
    weight_device: str = "cpu"
    x_wrap: Callable[[torch.Tensor], Any] | None = None
    weight_wrap: Callable[[torch.Tensor], Any] | None = as_parameter
    bias: bool = False
    capability: tuple[int, int] | None = (12, 0)
    capturing: bool = False
    failure: Exception | None = None
    runners: tuple[Callable[[Thunk], None], ...] = ()

    def x(self) -> Any:
        shape = {1: (self.columns,), 2: (self.rows, self.columns)}.get(
            self.dims, (1, self.rows, self.columns)
        )
        x = dense(shape, self.x_dtype, self.x_row_gap, self.x_offset, seed=1)
        return wrapped(x, self.x_wrap).requires_grad_(self.x_grad)

    def weight(self) -> Any:
        gap, offset = self.weight_row_gap, self.weight_offset
        weight = dense(self.weight_shape, self.weight_dtype, gap, offset, seed=2)
        weight = wrapped(weight.to(self.weight_device), self.weight_wrap)
        return weight.requires_grad_(self.weight_grad)


def wrapped(tensor: torch.Tensor, wrap: Callable[[torch.Tensor], Any] | None) -> Any:
    return tensor if wrap is None else wrap(tensor)


def dense(
    shape: tuple[int, ...], dtype: torch.dtype, row_gap: int, offset: int, seed: int
) -> torch.Tensor:
    """A random tensor whose rows are `row_gap` elements apart, `offset` elements into storage."""
    generator = torch.Generator().manual_seed(seed)
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size + (row_gap if len(strides) == 1 else 0))
    extent = offset + max(shape[0], 1) * strides[0] + shape[-1]
    storage = torch.randn(extent, generator=generator).to(dtype)
    return storage.as_strided(shape, strides, offset)


def neg(tensor: torch.Tensor) -> torch.Tensor:
    return torch._neg_view(tensor)


# What breaks one guard, and the reason that then must be given.
BREAKS: dict[str, tuple[dict[str, Any], Reason]] = {
    "jit trace": ({"runners": (under_jit_trace,)}, Reason.COMPILING),
    "x is a subclass": ({"x_wrap": lambda t: t.as_subclass(Subclass)}, Reason.SUBCLASS),
    "x is a Parameter": ({"x_wrap": as_parameter}, Reason.SUBCLASS),
    "weight is a subclass": ({"weight_wrap": lambda t: t.as_subclass(Subclass)}, Reason.SUBCLASS),
    "bias": ({"bias": True}, Reason.BIAS),
    "function mode": ({"runners": (within(CountingMode),)}, Reason.FUNCTION_MODE),
    "default device": (
        {"runners": (within(lambda: torch.device("cpu")),)},
        Reason.FUNCTION_MODE,
    ),
    "no NVIDIA GPU": ({"capability": None}, Reason.NOT_CUDA),
    "capability 12.1": ({"capability": (12, 1)}, Reason.NOT_SM120),
    "capability 9.0": ({"capability": (9, 0)}, Reason.NOT_SM120),
    "capability 10.0": ({"capability": (10, 0)}, Reason.NOT_SM120),
    "weight elsewhere": ({"weight_device": "meta"}, Reason.OTHER_DEVICE),
    "x float16": ({"x_dtype": torch.float16}, Reason.DTYPE),
    "both float32": ({"x_dtype": torch.float32, "weight_dtype": torch.float32}, Reason.DTYPE),
    "weight float32": ({"weight_dtype": torch.float32}, Reason.DTYPE),
    "one dimension": ({"dims": 1}, Reason.NOT_2D),
    "three dimensions": ({"dims": 3}, Reason.NOT_2D),
    "no rows": ({"rows": 0}, Reason.ROWS),
    "one row": ({"rows": 1}, Reason.ROWS),
    "nine rows": ({"rows": 9}, Reason.ROWS),
    "other columns": ({"columns": 2560}, Reason.COLUMNS),
    "x lazily negated": ({"x_wrap": neg}, Reason.WRAPPED),
    "weight lazily negated": ({"weight_wrap": neg}, Reason.WRAPPED),
    "x functional": ({"x_wrap": torch._to_functional_tensor}, Reason.WRAPPED),
    "weight 96": ({"weight_shape": (96, K)}, Reason.WEIGHT_SHAPE),
    "weight 1-d": ({"weight_shape": (K,)}, Reason.WEIGHT_SHAPE),
    "x rows apart": ({"x_row_gap": 1168}, Reason.STRIDES),
    "weight rows apart": ({"weight_row_gap": 8}, Reason.STRIDES),
    "x misaligned": ({"x_offset": 1}, Reason.ALIGNMENT),
    "weight misaligned": ({"weight_offset": 4}, Reason.ALIGNMENT),
    "x requires grad": ({"x_grad": True}, Reason.REQUIRES_GRAD),
    "weight requires grad": ({"weight_grad": True}, Reason.REQUIRES_GRAD),
    "grad under no_grad": (
        {"weight_grad": True, "runners": (within(torch.no_grad),)},
        Reason.REQUIRES_GRAD,
    ),
    "forward AD": (
        {"runners": (within(torch.autograd.forward_ad.dual_level),)},
        Reason.FORWARD_AD,
    ),
    "inside vmap": ({"runners": (under_vmap,)}, Reason.TRANSFORM),
    "dispatch mode": ({"runners": (within(BaseTorchDispatchMode),)}, Reason.DISPATCH_MODE),
    "autocast cpu": ({"runners": (within(lambda: any_autocast("cpu")),)}, Reason.AUTOCAST),
    "autocast cuda": ({"runners": (within(lambda: any_autocast("cuda")),)}, Reason.AUTOCAST),
    "autocast xpu": ({"runners": (within(lambda: any_autocast("xpu")),)}, Reason.AUTOCAST),
    "deterministic": (
        {"runners": (within(lambda: deterministic_algorithms(False)),)},
        Reason.DETERMINISTIC,
    ),
    "deterministic, warn only": (
        {"runners": (within(lambda: deterministic_algorithms(True)),)},
        Reason.DETERMINISTIC,
    ),
    "SGLang batch-invariant": (
        {"runners": (within(lambda: batch_invariant_library("sglang.srt.batch_invariant_ops")),)},
        Reason.BATCH_INVARIANT,
    ),
    "batch_invariant_ops": (
        {"runners": (within(lambda: batch_invariant_library("batch_invariant_ops")),)},
        Reason.BATCH_INVARIANT,
    ),
    "no warm-up before a capture": ({"capturing": True}, Reason.NOT_PROVED),
    "kernel does not compile": ({"failure": GemmUnavailable("no")}, Reason.UNAVAILABLE),
    "reductions changed": ({"runners": (within(lambda: reductions(False)),)}, Reason.STATE_CHANGED),
}

# The second break is gone once the first is there: a meta copy of a tensor has neither gaps nor an
# address, and a vector has no rows.
VOID = {
    ("weight elsewhere", "weight rows apart"),
    ("weight elsewhere", "weight misaligned"),
    ("weight 1-d", "weight rows apart"),
}


@dataclass
class Outcome:
    """What one call did: through the dispatcher, and through F.linear."""

    reason: Reason | None = None
    got: Any = None
    expected: Any = None
    launches: int = 0
    fast: int = 0
    fallback: dict[Reason, int] = field(default_factory=dict)


def attempt(function: Callable[..., torch.Tensor], *args: Any) -> Any:
    """The result, or the type and text of the exception."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 (any error has to be the same)
        return type(error), str(error)


def evaluate(spec: Spec, ask_only: bool = False) -> Outcome:
    """Make the call of `spec` inside its modes, or only ask what would happen."""
    runtime = RecordingRuntime(capturing=spec.capturing, failure=spec.failure)
    dispatcher, _ = fake_dispatcher(spec.capability, runtime)
    x, weight = spec.x(), spec.weight()
    bias = torch.ones(N, dtype=BF16) if spec.bias else None
    outcome = Outcome()

    def call() -> None:
        outcome.reason = dispatcher.why_not(x, weight, bias)
        if ask_only:
            return
        runtime.gemm.rows.clear()
        outcome.got = attempt(dispatcher.linear, x, weight, bias)
        outcome.expected = attempt(F.linear, x, weight, bias)

    thunk: Thunk = call
    for runner in reversed(spec.runners):
        thunk = lambda runner=runner, inner=thunk: runner(inner)  # noqa: E731
    thunk()
    stats = dispatcher.stats()
    outcome.launches, outcome.fast = len(runtime.gemm.rows), stats.fast
    outcome.fallback = dict(stats.fallback)
    return outcome


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
    """Both breaks at once; None where they set the same property."""
    clash = (first.keys() & second.keys()) - {"runners"}
    if clash or first is second:
        return None
    runners = first.get("runners", ()) + second.get("runners", ())
    return {**first, **second, "runners": runners}


class BranchAssertions:
    """For a TestCase: assertions about which branch ran; warnings of the dispatcher are off."""

    def setUp(self) -> None:
        logging_off = mock.patch("sm120_ba.dispatch.logger.warning")
        self.warning = logging_off.start()
        self.addCleanup(logging_off.stop)

    def assert_same(self, got: Any, expected: Any, values: bool = True) -> None:
        if not isinstance(expected, torch.Tensor):
            self.assertEqual(got, expected)
            return
        self.assertIs(type(got), type(expected))
        self.assertEqual((got.shape, got.dtype), (expected.shape, expected.dtype))
        self.assertEqual(got.requires_grad, expected.requires_grad)
        if torch._is_functional_tensor(got):
            got, expected = map(torch._from_functional_tensor, (got, expected))
        if values and not got.is_meta:
            self.assertTrue(torch.equal(got, expected))

    def assert_fallback(self, spec: Spec, reason: Reason) -> None:
        outcome = evaluate(spec)
        self.assertIs(outcome.reason, reason)
        self.assertEqual((outcome.launches, outcome.fast), (0, 0))
        # A product with a meta weight has a shape and arbitrary values.
        self.assert_same(outcome.got, outcome.expected, spec.weight_device != "meta")
        counted = {} if reason is Reason.COMPILING else {reason: 1}
        self.assertEqual(outcome.fallback, counted)

    def assert_fast(self, spec: Spec) -> None:
        outcome = evaluate(spec)
        self.assertIsNone(outcome.reason)
        self.assertEqual((outcome.launches, outcome.fast, outcome.fallback), (1, 1, {}))
        self.assert_same(outcome.got, outcome.expected)

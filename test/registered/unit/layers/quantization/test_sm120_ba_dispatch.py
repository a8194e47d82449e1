"""Which calls the BA dispatcher gives to the kernel; runs on the CPU.

Only the capability query and what follows it (loading, launching) are faked: every guard sees real
tensors in real modes. Each test asserts the branch that ran, not only the values.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils._python_dispatch import BaseTorchDispatchMode

import sm120_ba
from runci import register_cpu_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import M_MAX, M_MIN, GemmUnavailable, K, N
from sm120_ba.reasons import Reason
from sm120_ba.testing import RecordingRuntime, fake_dispatcher

register_cpu_ci(est_time=60, stage="base-a", runner_config="cpu")

BF16 = torch.bfloat16
ORDER = list(Reason)
Thunk = Callable[[], None]


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
    "cold capture": ({"capturing": True}, Reason.COLD_CAPTURE),
    "kernel does not compile": ({"failure": GemmUnavailable("no")}, Reason.UNAVAILABLE),
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


class DispatchCase(unittest.TestCase):
    """Assertions about which branch ran."""

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


class TestFastBranch(DispatchCase):
    """Calls that the kernel takes: the branch is the fast one each time."""

    def test_every_number_of_rows(self) -> None:
        for rows in range(M_MIN, M_MAX + 1):
            with self.subTest(rows=rows):
                self.assert_fast(Spec(rows=rows))

    def test_variants(self) -> None:
        variants = {
            "weight is a plain tensor": {"weight_wrap": None},
            "aligned slices": {"x_offset": 8, "weight_offset": 16},
            "no_grad": {"runners": (within(torch.no_grad),)},
            "inference mode": {"runners": (within(torch.inference_mode),)},
            "batch-invariant library, off": {
                "runners": (within(lambda: batch_invariant_library("batch_invariant_ops", False)),)
            },
            "half-imported library": {
                "runners": (
                    within(
                        lambda: mock.patch.dict(
                            sys.modules, {"batch_invariant_ops": types.ModuleType("b")}
                        )
                    ),
                )
            },
        }
        for name, changes in variants.items():
            with self.subTest(name):
                self.assert_fast(Spec(**changes))

    def test_inference_tensors_inside_and_outside(self) -> None:
        dispatcher, runtime = fake_dispatcher()
        with torch.inference_mode():
            x, weight = Spec().x() + 0, Spec(weight_wrap=None).weight() + 0
            inside = dispatcher.linear(x, weight)
            self.assertEqual(inside.is_inference(), F.linear(x, weight).is_inference())
        outside = dispatcher.linear(x, weight)
        self.assertEqual(outside.is_inference(), F.linear(x, weight).is_inference())
        self.assertEqual(runtime.gemm.rows, [M_MAX, 4, 4])

    def test_the_stream_of_the_device_is_used(self) -> None:
        dispatcher, runtime = fake_dispatcher(runtime=RecordingRuntime(stream=1234))
        dispatcher.linear(Spec().x(), Spec().weight())
        self.assertEqual(runtime.gemm.streams, [1234, 1234])
        self.assertEqual(runtime.gemm.rows, [M_MAX, 4])  # the warm-up launch, then the call


class TestGuards(DispatchCase):
    """Every guard alone and in pairs: the fallback each time, for the right reason."""

    def test_alone(self) -> None:
        for name, (changes, reason) in BREAKS.items():
            with self.subTest(name):
                self.assert_fallback(Spec(**changes), reason)

    def test_in_pairs_the_earlier_reason_is_given(self) -> None:
        pairs = 0
        for (first, (a, reason_a)), (second, (b, reason_b)) in itertools.combinations(
            BREAKS.items(), 2
        ):
            changes = merged(a, b)
            if changes is None or (first, second) in VOID:
                continue
            pairs += 1
            expected = min(reason_a, reason_b, key=ORDER.index)
            with self.subTest(f"{first} + {second}"):
                if Reason.COMPILING in (reason_a, reason_b):
                    # torch's tracer crashes on F.linear of some of these tensors.
                    self.assertIs(evaluate(Spec(**changes), ask_only=True).reason, expected)
                else:
                    self.assert_fallback(Spec(**changes), expected)
        self.assertGreater(pairs, 700)

    def test_every_reason_is_broken_somewhere(self) -> None:
        alone = {reason for _, reason in BREAKS.values()}
        self.assertEqual(set(Reason) - alone, {Reason.NO_DATA, Reason.OUTPUT_ALIGNMENT})
        for reason in Reason:
            with self.subTest(reason.name):
                self.assertRegex(reason.sentence, r"^\w.+\.$")

    def test_misaligned_output(self) -> None:
        dispatcher, runtime = fake_dispatcher()
        x, weight = Spec().x(), Spec().weight()
        misaligned = dense((4, N), BF16, 0, 1, seed=6)
        with mock.patch.object(torch.Tensor, "new_empty", lambda _x, *_shape: misaligned):
            self.assertIs(dispatcher.why_not(x, weight), Reason.OUTPUT_ALIGNMENT)
            self.assert_same(dispatcher.linear(x, weight), F.linear(x, weight))
        self.assertEqual(dispatcher.stats().fallback, {Reason.OUTPUT_ALIGNMENT: 1})
        self.assertEqual(runtime.gemm.rows, [M_MAX])

    def test_freed_storage(self) -> None:
        dispatcher, _ = fake_dispatcher()
        for freed in range(2):
            tensors = [Spec().x().clone(), Spec(weight_wrap=None).weight().clone()]
            tensors[freed].untyped_storage().resize_(0)
            self.assertIs(dispatcher.why_not(*tensors), Reason.NO_DATA)

    def test_one_row_of_a_wider_matrix_stays_out(self) -> None:
        x = dense((2, K), BF16, 1168, 0, seed=3)[:1]
        self.assertTrue(x.is_contiguous())
        dispatcher, _ = fake_dispatcher()
        self.assertIs(dispatcher.why_not(x, Spec().weight()), Reason.ROWS)

    def test_strides_of_transposed_and_expanded(self) -> None:
        dispatcher, runtime = fake_dispatcher()
        weight = Spec().weight()
        transposed = dense((K, 4), BF16, 0, 0, seed=3).t()
        expanded = dense((1, K), BF16, 0, 0, seed=3).expand(4, K)
        for x in (transposed, expanded):
            self.assertIs(dispatcher.why_not(x, weight), Reason.STRIDES)
            self.assert_same(dispatcher.linear(x, weight), F.linear(x, weight))
        self.assertEqual(runtime.gemm.rows, [])

    def test_unusual_tensors(self) -> None:
        x, weight = Spec().x(), Spec(weight_wrap=None).weight()
        nested = torch.nested.nested_tensor([x, x])
        zeros = torch._efficientzerotensor((4, K), dtype=BF16)
        with torch._subclasses.FakeTensorMode():
            fake = torch.empty(4, K, dtype=BF16)
        leaked: list[torch.Tensor] = []
        torch.vmap(lambda z: (leaked.append(z), z)[1])(x[None])
        unusual = {
            "vmapped, outside": ((leaked[0], weight), Reason.WRAPPED),
            "BSR x": ((x.to_sparse_bsr((2, 2)), weight), Reason.WRAPPED),
            "MKL-DNN x": ((x.to_mkldnn(), weight), Reason.WRAPPED),
            "fake": ((fake, weight), Reason.SUBCLASS),
            "meta": ((x.to("meta"), weight.to("meta")), Reason.WRAPPED),
            "sparse x": ((x.to_sparse(), weight), Reason.WRAPPED),
            "sparse weight": ((x, weight.to_sparse()), Reason.WRAPPED),
            "CSR weight": ((x, weight.to_sparse_csr()), Reason.WRAPPED),
            "nested x": ((nested, weight), Reason.WRAPPED),
            "nested weight": ((x, nested), Reason.WRAPPED),
            "zero tensor": ((zeros, weight), Reason.WRAPPED),
        }
        for name, (args, reason) in unusual.items():
            with self.subTest(name):
                dispatcher, runtime = fake_dispatcher()
                self.assertIs(dispatcher.why_not(*args), reason)
                self.assertEqual(runtime.loads, [])

    def test_distributed_tensors(self) -> None:
        import torch.distributed as dist
        from torch.distributed._functional_collectives import AsyncCollectiveTensor
        from torch.distributed.tensor import DTensor, init_device_mesh

        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        mesh = init_device_mesh("cpu", (1,))
        x, weight = Spec().x(), Spec(weight_wrap=None).weight()
        sharded = DTensor.from_local(weight, mesh)
        dispatcher, _ = fake_dispatcher()
        self.assertIs(dispatcher.why_not(x, torch.nn.Parameter(sharded)), Reason.SUBCLASS)
        self.assertIs(dispatcher.why_not(AsyncCollectiveTensor(x), weight), Reason.SUBCLASS)


class TestSameAsLinear(DispatchCase):
    """Autograd, transforms, tracing and errors are those of F.linear, and the fallback ran."""

    def test_gradients(self) -> None:
        dispatcher, runtime = fake_dispatcher()
        x, weight = Spec(x_grad=True).x(), Spec(weight_grad=True).weight()
        dispatcher.linear(x, weight).sum().backward()
        got = x.grad.clone(), weight.grad.clone()
        x.grad = weight.grad = None
        F.linear(x, weight).sum().backward()
        self.assert_same(got[0], x.grad)
        self.assert_same(got[1], weight.grad)
        self.assertEqual(dispatcher.stats().fallback, {Reason.REQUIRES_GRAD: 1})
        self.assertEqual(runtime.gemm.rows, [])

    def test_autocast_dtype(self) -> None:
        dispatcher, _ = fake_dispatcher()
        with torch.autocast("cpu", dtype=torch.float16):
            got = dispatcher.linear(Spec().x(), Spec().weight())
        self.assertIs(got.dtype, torch.float16)
        self.assertEqual(dispatcher.stats().fallback, {Reason.AUTOCAST: 1})

    def test_forward_ad_keeps_the_tangent(self) -> None:
        dispatcher, _ = fake_dispatcher()
        weight, tangent = Spec().weight(), dense((4, K), BF16, 0, 0, seed=5)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(Spec().x(), tangent)
            got = torch.autograd.forward_ad.unpack_dual(dispatcher.linear(dual, weight))
        self.assert_same(got.tangent, F.linear(tangent, weight))

    def test_vmapped_tensor(self) -> None:
        dispatcher, runtime = fake_dispatcher()
        batch, weight = dense((3, 4, K), BF16, 0, 0, seed=4), Spec().weight()
        got = torch.vmap(lambda x: dispatcher.linear(x, weight))(batch)
        self.assert_same(got, torch.vmap(lambda x: F.linear(x, weight))(batch))
        self.assertEqual(dispatcher.stats().fallback, {Reason.TRANSFORM: 1})
        self.assertEqual(runtime.gemm.rows, [])

    def test_function_mode_sees_linear_and_nothing_else(self) -> None:
        dispatcher, _ = fake_dispatcher()
        x, weight = Spec().x(), Spec().weight()
        with CountingMode() as mode:
            dispatcher.linear(x, weight)
        self.assertEqual(mode.seen, ["linear"])

    def test_fake_tensors(self) -> None:
        dispatcher, _ = fake_dispatcher()
        with torch._subclasses.FakeTensorMode():
            x, weight = torch.empty(4, K, dtype=BF16), torch.empty(N, K, dtype=BF16)
            got = dispatcher.linear(x, weight)
        self.assertEqual((got.shape, got.dtype), ((4, N), BF16))
        self.assertEqual(dispatcher.stats().fallback, {Reason.SUBCLASS: 1})

    def test_compile_without_a_graph_break(self) -> None:
        dispatcher, runtime = fake_dispatcher()
        weight = Spec().weight()
        graphs = []

        def backend(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
            graphs.append([node.target for node in graph.graph.nodes])
            return graph.forward

        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(
            lambda x: dispatcher.linear(x, weight), backend=backend, fullgraph=True, dynamic=True
        )
        for rows in (2, 4, 8, 9, 4, 4):
            x = Spec(rows=rows).x()
            self.assert_same(compiled(x), F.linear(x, weight))
            dispatcher.linear(Spec(rows=1).x(), weight)  # a count must not cause a recompilation
        self.assertEqual(len(graphs), 1)
        self.assertIn(F.linear, [getattr(t, "__wrapped__", t) for t in graphs[0]])
        self.assertEqual((runtime.gemm.rows, dispatcher.stats().fallbacks), ([], 6))

    def test_compile_of_the_public_function_and_why_not(self) -> None:
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        x, weight = Spec().x(), Spec().weight()
        linear = torch.compile(sm120_ba.sm120_ba_linear, backend="eager", fullgraph=True)
        self.assert_same(linear(x, weight), F.linear(x, weight))
        seen = []
        dispatcher, _ = fake_dispatcher()

        @torch.compile(backend="eager", fullgraph=True)
        def ask(x: torch.Tensor) -> torch.Tensor:
            return x + int(dispatcher.why_not(x, weight) is Reason.COMPILING)

        seen.append(ask(x) - x)
        self.assertTrue(seen[0].float().abs().sum() > 0)

    def test_export(self) -> None:
        dispatcher, runtime = fake_dispatcher()

        class Layer(torch.nn.Module):
            def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
                return dispatcher.linear(x, weight)

        x, weight = Spec().x(), Spec(weight_wrap=None).weight()
        program = torch.export.export(Layer(), (x, weight))
        self.assert_same(program.module()(x, weight), F.linear(x, weight))
        self.assertEqual(runtime.gemm.rows, [])

    def test_bad_input_gives_the_error_of_linear(self) -> None:
        x, weight = Spec().x(), Spec(weight_wrap=None).weight()
        quantized = torch.quantize_per_tensor(x.float(), 0.1, 0, torch.quint8)
        bad = {
            "no tensors": (None, None),
            "x a list": ([[1.0]], weight),
            "weight a string": (x, "weight"),
            "x a number": (3, weight),
            "widths differ": (x[:, :64].contiguous(), weight),
            "scalar": (torch.tensor(1.0, dtype=BF16), weight),
            "weight 3-d": (x, weight[None]),
            "dtypes differ": (x.float(), weight),
            "integers": (x.to(torch.int32), weight.to(torch.float16)),
            "meta and CPU": (x, weight.to("meta")),
            "quantized": (quantized, weight),
            "sparse x": (x.to_sparse(), weight),
            "sparse weight": (x, weight.to_sparse_csr()),
            "bias of another size": (x, weight, torch.ones(7, dtype=BF16)),
            "bias not a tensor": (x, weight, 1.0),
            "wrong number": (x,),
        }
        for name, args in bad.items():
            for dispatcher in (fake_dispatcher()[0], Dispatcher()):
                with self.subTest(name, default=dispatcher._capability.__name__):
                    got, expected = attempt(dispatcher.linear, *args), attempt(F.linear, *args)
                    if name == "wrong number":
                        self.assertIs(got[0], TypeError)
                    else:
                        self.assert_same(got, expected, name != "meta and CPU")
                    self.assertEqual(dispatcher.stats().fast, 0)


if __name__ == "__main__":
    unittest.main()

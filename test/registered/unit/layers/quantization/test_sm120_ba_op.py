"""The BA projection in compiled code; runs on the CPU.

Which branch ran is read from the recorded launches: a graph calls the operator, and its guards run
at every call. With Inductor, GPUs and CUDA graphs it is not tested here.
"""

from __future__ import annotations

import subprocess
import sys
import unittest
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from ba_calls import BF16, BranchAssertions, Spec, pretend_sm120
from torch._dynamo.testing import CompileCounterWithBackend

import sm120_ba
from runci import register_cpu_ci
from sm120_ba import dispatch
from sm120_ba.config import Mode
from sm120_ba.gemm import K, N
from sm120_ba.reasons import Reason
from sm120_ba.shapes import TABLE

register_cpu_ci(est_time=12, stage="base-a", runner_config="cpu")

linear = sm120_ba.sm120_ba_linear
OP = torch.ops.sm120_ba.linear.default


def rows_of(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(BF16)


def operators(function: Any, *args: Any) -> list[Any]:
    """What torch.compile puts into the graph."""
    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        graphs.extend(
            getattr(node.target, "__wrapped__", node.target) for node in graph.graph.nodes
        )
        return graph.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(*args)
    return graphs


class OperatorCase(BranchAssertions, unittest.TestCase):
    """Every device passes for a GPU of 12.0; 4 x 5120 and 48 x 5120 in BF16."""

    def setUp(self) -> None:
        super().setUp()
        self.runtime = pretend_sm120(self)
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        self.x, self.weight = Spec().x(), Spec().weight()

    def compiled(self, function: Any = linear, backend: Any = "aot_eager", **options: Any) -> Any:
        return torch.compile(function, backend=backend, fullgraph=True, **options)


class TestOperator(OperatorCase):
    """The operator itself."""

    def test_what_torch_checks_of_an_operator(self) -> None:
        for gradient in (False, True):
            args = (rows_of(4, K), rows_of(N, K))
            for tensor in args:
                tensor.requires_grad_(gradient)
            with self.subTest(requires_grad=gradient):
                checks = torch.library.opcheck(OP, args)
                self.assertEqual(set(checks.values()), {"SUCCESS"})

    def test_registering_does_not_need_a_gpu_or_triton(self) -> None:
        code = (
            "import sys; sys.modules['triton'] = None\n"
            "import torch, sm120_ba.op\n"
            "x, w = torch.ones(4, 5120).bfloat16(), torch.ones(48, 5120).bfloat16()\n"
            "y = torch.ops.sm120_ba.linear(x, w)\n"
            "assert torch.equal(y, torch.nn.functional.linear(x, w))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class TestCompiled(OperatorCase):
    """`torch.compile(sm120_ba_linear)`: branch, values, type and strides, against F.linear."""

    def test_one_graph_serves_every_number_of_rows(self) -> None:
        counter = CompileCounterWithBackend("aot_eager")
        function = self.compiled(backend=counter, dynamic=True)
        rows = (4, 2, 8, 9, 3, 5, 6, 7, 64, 4)
        for number in rows:
            x = rows_of(number, K)
            self.assert_same(function(x, self.weight), F.linear(x, self.weight))
        self.assertEqual(counter.frame_count, 1)
        self.assertEqual(self.runtime.gemm.rows, [n for n in rows if 2 <= n <= 8])
        self.assertEqual(dispatch.stats().fallback, {Reason.ROWS: 2})

    def test_every_rank_and_stride(self) -> None:
        function = self.compiled()
        inputs = {
            "3-d": rows_of(2, 3, K),
            "4-d": rows_of(2, 1, 3, K),
            "transposed": rows_of(3, 2, K).permute(1, 0, 2),
            "one row": rows_of(1, K),
            "none": rows_of(0, K),
            "1-d": rows_of(K),
            "every second": rows_of(8, K)[::2],
        }
        for name, x in inputs.items():
            with self.subTest(name):
                got, expected = function(x, self.weight), F.linear(x, self.weight)
                self.assert_same(got, expected)
                self.assertEqual(got.stride(), expected.stride())
        self.assertEqual(self.runtime.gemm.rows, [6, 6, 6])

    def test_what_stays_linear_in_the_graph(self) -> None:
        weight, bias = self.weight, torch.ones(N, dtype=BF16)
        self.assertIn(OP, operators(linear, self.x, weight))
        others = {
            "bias": (self.x, weight, bias),
            "float32": (self.x.float(), weight.float()),
            "float16": (self.x.half(), weight.half()),
            "a shape without kernel": (rows_of(4, 64), rows_of(N, 64)),
            "widths": (rows_of(4, K), rows_of(40, K)),
            "one dimension": (rows_of(K), weight),
        }
        for name, args in others.items():
            with self.subTest(name):
                found = operators(linear, *args)
                self.assertNotIn(OP, found)
                self.assertIn(F.linear, found)

    def test_what_warm_up_enables_is_in_the_graph(self) -> None:
        allowed = {"48 x 5120"}
        for mode in Mode:
            sm120_ba.warmup("cpu", shapes=[], mode=mode)
            for shape in TABLE:
                with self.subTest(str(shape), mode=mode):
                    found = operators(linear, rows_of(4, shape.k), rows_of(shape.n, shape.k))
                    enabled = mode is Mode.PROVED or str(shape) in allowed
                    self.assertEqual(OP in found, enabled)

    def test_a_device_without_the_kernel_keeps_inductors_choice(self) -> None:
        self.assertIn(OP, operators(linear, self.x, self.weight))
        for capability in (None, (9, 0), (12, 1)):
            dispatch.DEFAULT._devices.clear()
            dispatch.DEFAULT._capability = lambda _device, found=capability: found
            with self.subTest(capability=capability):
                self.assertNotIn(OP, operators(linear, self.x, self.weight))

    def test_an_exported_program_does_not_need_this_package(self) -> None:
        class Layer(torch.nn.Module):
            def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
                return linear(x, weight)

        args = (self.x, self.weight.data)
        for strict in (True, False):
            program = torch.export.export(Layer(), args, strict=strict)
            self.assertNotIn("sm120_ba", str(program.graph))
            self.assert_same(program.module()(*args), F.linear(*args))

    def test_autocast_gives_the_dtype_of_linear(self) -> None:
        for dtype in (torch.bfloat16, torch.float16):
            function = self.compiled()
            with self.subTest(dtype=dtype), torch.autocast("cpu", dtype=dtype), torch.no_grad():
                got, expected = function(self.x, self.weight), F.linear(self.x, self.weight)
                self.assertIs(expected.dtype, dtype)
                self.assert_same(got, expected)
        self.assertEqual(self.runtime.gemm.rows, [])

    def test_autocast_inside_the_graph(self) -> None:
        def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.float16):
                return linear(x, weight)

        self.assert_same(self.compiled(layer)(self.x, self.weight), layer(self.x, self.weight))

    def test_gradients_are_those_of_linear(self) -> None:
        x, weight = rows_of(4, K).requires_grad_(), rows_of(N, K).requires_grad_()
        gradients = []
        for function in (self.compiled(), F.linear):
            x.grad = weight.grad = None
            y = function(x, weight)
            self.assertTrue(y.requires_grad)
            y.sum().backward()
            gradients.append((x.grad, weight.grad))
        for got, expected in zip(*gradients, strict=True):
            self.assert_same(got, expected)
        self.assertEqual(self.runtime.gemm.rows, [])

    def test_a_weight_that_requires_grad_under_no_grad(self) -> None:
        weight = rows_of(N, K).requires_grad_()
        with torch.no_grad():
            self.assert_same(self.compiled()(self.x, weight), F.linear(self.x, weight))
        self.assertEqual(dispatch.stats().fallback, {Reason.REQUIRES_GRAD: 1})

    def test_transforms(self) -> None:
        weight = self.weight.data
        batch = rows_of(3, 4, K)
        over_rows = self.compiled(torch.vmap(linear, in_dims=(0, None)))
        self.assert_same(over_rows(batch, weight), F.linear(batch, weight))
        weights = rows_of(3, N, K)
        over_both = self.compiled(torch.vmap(linear))
        self.assert_same(over_both(batch, weights), torch.vmap(F.linear)(batch, weights))
        gradient = self.compiled(torch.func.grad(lambda x: linear(x, weight).sum()))
        expected = torch.func.grad(lambda x: F.linear(x, weight).sum())(self.x)
        self.assert_same(gradient(self.x), expected)
        for shape in ((4, K), (2, 2, K)):
            x, tangent = rows_of(*shape), rows_of(*shape)
            got = self.compiled(
                lambda x, t: torch.func.jvp(lambda z: linear(z, weight), (x,), (t,))
            )
            self.assert_same(got(x, tangent)[1], F.linear(tangent, weight))
        self.assertEqual(self.runtime.gemm.rows, [])

    def test_the_modes_of_the_call_decide_in_the_graph(self) -> None:
        function = self.compiled()
        function(self.x, self.weight)
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.assert_same(function(self.x, self.weight), F.linear(self.x, self.weight))
        self.assertEqual(dispatch.stats().fallback, {Reason.DETERMINISTIC: 1})

    def test_eager_calls_do_not_pass_the_operator(self) -> None:
        found = []
        for function in (linear, self.compiled()):
            with torch.profiler.profile() as profile:
                function(self.x, self.weight)
            found.append("sm120_ba::linear" in {event.name for event in profile.events()})
        self.assertEqual(found, [False, True])


if __name__ == "__main__":
    unittest.main()

"""Where the BA dispatcher falls back, everything is as with `F.linear` alone; runs on the CPU.

Gradients, tangents, transforms, tracing and errors; each test asserts that the fallback ran.
"""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from ba_calls import BF16, BranchAssertions, CountingMode, Spec, attempt, dense

import sm120_ba
from runci import register_cpu_ci
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import K, N
from sm120_ba.reasons import Reason
from sm120_ba.testing import fake_dispatcher

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")


class TestSameAsLinear(BranchAssertions, unittest.TestCase):
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

    def test_keywords(self) -> None:
        x, weight = Spec().x(), Spec().weight()
        bias = torch.ones(N, dtype=BF16)
        for function in (sm120_ba.sm120_ba_linear, F.linear):
            got = function(input=x, weight=weight, bias=bias)
            self.assert_same(got, F.linear(x, weight, bias))

    def test_script_sees_linear(self) -> None:
        def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return sm120_ba.sm120_ba_linear(x, weight) + 1

        x, weight = Spec().x(), Spec(weight_wrap=None).weight()
        bias = torch.ones(N, dtype=BF16)
        sm120_ba.reset_stats()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates jit.script
            alone, inside = torch.jit.script(sm120_ba.sm120_ba_linear), torch.jit.script(layer)
        self.assert_same(alone(x, weight), F.linear(x, weight))
        self.assert_same(alone(x, weight, bias), F.linear(x, weight, bias))
        self.assert_same(inside(x, weight), F.linear(x, weight) + 1)
        self.assertEqual(sm120_ba.stats().fallbacks, 0)

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

"""The vLLM plugin on stand-ins for vLLM's classes, made after its sources; runs on the CPU.

It is not verified in vLLM. Which branch ran is read from the recorded launches.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from ba_calls import BF16, pretend_sm120

from runci import register_cpu_ci
from sm120_ba import config, dispatch, layers_seen, vllm_plugin
from sm120_ba.reasons import Reason

register_cpu_ci(est_time=8, stage="base-a", runner_config="cpu")

NAME = "model.layers.0.linear_attn.in_proj_ba"
PACKAGES = ("vllm", "vllm.envs", "vllm.model_executor", "vllm.model_executor.layers")
MODULE = "vllm.model_executor.layers.linear"


class ModelWeight(torch.nn.Parameter):
    """As ModelWeightParameter: it knows how to load itself, and its function hook hands on."""

    def __new__(cls, data: torch.Tensor, **_: Any) -> ModelWeight:
        return super().__new__(cls, data=data, requires_grad=False)

    def __init__(self, data: torch.Tensor, weight_loader: Any) -> None:
        self._weight_loader = weight_loader

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def stand_in() -> type:
    """A new class as vLLM's UnquantizedLinearMethod is, counting the calls of `apply`."""

    class UnquantizedLinearMethod:
        applied = 0

        def process_weights_after_loading(self, layer: Any) -> None:
            layer.processed = True

        def apply(self, layer: Any, x: torch.Tensor, bias: Any = None) -> torch.Tensor:
            if not torch.compiler.is_compiling():
                type(self).applied += 1
            return F.linear(x, layer.weight, bias)

    return UnquantizedLinearMethod


class Layer(torch.nn.Module):
    """As vLLM's LinearBase calls its method."""

    def __init__(self, method: Any, n: int = 48, prefix: str = NAME) -> None:
        super().__init__()
        self.prefix, self.quant_method = prefix, method
        generator = torch.Generator().manual_seed(n)
        data = torch.randn(n, 5120, generator=generator).to(BF16)
        self.weight = ModelWeight(data, weight_loader=print)
        method.process_weights_after_loading(self)

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return self.quant_method.apply(self, x, bias)


class VllmCase(unittest.TestCase):
    """A vLLM whose plugins were loaded with the flag on, on what passes for a cold GPU of 12.0."""

    def setUp(self) -> None:
        self.runtime = pretend_sm120(self, warm=False)
        self.method, self.envs = stand_in(), ModuleType("vllm.envs")
        modules = {name: ModuleType(name) for name in PACKAGES} | {MODULE: ModuleType(MODULE)}
        modules[MODULE].UnquantizedLinearMethod = self.method
        modules["vllm"].envs = modules["vllm.envs"] = self.envs
        for name, module in modules.items():  # and not all of sys.modules: torch imports more
            sys.modules[name] = module
            self.addCleanup(sys.modules.pop, name)
        for patch in (
            mock.patch.dict(os.environ, {config.FLAG: "1"}),
            mock.patch.object(config, "_capability", return_value=(12, 0)),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(config.reset)
        self.addCleanup(layers_seen.start, {})
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        vllm_plugin.register()

    def call(self, layer: Layer, rows: int = 4, bias: torch.Tensor | None = None) -> str:
        """Which branch ran; the result is F.linear's."""
        x = torch.randn(rows, 5120).to(BF16)
        before = self.method.applied, dispatch.stats().fast
        y = layer(x, bias)
        self.assertIs(type(y), torch.Tensor)
        self.assertTrue(torch.equal(y, F.linear(x, layer.weight, bias)))
        ran = self.method.applied - before[0], dispatch.stats().fast - before[1]
        return {(1, 0): "vLLM", (0, 1): "kernel"}[ran]


class TestEager(VllmCase):
    """Without torch.compile (`--enforce-eager`)."""

    def test_which_calls_take_the_kernel(self) -> None:
        layer = Layer(self.method())
        self.assertTrue(layer.processed)
        self.assertEqual(self.runtime.loads, [-1], "proved when the weight is loaded")
        for rows in range(10):
            self.assertEqual(self.call(layer, rows), "kernel" if 2 <= rows <= 8 else "vLLM")
        self.assertEqual(self.call(layer, bias=torch.ones(48, dtype=BF16)), "vLLM")

    def test_other_layers_are_left_alone(self) -> None:
        for layer in (Layer(self.method(), 96), Layer(self.method(), prefix="a.in_proj_qkvz")):
            self.assertEqual(self.call(layer), "vLLM")
        self.assertEqual((self.runtime.loads, dispatch.stats().fallbacks), ([], 0))

    def test_batch_invariant_mode(self) -> None:
        self.envs.VLLM_BATCH_INVARIANT = True
        self.assertEqual(self.call(Layer(self.method())), "vLLM")
        self.assertIn("batch-invariant", config.current().reason)

    def test_another_gpu(self) -> None:
        with mock.patch.object(config, "_capability", return_value=(9, 0)):
            self.assertEqual(self.call(Layer(self.method())), "vLLM")
        self.assertEqual(self.runtime.loads, [])

    def test_loading_the_plugins_again_wraps_nothing_twice(self) -> None:
        wrapped = self.method.apply
        vllm_plugin.register()
        self.assertIs(self.method.apply, wrapped)

    def test_nothing_is_decided_before_a_weight_is_loaded(self) -> None:
        asked = mock.Mock(side_effect=AssertionError("the GPU was asked"))
        with mock.patch.object(config, "_capability", asked):
            vllm_plugin.register()
        self.assertIs(config.current(), config.NOT_INITIALIZED)

    def test_a_lora_wrapper_is_not_bypassed(self) -> None:
        layer = Layer(self.method())
        x = torch.ones(4, 5120, dtype=BF16)
        got = layer.quant_method.apply(layer, x) + 1
        self.assertTrue(torch.equal(got, F.linear(x, layer.weight) + 1))
        self.assertEqual(dispatch.stats().fast, 1)


class TestCompiled(VllmCase):
    """As vLLM compiles its models: one graph for every number of tokens."""

    def test_one_graph_takes_the_kernel(self) -> None:
        layer = Layer(self.method())
        counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(layer, backend=counter, fullgraph=True, dynamic=True)
        with torch.inference_mode():
            for rows in (4, 2, 8, 9, 100):
                x = torch.randn(rows, 5120).to(BF16)
                y = compiled(x)
                self.assertIs(type(y), torch.Tensor)
                self.assertTrue(torch.equal(y, F.linear(x, layer.weight)))
        self.assertEqual(counter.frame_count, 1)
        stats = dispatch.stats()
        self.assertEqual((stats.fast, stats.fallback), (3, {Reason.ROWS: 2}))

    def test_a_layer_that_does_not_fit_is_compiled_as_before(self) -> None:
        layer = Layer(self.method(), 96)
        x = torch.randn(4, 5120).to(BF16)
        y = torch.compile(layer, backend="aot_eager", fullgraph=True)(x)
        self.assertTrue(torch.equal(y, F.linear(x, layer.weight)))
        self.assertEqual((dispatch.stats().fast, dispatch.stats().fallbacks), (0, 0))


class TestFlag(unittest.TestCase):
    """Off, and neither."""

    def test_off_is_cheap_and_silent(self) -> None:
        code = (
            "import sys\n"
            "from sm120_ba.vllm_plugin import register\n"
            "assert register() is None\n"
            "heavy = [m for m in ('torch', 'triton', 'vllm') if m in sys.modules]\n"
            "assert not heavy, heavy\n"
        )
        for flag in ({}, {config.FLAG: "0"}):
            environment = {k: v for k, v in os.environ.items() if k != config.FLAG} | flag
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, check=False
            )
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_a_bad_flag_names_the_variable(self) -> None:
        with (
            mock.patch.dict(os.environ, {config.FLAG: "perhaps"}),
            self.assertRaisesRegex(ValueError, config.FLAG),
        ):
            vllm_plugin.register()


if __name__ == "__main__":
    unittest.main()

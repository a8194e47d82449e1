"""The plugin in the released SGLang, through its own loader and hook registry; needs no GPU.

Opt-in: `run_sglang_plugin.sh` makes the environment and starts this file. Where a test needs the
fast branch, the capability query and the launch are faked, and SGLang is real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba import config, dispatch
from sm120_ba.reasons import Reason
from sm120_ba.testing import RecordingRuntime, fake_dispatcher

PROBE = """
import json, logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
import sglang.srt.layers.quantization.unquant as unquant
before = unquant.UnquantizedLinearMethod.apply, unquant.initialize_bf16_gemm_config
from sglang.srt.plugins import load_plugins
load_plugins()
after = unquant.UnquantizedLinearMethod.apply, unquant.initialize_bf16_gemm_config
loaded = sorted(name for name in sys.modules if name.startswith("sm120_ba"))
print(json.dumps({"hooked": [a is not b for a, b in zip(before, after)], "loaded": loaded}))
"""


def probe(flag: str | None) -> tuple[dict[str, list], str]:
    """Load SGLang's plugins in a fresh process; what changed there, and its log."""
    environment = {k: v for k, v in os.environ.items() if k != config.FLAG}
    if flag is not None:
        environment[config.FLAG] = flag
    command = [sys.executable, "-W", "ignore", "-c", PROBE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


class TestLoading(unittest.TestCase):
    """What SGLang's `load_plugins` does with the entry point, by the flag's value."""

    def test_off_does_nothing(self) -> None:
        for flag in (None, "No"):
            with self.subTest(flag=flag):
                seen, log = probe(flag)
                self.assertEqual(seen["hooked"], [False, False])
                self.assertEqual(
                    seen["loaded"], ["sm120_ba", "sm120_ba.config", "sm120_ba.sglang_plugin"]
                )
                self.assertIn("Executed general plugin: sm120_ba", log)

    def test_on_hooks_the_projection_and_the_initialization(self) -> None:
        seen, log = probe("1")
        self.assertEqual(seen["hooked"], [True, True])
        self.assertIn("plugin=sm120_ba", log)

    def test_a_bad_value_is_reported_and_hooks_nothing(self) -> None:
        seen, log = probe("maybe")
        self.assertEqual(seen["hooked"], [False, False])
        self.assertIn("Failed to execute general plugin: sm120_ba", log)
        self.assertIn("ValueError: SGLANG_ENABLE_SM120_BA_GEMM='maybe' is not one of", log)


class TestServing(unittest.TestCase):
    """Layers of SGLang in one process with the flag on."""

    @classmethod
    def setUpClass(cls) -> None:
        os.environ[config.FLAG] = "1"
        cls.addClassCleanup(os.environ.pop, config.FLAG)
        from sglang.srt.plugins import load_plugins

        load_plugins()

    def setUp(self) -> None:
        config.reset()
        dispatch.reset_stats()
        self.addCleanup(config.reset)

    def serve(self, backend: str = "auto", deterministic: bool = False) -> None:
        """Publish a server's options and run SGLang's own initialization, as its scheduler does."""
        from sglang.srt.layers.quantization import unquant
        from sglang.srt.runtime_context import get_context

        options = get_context().override_server_args(
            bf16_gemm_backend=backend, enable_deterministic_inference=deterministic
        )
        options.install()
        self.addCleanup(options.restore)
        self.addCleanup(setattr, unquant, "_BF16_GEMM_BACKEND", None)
        unquant.initialize_bf16_gemm_config()

    def pretend_sm120(self) -> RecordingRuntime:
        """Fake the capability, and record the launches of the dispatcher that the hook uses."""
        fake, runtime = fake_dispatcher(warm=False)
        for name in ("_capability", "_runtime", "_prover", "_store", "_devices"):
            patch = mock.patch.object(dispatch.DEFAULT, name, getattr(fake, name))
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(config, "_capability", return_value=(12, 0))
        patch.start()
        self.addCleanup(patch.stop)
        return runtime

    def layer(self, prefix: str, bias: bool = False, heads: int = 24) -> torch.nn.Module:
        from sglang.srt.layers.linear import MergedColumnParallelLinear

        layer = MergedColumnParallelLinear(
            5120, [heads, heads], bias=bias, params_dtype=torch.bfloat16, prefix=prefix
        )
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(torch.randn_like(parameter))
        layer.quant_method.process_weights_after_loading(layer)  # as SGLang's loaders do
        return layer

    def assert_same_as_linear(self, layer: torch.nn.Module, rows: int) -> None:
        x = torch.randn(rows, 5120).to(torch.bfloat16)
        y, _ = layer(x)
        self.assertTrue(torch.equal(y, F.linear(x, layer.weight, layer.bias)))

    def test_fast_branch_for_two_to_eight_tokens(self) -> None:
        runtime = self.pretend_sm120()
        with self.assertLogs("sm120_ba", "INFO") as logs:
            self.serve()
        self.assertEqual(len(logs.output), 1)
        self.assertIn("looking for layers named in_proj_ba", logs.output[0])
        layer = self.layer("model.layers.0.linear_attn.in_proj_ba")
        for rows in range(10):
            self.assert_same_as_linear(layer, rows)
        # The first launch, of eight rows, is the warm-up when the weight is loaded.
        self.assertEqual(runtime.gemm.rows, [8, *range(2, 9)])
        self.assertEqual(dispatch.stats().fallback, {Reason.ROWS: 3})

    def test_a_model_whose_layers_do_not_fit_is_named(self) -> None:
        runtime = self.pretend_sm120()
        self.serve()
        name = "model.layers.{}.linear_attn.in_proj_ba"
        with self.assertLogs("sm120_ba", "INFO") as logs:
            for layer in [self.layer(name.format(i), heads=48) for i in (0, 1)] * 5:
                self.assert_same_as_linear(layer, 4)
        (line,) = logs.output
        self.assertIn("layers of 96 x 5120 run as before", line)
        self.assertIn("model.layers.0.linear_attn.in_proj_ba", line)
        self.assertEqual((runtime.gemm.rows, dispatch.stats().fast), ([], 0))

    def test_other_layers_are_left_alone(self) -> None:
        runtime = self.pretend_sm120()
        self.serve()
        for prefix in ("", "model.other_in_proj_ba", "a.in_proj_ba.base_layer", "a.in_proj_qkvz"):
            self.assert_same_as_linear(self.layer(prefix), 4)
        self.assert_same_as_linear(self.layer("a.in_proj_ba", bias=True), 4)
        self.assertEqual(runtime.gemm.rows, [8])
        self.assertEqual(dispatch.stats().fallback, {Reason.BIAS: 1})

    def test_a_lora_wrapper_adds_to_the_kernel_result(self) -> None:
        runtime = self.pretend_sm120()
        self.serve()
        layer = self.layer("a.in_proj_ba")

        class WithLoRA(torch.nn.Module):
            """Calls its base layer as SGLang's ColumnParallelLinearWithLoRA.forward does."""

            def __init__(self) -> None:
                super().__init__()
                self.base_layer = layer

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.base_layer.quant_method.apply(self.base_layer, x, None) + 1

        x = torch.randn(4, 5120).to(torch.bfloat16)
        self.assertTrue(torch.equal(WithLoRA()(x), F.linear(x, layer.weight) + 1))
        self.assertEqual(runtime.gemm.rows, [8, 4])

    def test_the_servers_options_decide(self) -> None:
        self.pretend_sm120()
        for backend, deterministic, word in (
            ("torch", False, "'torch' was chosen explicitly"),
            ("auto", True, "deterministic inference is on"),
        ):
            with self.subTest(backend=backend, deterministic=deterministic):
                with self.assertLogs("sm120_ba", "INFO") as logs:
                    self.serve(backend, deterministic)
                self.assertFalse(config.current().enabled)
                self.assertIn(word, logs.output[0])
        self.serve()
        self.assertTrue(config.current().enabled, "a new initialization forgets the earlier one")

    def test_without_a_gpu_it_says_so_once_and_changes_nothing(self) -> None:
        no_gpu = mock.patch("torch.cuda.is_available", return_value=False)
        with no_gpu, self.assertLogs("sm120_ba", "INFO") as logs:
            self.serve()
            layer = self.layer("a.in_proj_ba")
            for rows in range(10):
                self.assert_same_as_linear(layer, rows)
        self.assertEqual(len(logs.output), 1)
        self.assertIn("not enabled for any layer: there is no NVIDIA CUDA", logs.output[0])
        self.assertEqual(dispatch.stats().fallbacks, 0)

    def test_a_layer_without_sglangs_initialization(self) -> None:
        runtime = self.pretend_sm120()
        self.serve()
        layer = self.layer("a.in_proj_ba")
        config.reset()
        self.assert_same_as_linear(layer, 4)
        self.assertEqual(runtime.gemm.rows, [8, 4])

    def test_batch_invariant_mode(self) -> None:
        from sglang.srt.batch_invariant_ops import batch_invariant_ops

        runtime = self.pretend_sm120()
        self.serve()
        with mock.patch.object(batch_invariant_ops, "_batch_invariant_MODE", True):
            self.assert_same_as_linear(self.layer("a.in_proj_ba"), 4)
        self.assertEqual(dispatch.stats().fallback, {Reason.BATCH_INVARIANT: 1})
        self.assertEqual(runtime.gemm.rows, [])

    def test_torch_compile_sees_no_graph_break(self) -> None:
        runtime = self.pretend_sm120()
        self.serve()
        layer = self.layer("a.in_proj_ba")
        compiled = torch.compile(
            lambda x: layer.quant_method.apply(layer, x), backend="eager", fullgraph=True
        )
        x = torch.randn(4, 5120).to(torch.bfloat16)
        self.assertTrue(torch.equal(compiled(x), F.linear(x, layer.weight)))
        self.assertEqual(runtime.gemm.rows, [8])


if __name__ == "__main__":
    unittest.main()

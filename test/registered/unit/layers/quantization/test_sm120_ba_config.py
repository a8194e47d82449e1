"""Enabling the BA kernel: the flag, the backend, the layer names; runs on the CPU."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import sys
import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812

from runci import register_cpu_ci
from sm120_ba import config
from sm120_ba.config import FLAG, Bf16GemmBackend, Mode, initialize
from sm120_ba.linear_method import BaLinearMethod, is_ba_layer
from sm120_ba.reasons import Reason
from sm120_ba.testing import fake_dispatcher

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

ON = {FLAG: "1"}
BA_PREFIX = "model.layers.0.linear_attn.in_proj_ba"


def sm120() -> tuple[int, int]:
    return (12, 0)


class TestInitialize(unittest.TestCase):
    """The decision, and that a later call forgets an earlier one."""

    def setUp(self) -> None:
        config.reset()
        self.addCleanup(config.reset)

    def enabled(self, environ: dict[str, str], **options: Any) -> bool:
        decision = initialize(environ=environ, **{"capability": sm120, **options})
        self.assertIs(config.current(), decision)
        return decision.enabled

    def test_off_by_default_and_before_the_first_call(self) -> None:
        self.assertFalse(config.current().enabled)
        self.assertFalse(self.enabled({}))
        with mock.patch.dict(os.environ):
            os.environ.pop(FLAG, None)
            self.assertFalse(initialize(capability=sm120).enabled)

    def test_every_value_of_the_flag(self) -> None:
        for value in ("1", "true", "yes", "y", "TRUE", "True", "Yes", "Y"):
            with self.subTest(value=value):
                self.assertTrue(self.enabled({FLAG: value}))
        for value in ("0", "false", "no", "n", "FALSE", "No", "N"):
            with self.subTest(value=value):
                self.assertFalse(self.enabled({FLAG: value}))

    def test_any_other_value_is_an_error_that_names_the_variable(self) -> None:
        for value in ("", " ", "2", "on", "off", "t", " 1", "enable", "None"):
            with self.subTest(value=value):
                self.assertTrue(self.enabled(ON))
                with self.assertRaisesRegex(ValueError, FLAG):
                    initialize(environ={FLAG: value}, capability=sm120)
                self.assertFalse(config.current().enabled, "the earlier answer is forgotten")

    def test_proved_is_another_mode_on_more_gpus(self) -> None:
        for value in ("proved", "PROVED"):
            for capability in ((8, 0), (8, 9), (9, 0), (12, 0), (12, 1)):
                decision = initialize(environ={FLAG: value}, capability=lambda c=capability: c)
                self.assertEqual((decision.enabled, decision.mode), (True, Mode.PROVED))
            decision = initialize(environ={FLAG: value}, capability=lambda: (7, 5))
            self.assertFalse(decision.enabled)
            self.assertIn("7.5, below 8.0", decision.reason)
            self.assertFalse(initialize(environ={FLAG: value}, capability=lambda: None).enabled)
            self.assertFalse(self.enabled({FLAG: value}, backend="torch"))
        self.assertIs(initialize(environ=ON, capability=sm120).mode, Mode.ALLOWLIST)

    def test_each_backend(self) -> None:
        for backend in Bf16GemmBackend:
            for given in (backend, backend.value):
                with self.subTest(backend=given):
                    self.assertEqual(
                        self.enabled(ON, backend=given), backend is Bf16GemmBackend.AUTO
                    )
        with self.assertRaisesRegex(ValueError, "cublas"):
            initialize(backend="cublas", environ=ON)
        self.assertFalse(config.current().enabled)

    def test_each_condition_alone_and_in_pairs(self) -> None:
        off = {
            "flag": {"environ": {FLAG: "0"}},
            "backend": {"backend": "torch"},
            "deterministic": {"deterministic": True},
            "batch invariant": {"batch_invariant": True},
            "no GPU": {"capability": lambda: None},
            "12.1": {"capability": lambda: (12, 1)},
            "9.0": {"capability": lambda: (9, 0)},
        }
        for first, second in itertools.product(off, off):
            with self.subTest(first=first, second=second):
                options = {"environ": ON, "capability": sm120, **off[second], **off[first]}
                self.assertFalse(initialize(**options).enabled)
        self.assertTrue(self.enabled(ON))

    def test_the_reason_in_words(self) -> None:
        words = {
            f"{FLAG} is off": {"environ": {}},
            "'gemv' was chosen explicitly": {"backend": "gemv"},
            "deterministic inference": {"deterministic": True},
            "batch-invariant": {"batch_invariant": True},
            "12.1, not 12.0": {"capability": lambda: (12, 1)},
            "no NVIDIA CUDA device": {"capability": lambda: None},
        }
        for text, options in words.items():
            with self.subTest(text):
                decision = initialize(**{"environ": ON, "capability": sm120, **options})
                self.assertIn(text, decision.reason)

    def test_initialize_again_reads_everything_again(self) -> None:
        with mock.patch.dict(os.environ, ON):
            self.assertTrue(initialize(capability=sm120).enabled)
            os.environ[FLAG] = "no"
            self.assertFalse(initialize(capability=sm120).enabled)
            os.environ[FLAG] = "yes"
            self.assertTrue(initialize(capability=sm120).enabled)
            self.assertFalse(initialize(capability=lambda: None).enabled)

    def test_batch_invariant_mode_is_asked_for(self) -> None:
        library = SimpleNamespace(is_batch_invariant_mode_enabled=lambda: True)
        with mock.patch.dict(sys.modules, {"sglang.srt.batch_invariant_ops": library}):
            self.assertFalse(self.enabled(ON))
            self.assertTrue(self.enabled(ON, batch_invariant=False))

    def test_with_the_flag_off_nothing_is_asked(self) -> None:
        asked = mock.Mock(side_effect=AssertionError("the GPU was asked"))
        self.assertFalse(initialize(environ={}, capability=asked).enabled)
        self.assertFalse(initialize(environ=ON, backend="torch", capability=asked).enabled)

    def test_without_a_gpu(self) -> None:
        with mock.patch("torch.cuda.is_available", return_value=False):
            self.assertFalse(initialize(environ=ON).enabled)


class Unquantized:
    """What SGLang's UnquantizedLinearMethod offers, counting the calls of `apply`."""

    def __init__(self) -> None:
        self.calls = 0
        self.extra = "passed through"

    def create_weights(self, layer: torch.nn.Module, n: int, k: int) -> None:
        generator = torch.Generator().manual_seed(n)
        weight = torch.randn(n, k, generator=generator).to(torch.bfloat16)
        layer.register_parameter("weight", torch.nn.Parameter(weight, requires_grad=False))

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        layer.processed = True

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        self.calls += 1
        return F.linear(x, layer.weight, bias)


class TestLinearMethod(unittest.TestCase):
    """Which layers take the kernel; the branch is read from the launches and the base's calls."""

    def setUp(self) -> None:
        dispatcher, self.runtime = fake_dispatcher()
        self.base = Unquantized()
        self.method = BaLinearMethod(self.base, dispatcher)
        self.dispatcher = dispatcher
        initialize(environ=ON, capability=sm120)
        self.addCleanup(config.reset)

    def layer(self, prefix: str | None = BA_PREFIX, n: int = 48) -> torch.nn.Module:
        layer = torch.nn.Module()
        if prefix is not None:
            layer.prefix = prefix
        self.method.create_weights(layer, n, 5120)
        self.method.process_weights_after_loading(layer)
        self.assertTrue(layer.processed)
        return layer

    def apply(self, layer: torch.nn.Module, rows: int = 4, bias: Any = None) -> str:
        """Apply the method, compare with F.linear, and say which branch ran."""
        x = torch.randn(rows, 5120, generator=torch.Generator().manual_seed(7)).to(torch.bfloat16)
        self.base.calls = 0
        self.runtime.gemm.rows.clear()
        y = self.method.apply(layer, x, bias)
        self.assertTrue(torch.equal(y, F.linear(x, layer.weight, bias)))
        ran = (self.base.calls, self.runtime.gemm.rows.count(rows))
        return {(1, 0): "base", (0, 1): "kernel"}[ran]

    def test_names(self) -> None:
        yes = ("in_proj_ba", "model.layers.0.linear_attn.in_proj_ba", ".in_proj_ba")
        no = (
            "",
            ".",
            "model.other_in_proj_ba",
            "in_proj_ba.base_layer",
            "model.in_proj_ba.",
            "in_proj_qkvz",
            "model.in_proj_ba2",
            "model.IN_PROJ_BA",
            "model/in_proj_ba",
            None,
            48,
        )
        for prefix in yes:
            with self.subTest(prefix=prefix):
                self.assertTrue(is_ba_layer(prefix))
                self.assertEqual(self.apply(self.layer(prefix)), "kernel")
        for prefix in no:
            with self.subTest(prefix=prefix):
                self.assertFalse(is_ba_layer(prefix))
                self.assertEqual(self.apply(self.layer(prefix)), "base")
        self.assertEqual(self.dispatcher.stats().fallbacks, 0)

    def test_rows_bias_and_size(self) -> None:
        layer = self.layer()
        for rows in range(10):
            expected = "kernel" if 2 <= rows <= 8 else "base"
            with self.subTest(rows=rows):
                self.assertEqual(self.apply(layer, rows), expected)
        self.assertEqual(self.apply(layer, bias=torch.ones(48, dtype=torch.bfloat16)), "base")
        self.assertEqual(self.apply(self.layer(n=96)), "base")
        expected = {Reason.ROWS: 3, Reason.BIAS: 1, Reason.WEIGHT_SHAPE: 1}
        self.assertEqual(self.dispatcher.stats().fallback, expected)

    def test_off_until_initialized_and_after_another_answer(self) -> None:
        layer = self.layer()
        self.assertEqual(self.apply(layer), "kernel")
        for options in ({"environ": {}}, {"environ": ON, "backend": "torch"}):
            initialize(**options)
            self.assertEqual(self.apply(layer), "base")
        config.reset()
        self.assertEqual(self.apply(layer), "base")
        initialize(environ=ON, capability=sm120)
        self.assertEqual(self.apply(layer), "kernel")

    def test_a_lora_wrapper_is_not_bypassed(self) -> None:
        layer = self.layer()

        class WithLoRA(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.base_layer = layer

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return method.apply(self.base_layer, x) + 1

        method = self.method
        x = torch.ones(4, 5120, dtype=torch.bfloat16)
        self.assertTrue(torch.equal(WithLoRA()(x), F.linear(x, layer.weight) + 1))
        self.assertIn(4, self.runtime.gemm.rows)

    def test_compile_leaves_the_choice_to_the_base(self) -> None:
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        layer = self.layer()
        compiled = torch.compile(
            lambda x: self.method.apply(layer, x), backend="eager", fullgraph=True
        )
        x = torch.ones(4, 5120, dtype=torch.bfloat16)
        self.assertTrue(torch.equal(compiled(x), F.linear(x, layer.weight)))
        self.assertEqual(self.runtime.gemm.rows, [])

    def test_the_shape_of_the_wrapped_object(self) -> None:
        self.assertEqual(self.method.extra, "passed through")
        with self.assertRaises(AttributeError):
            self.method.missing  # noqa: B018
        self.assertEqual(copy.copy(self.method).extra, "passed through")
        plain = BaLinearMethod(Unquantized())
        plain._dispatcher = None
        self.assertEqual(pickle.loads(pickle.dumps(plain)).extra, "passed through")


if __name__ == "__main__":
    unittest.main()

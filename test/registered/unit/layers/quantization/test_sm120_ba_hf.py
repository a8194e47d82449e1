"""The BA kernel in small random models of Hugging Face transformers; runs on the CPU.

Every layer but the BA projection is tiny. The branch is asserted from the dispatcher's counts and
from the launches of a recorded kernel.
"""

from __future__ import annotations

import copy
import os
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import torch
from ba_calls import pretend_sm120
from small_qwen3_5 import small_model as small_qwen3_5

from runci import register_cpu_ci
from sm120_ba import dispatch
from sm120_ba.huggingface import LAYER_NAMES, BaLinear, patch_model, unpatch_model
from sm120_ba.reasons import Reason
from sm120_ba.testing import fake_dispatcher
from sm120_ba.validate.models import small_model

register_cpu_ci(est_time=7, stage="base-a", runner_config="cpu")

# Three gated-delta-net layers and one of full attention, which generation with a cache needs.
BA_LAYERS = tuple(f"model.layers.{i}.linear_attn.in_proj_ba" for i in range(3))


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(64, (batch, length), generator=torch.Generator().manual_seed(batch))


class TestQwen3Next(unittest.TestCase):
    """The model before and after patching."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.model = small_model()

    def setUp(self) -> None:
        dispatch.reset_stats()
        self.addCleanup(unpatch_model, self.model)

    def logits(self, batch: int, length: int) -> torch.Tensor:
        with torch.no_grad():
            return self.model(tokens(batch, length)).logits

    def generate(self, batch: int) -> torch.Tensor:
        return self.model.generate(
            tokens(batch, 3), max_new_tokens=4, do_sample=False, pad_token_id=0
        )

    def test_the_model_has_the_projection(self) -> None:
        shapes = {n: p.shape for n, p in self.model.named_parameters() if "in_proj_ba" in n}
        self.assertEqual(shapes, {f"{name}.weight": (48, 5120) for name in BA_LAYERS})

    def test_outputs_on_the_cpu_are_identical_through_the_fallback(self) -> None:
        before = self.logits(2, 5), self.generate(3)
        self.assertEqual(patch_model(self.model).patched, BA_LAYERS)
        self.assertTrue(torch.equal(self.logits(2, 5), before[0]))
        calls = dispatch.stats()
        self.assertEqual((calls.fast, calls.fallback), (0, {Reason.NOT_CUDA: 3}))
        self.assertTrue(torch.equal(self.generate(3), before[1]))

    def test_decoding_takes_the_kernel_for_two_to_eight_sequences(self) -> None:
        before = {batch: self.generate(batch) for batch in (1, 2, 8)}
        runtime = pretend_sm120(self)
        patch_model(self.model)
        for batch, expected in before.items():
            with self.subTest(batch=batch):
                runtime.gemm.rows.clear()
                dispatch.reset_stats()
                self.assertTrue(torch.equal(self.generate(batch), expected))
                # Four tokens: the prompt's three at once, then one for each sequence three times.
                prompt, decode = 3 * batch, batch
                steps = [prompt] * 3 + [decode] * 9
                eligible = [rows for rows in steps if 2 <= rows <= 8]
                calls = dispatch.stats()
                self.assertEqual(calls.fast, len(eligible))
                self.assertEqual(calls.fallback.get(Reason.ROWS, 0), 12 - len(eligible))
                self.assertEqual(runtime.gemm.rows, eligible)

    def test_short_prompt_flattens_batch_and_sequence(self) -> None:
        before = self.logits(2, 3)
        runtime = pretend_sm120(self)
        patch_model(self.model)
        self.assertTrue(torch.equal(self.logits(2, 3), before))
        self.assertEqual(runtime.gemm.rows, [6, 6, 6])

    def test_weights_that_require_grad_are_reported_and_fall_back(self) -> None:
        runtime = pretend_sm120(self)
        self.model.requires_grad_(True)
        self.addCleanup(self.model.requires_grad_, False)
        report = patch_model(self.model)
        self.assertEqual((report.patched, report.ready), (BA_LAYERS, ()))
        self.assertEqual(tuple(report.waiting), BA_LAYERS)
        self.assertIn("requires_grad_(False)", str(report))
        self.logits(2, 2)
        self.assertEqual(dispatch.stats().fallback, {Reason.REQUIRES_GRAD: 3})
        self.assertEqual(runtime.gemm.rows, [])

    def test_unpatching_restores_the_forward(self) -> None:
        runtime = pretend_sm120(self)
        before = self.logits(2, 2)
        patch_model(self.model)
        self.assertEqual(unpatch_model(self.model), BA_LAYERS)
        self.assertEqual(unpatch_model(self.model), ())
        self.assertTrue(torch.equal(self.logits(2, 2), before))
        self.assertEqual((runtime.gemm.rows, dispatch.stats().fallbacks), ([], 0))
        self.assertFalse(any(type(m) is BaLinear for m in self.model.modules()))


class TestQwen35(unittest.TestCase):
    """Two projections of the shape in each layer, under other names."""

    LAYERS = ("model.layers.0.linear_attn.in_proj_b", "model.layers.0.linear_attn.in_proj_a")

    @classmethod
    def setUpClass(cls) -> None:
        cls.model = small_qwen3_5()

    def setUp(self) -> None:
        self.addCleanup(unpatch_model, self.model)

    def generate(self, batch: int) -> torch.Tensor:
        return self.model.generate(
            tokens(batch, 3), max_new_tokens=3, do_sample=False, pad_token_id=0
        )

    def test_both_projections_take_the_kernel(self) -> None:
        before = self.generate(4)
        runtime = pretend_sm120(self)
        report = patch_model(self.model)
        self.assertEqual((report.patched, report.ready, report.skipped), (self.LAYERS,) * 2 + ({},))
        self.assertTrue(torch.equal(self.generate(4), before))
        # The prompt has 12 tokens; the two later steps one for each of the four sequences.
        self.assertEqual(runtime.gemm.rows, [4, 4, 4, 4])
        calls = dispatch.stats()
        self.assertEqual((calls.fast, calls.fallback), (4, {Reason.ROWS: 2}))

    def test_unpatching(self) -> None:
        patch_model(self.model)
        self.assertEqual(unpatch_model(self.model), self.LAYERS)
        self.assertFalse(any(type(m) is BaLinear for m in self.model.modules()))


class Quantized(torch.nn.Linear):
    """A Linear with a product of its own, as quantization libraries make them."""


class OtherTensor(torch.Tensor):
    """As the weights of libraries that quantize in place."""


class TestPatching(unittest.TestCase):
    """What is patched, and what a patched Linear keeps."""

    def setUp(self) -> None:
        dispatch.reset_stats()

    def tree(self) -> torch.nn.Module:
        class WithLoRA(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.base_layer = torch.nn.Linear(5120, 48, bias=False)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.base_layer(x) + 1

        root = torch.nn.Module()
        root.a = torch.nn.ModuleDict({"in_proj_ba": torch.nn.Linear(5120, 48, bias=False)})
        root.wrapped = torch.nn.ModuleDict({"in_proj_ba": WithLoRA()})
        root.small = torch.nn.ModuleDict({"in_proj_ba": torch.nn.Linear(64, 48, bias=False)})
        root.other_in_proj_ba = torch.nn.Linear(5120, 48, bias=False)
        root.hooked = torch.nn.ModuleDict({"in_proj_ba": torch.nn.Linear(5120, 48, bias=False)})
        root.quantized = torch.nn.ModuleDict({"in_proj_ba": Quantized(5120, 48, bias=False)})
        inner = root.hooked["in_proj_ba"].forward
        root.hooked["in_proj_ba"].forward = lambda x: inner(x) * 2
        return root

    def test_what_is_skipped_and_why(self) -> None:
        root = self.tree()
        report = patch_model(root)
        self.assertEqual(report.patched, ("a.in_proj_ba",))
        self.assertEqual(
            {name.removesuffix(".in_proj_ba") for name in report.skipped},
            {"wrapped", "small", "hooked", "quantized"},
        )
        self.assertIn("Quantized", report.skipped["quantized.in_proj_ba"])
        self.assertIs(type(root.quantized["in_proj_ba"]), Quantized)
        self.assertIn("WithLoRA", report.skipped["wrapped.in_proj_ba"])
        self.assertIn("64 to 48", report.skipped["small.in_proj_ba"])
        self.assertIn("already replaced", report.skipped["hooked.in_proj_ba"])
        self.assertIs(type(root.wrapped["in_proj_ba"].base_layer), torch.nn.Linear)
        again = patch_model(root)
        self.assertEqual(again.patched, ())
        self.assertEqual(again.skipped["a.in_proj_ba"], "it is patched already")
        self.assertIn("in_proj_ba", str(patch_model(torch.nn.Linear(1, 1))))

    def test_each_layer_has_its_reason(self) -> None:
        """What the report says, from the reason's own fact: (patched, ready) and the words."""

        def linear(n: int = 48, k: int = 5120, dtype: Any = torch.bfloat16, bias: bool = False):
            return torch.nn.Linear(k, n, bias, dtype=dtype).requires_grad_(False)

        def with_weight(weight: Any) -> torch.nn.Linear:
            layer = linear()
            layer.weight = torch.nn.Parameter(weight, requires_grad=False)
            return layer

        bf16 = torch.bfloat16
        gaps = torch.zeros(48, 5128, dtype=bf16)[:, :5120]
        quantized = torch.zeros(48, 5120, dtype=bf16).as_subclass(OtherTensor)
        table = {
            "usable": (linear(), (True, True), ()),
            "of the table": (linear(64, 2048), (True, False), ("64 x 2048", "proved")),
            "bias": (linear(bias=True), (False, False), ("bias", "(48,)")),
            "other N": (linear(40), (False, False), ("5120 to 40", "48, 96, 24")),
            "other K": (linear(48, 64), (False, False), ("64 to 48", "2048", "5120")),
            "quantized": (with_weight(quantized), (False, False), ("OtherTensor",)),
            "float32": (linear(dtype=torch.float32), (True, False), ("torch.float32",)),
            "float16": (linear(dtype=torch.float16), (True, False), ("torch.float16",)),
            "grad": (linear().requires_grad_(), (True, False), ("requires grad",)),
            "gaps": (with_weight(gaps), (True, False), ("(5128, 1)",)),
            "meta": (linear().to("meta"), (True, True), ()),  # any device passes here
        }
        pretend_sm120(self)
        for name in LAYER_NAMES:
            for case, (layer, (patched, ready), words) in table.items():
                with self.subTest(case, name=name):
                    model = torch.nn.Module()
                    setattr(model, name, layer)
                    report = patch_model(model)
                    self.assertEqual(
                        (name in report.patched, name in report.ready), (patched, ready)
                    )
                    self.assertEqual(name in report.skipped, not patched)
                    for word in (name, *words):
                        self.assertIn(word, str(report))
                    unpatch_model(model)

    def test_warm_up_takes_the_sizes_of_the_report(self) -> None:
        def small() -> torch.nn.Linear:
            return torch.nn.Linear(2048, 64, False, dtype=torch.bfloat16).requires_grad_(False)

        pretend_sm120(self)
        model = torch.nn.ModuleDict({"in_proj_b": small(), "in_proj_a": small()})
        report = patch_model(model)
        self.assertEqual((report.ready, report.sizes), ((), ((64, 2048),)))
        x = torch.randn(4, 1, 2048).to(torch.bfloat16)
        expected = torch.nn.functional.linear(x, model["in_proj_a"].weight)
        for mode, fast in (("1", 0), ("proved", 1)):
            dispatch.reset_stats()
            dispatch.DEFAULT.warmup("cpu", shapes=report.sizes, rows=[4], mode=mode)
            self.assertTrue(torch.equal(model["in_proj_a"](x), expected))
            self.assertEqual(dispatch.stats().fast, fast)
        unpatch_model(model)
        self.assertEqual(patch_model(model).ready, ("in_proj_b", "in_proj_a"))

    def test_the_device_is_named(self) -> None:
        layer = torch.nn.ModuleDict({"in_proj_b": torch.nn.Linear(5120, 48, False)})
        report = patch_model(layer.to(torch.bfloat16).requires_grad_(False))
        self.assertEqual((report.patched, report.ready), (("in_proj_b",), ()))
        self.assertIn("cpu", *report.waiting["in_proj_b"])
        unpatch_model(layer)
        pretend_sm120(self)
        dispatch.DEFAULT._capability = lambda _device: (9, 0)
        dispatch.DEFAULT._devices.clear()
        self.assertIn("NOT_SM120", *patch_model(layer).waiting["in_proj_b"])

    def test_keyword_and_script(self) -> None:
        root = self.tree()
        plain = copy.deepcopy(root.a["in_proj_ba"])
        patch_model(root)
        layer, x = root.a["in_proj_ba"], torch.randn(2, 3, 5120)
        self.assertTrue(torch.equal(layer(input=x), plain(input=x)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates jit.script
            scripted = torch.jit.script(layer)
        self.assertTrue(torch.equal(scripted(x), plain(x)))

    def test_compiled_it_takes_the_kernel(self) -> None:
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        root = self.tree().to(torch.bfloat16).requires_grad_(False)
        runtime = pretend_sm120(self)
        patch_model(root)
        layer = root.a["in_proj_ba"]
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
        for shape in ((2, 3), (4, 1), (8, 9)):
            x = torch.randn(*shape, 5120).to(torch.bfloat16)
            expected = torch.nn.functional.linear(x, layer.weight)
            self.assertTrue(torch.equal(compiled(x), expected))
        self.assertEqual(runtime.gemm.rows, [6, 4])

    def test_a_patched_linear_is_still_a_linear(self) -> None:
        root = self.tree()
        layer, x = root.a["in_proj_ba"], torch.randn(2, 3, 5120)
        seen = []
        layer.register_forward_hook(lambda *_: seen.append("hook"))
        expected, state = layer(x), layer.state_dict()
        patch_model(root)
        self.assertIsInstance(layer, torch.nn.Linear)
        for other in (layer, copy.deepcopy(layer)):
            self.assertTrue(torch.equal(other(x), expected))
            self.assertIs(type(other), BaLinear)
        self.assertEqual(len(seen), 3)
        self.assertEqual(list(layer.state_dict()), list(state))

    def test_shapes_errors_and_gradients_are_those_of_linear(self) -> None:
        root = self.tree()
        plain = copy.deepcopy(root.a["in_proj_ba"])
        patch_model(root)
        layer = root.a["in_proj_ba"]
        noncontiguous = torch.randn(5120, 3, 2).permute(2, 1, 0)
        empty = torch.randn(0, 3, 5120)
        for x in (torch.randn(5120), torch.randn(2, 5120), torch.randn(2, 2, 3, 5120), empty):
            self.assertTrue(torch.equal(layer(x), plain(x)))
        self.assertTrue(torch.equal(layer(noncontiguous), plain(noncontiguous)))
        for bad in (torch.randn(2, 3, 7), torch.randn(2, 3, 5120).long(), None, "x"):
            errors = []
            for module in (layer, plain):
                with self.assertRaises((RuntimeError, TypeError)) as caught:
                    module(bad)
                errors.append((type(caught.exception), str(caught.exception)))
            self.assertEqual(*errors)
        x = torch.randn(2, 3, 5120)
        layer(x).sum().backward()
        plain(x).sum().backward()
        self.assertTrue(torch.equal(layer.weight.grad, plain.weight.grad))
        self.assertEqual(dispatch.stats().fast, 0)

    def test_tensors_of_other_layouts_are_left_to_linear(self) -> None:
        root = self.tree().to(torch.bfloat16).requires_grad_(False)
        plain = copy.deepcopy(root.a["in_proj_ba"])
        patch_model(root)
        layer, x = root.a["in_proj_ba"], torch.randn(2, 3, 5120).to(torch.bfloat16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls these layouts prototypes
            nested = torch.nested.nested_tensor([x[0], x[1][:2]])
            csr = x.to_sparse_csr()
        for got, expected in zip(layer(nested).unbind(), plain(nested).unbind(), strict=True):
            self.assertTrue(torch.equal(got, expected))
        for bad in (x.to_sparse(), csr):
            errors = []
            for module in (layer, plain):
                with self.assertRaises(RuntimeError) as caught:
                    module(bad)
                errors.append(str(caught.exception))
            self.assertEqual(*errors)

    def test_a_function_mode_sees_linear_and_nothing_else(self) -> None:
        seen: list[str] = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        root = self.tree().requires_grad_(False)
        patch_model(root)
        x = torch.randn(2, 3, 5120)
        with Mode():
            root.a["in_proj_ba"](x)
        self.assertEqual(seen, ["linear"])

    def test_every_call_is_counted(self) -> None:
        root = self.tree().to(torch.bfloat16).requires_grad_(False)
        patch_model(root)
        layer, x = root.a["in_proj_ba"], torch.randn(2, 3, 5120).to(torch.bfloat16)
        for given in (x, x.permute(1, 0, 2), x[0], x[None]):
            layer(given)
        self.assertEqual(dispatch.stats().fallbacks, 4)

    def test_a_strided_input_is_not_copied_for_the_kernel(self) -> None:
        root = self.tree().to(torch.bfloat16).requires_grad_(False)
        patch_model(root)
        layer, (fake, runtime) = root.a["in_proj_ba"], fake_dispatcher()
        rows = torch.randn(2, 3, 5120).to(torch.bfloat16)
        strided = rows.permute(1, 0, 2)
        with mock.patch("sm120_ba.huggingface.try_linear", fake.try_linear):
            for x in (rows, strided):
                expected = torch.nn.functional.linear(x, layer.weight)
                self.assertTrue(torch.equal(layer(x), expected))
        self.assertEqual(runtime.gemm.rows, [6])

    def test_compile_and_vmap(self) -> None:
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        root = self.tree().requires_grad_(False)
        layer, x = root.a["in_proj_ba"], torch.randn(2, 3, 5120)
        expected = layer(x)
        patch_model(root)
        compiled = torch.compile(layer, backend="eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(x), expected))
        self.assertEqual(torch.vmap(layer)(x[:, None]).shape, (2, 1, 3, 48))


if __name__ == "__main__":
    unittest.main()

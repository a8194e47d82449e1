"""Pieces of made-up test code, for `str.format`: as long-winded as real code, for its bytes."""

from __future__ import annotations

HEAD = '''"""{title}.

{prose}
"""

import itertools
import unittest

import torch
import torch.nn.functional as F

from runci import {markers}

'''

HELPERS = (
    '''
def reference_{name}(activations, projection_weight, bias=None, eps={eps}):
    """{prose}"""
    hidden_states = activations.to(torch.float32)
    # {remark}
    variance = hidden_states.pow(2).mean(dim=-1, keepdim=True)
    normalized_states = hidden_states * torch.rsqrt(variance + eps)
    computed_output = torch.matmul(normalized_states, projection_weight.float().t())
    if bias is not None:
        computed_output = computed_output + bias.to(torch.float32)
    return computed_output
''',
    '''
def make_{name}_inputs(rows, columns, depth={n1}, storage_dtype=torch.bfloat16, seed={n2}):
    """{prose}"""
    random_generator = torch.Generator(device="cpu").manual_seed(seed + columns)
    activations = torch.randn(rows, depth, generator=random_generator)
    projection_weight = torch.randn(columns, depth, generator=random_generator)
    # {remark}
    quantization_scales = projection_weight.abs().amax(dim=-1, keepdim=True) / 448.0
    return activations.to(storage_dtype), projection_weight, quantization_scales
''',
    """
# {remark}
# {remark}
{upper}_SHAPES = [
    ({n1}, {n2}, {n3}),
    ({n2}, {n3}, {n4}),
    *itertools.product((1, {n5}, 128), ({n1}, {n3})),
]
""",
)

METHODS = (
    '''
    def test_{name}_matches_reference_implementation(self):
        """{prose}"""
        for rows, columns, depth in (({n1}, {n2}, {n3}), ({n2}, {n3}, {n4})):
            with self.subTest(rows=rows, columns=columns, depth=depth):
                activations = self.random_tensor(rows, depth)
                projection_weight = self.random_tensor(columns, depth)
                # {remark}
                expected_output = F.linear(activations.float(), projection_weight.float())
                actual_output = self.kernel_under_test(
                    activations,
                    projection_weight,
                    block_size_m={n1},
                    number_of_warps={n5},
                )
                self.assertEqual(
                    actual_output.shape,
                    expected_output.shape,
                    "the kernel gave an output of another shape than the reference did",
                )
                torch.testing.assert_close(actual_output.float(), expected_output, rtol={eps})
''',
    '''
    def test_{name}_with_empty_batch(self):
        """{prose}"""
        activations = torch.empty(0, {n1}, device=self.target_device)
        projection_weight = torch.ones({n2}, {n1}, device=self.target_device)
        # {remark}
        computed_output = self.kernel_under_test(activations, projection_weight)
        self.assertEqual(
            tuple(computed_output.shape),
            (0, {n2}),
            "an empty batch must give an empty output, with the columns of the weight",
        )
        self.assertTrue(computed_output.is_contiguous(), "the output is not contiguous")
''',
    '''
    def test_{name}_is_deterministic_between_calls(self):
        """{prose}"""
        torch.manual_seed({n3})
        activations = self.random_tensor({n1}, {n4})
        first_output, different_steps = None, []
        for step in range({n5}):
            # {remark}
            current_output = self.kernel_under_test(activations, split_k=1 + step % 4)
            if first_output is None:
                first_output = current_output.clone()
            elif not torch.equal(first_output, current_output):
                different_steps.append(f"step {{step}} of {n5} differs from the first one")
        self.assertFalse(different_steps, "the same inputs must give the same bits each time")
''',
    '''
    def test_{name}_rejects_wrong_shapes_and_types(self):
        """{prose}"""
        activations = torch.zeros({n1}, {n2}, device=self.target_device)
        # {remark}
        rejected_arguments = {{
            "the depth of the weight differs": activations[:, : {n5}],
            "integers are not supported here": activations.to(torch.int8),
            "the weight must have two dimensions": activations.reshape(-1),
        }}
        for expected_message, wrong_weight in rejected_arguments.items():
            with self.assertRaisesRegex(ValueError, expected_message):
                self.kernel_under_test(activations, wrong_weight, block_size_n={n3})
''',
    '''
    def test_{name}_after_graph_capture(self):
        """{prose}"""
        static_input = self.random_tensor({n1}, {n2})
        projection_weight = self.layer_weights["model.layers.0.self_attn.qkv_proj.weight"]
        captured_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured_graph, pool=self.memory_pool):
            captured_output = self.kernel_under_test(static_input, projection_weight)
        for replay_index in range({n5}):
            static_input.fill_(float(replay_index))
            captured_graph.replay()
            # {remark}
            expected_output = F.linear(static_input, projection_weight)
            largest_difference = (captured_output - expected_output).abs().max().item()
            self.assertLess(
                largest_difference,
                {eps},
                f"replay {{replay_index}} differs by {{largest_difference:.3e}}",
            )
''',
)

CLASS = '''

class Test{camel}(unittest.TestCase):
    """{title}.

    {prose}
    """

    target_device, storage_dtype, output_scale = "cuda", torch.bfloat16, {eps}
    memory_pool = None

    @classmethod
    def setUpClass(cls):
        cls.layer_weights = {{"model.layers.0.self_attn.qkv_proj.weight": torch.ones({n1}, {n2})}}
        cls.kernel_under_test = staticmethod(F.linear)

    def random_tensor(self, *shape):
        return torch.randn(*shape, device=self.target_device, dtype=self.storage_dtype)
'''

FUNCTION = '''

def test_{name}_roundtrip(seed={n5}):
    """{prose}"""
    original_values = [(seed * step + {n1}) % {n2} for step in range({n3})]
    # {remark}
    packed_values = bytes(value & 255 for value in original_values)
    assert list(packed_values) == [value & 255 for value in original_values]
'''

MAIN = '\n\nif __name__ == "__main__":\n    unittest.main()\n'
# For files with test functions, which unittest does not run.
PYTEST_MAIN = """

if __name__ == "__main__":
    import sys

    import pytest

    sys.exit(pytest.main([__file__, "-v"]))
"""

PROSE = (
    "Compares with plain PyTorch in float32, over shapes that models use.",
    "Small batches take another path through the kernel than large ones do.",
    "The scheduler may pad the batch; what lies in the padding must not matter.",
    "A previous version read beyond the last row when rows were no multiple of 16.",
)
REMARKS = (
    "The reference accumulates in float32; the kernel does so in each block only.",
    "Allocated anew each time, so that a stale buffer would be found here.",
    "Tensor parallel ranks hold a slice of the weight: columns are split, rows are not.",
    "Measured on the smallest and on the largest machine; the slower one decides.",
)
WORDS = (
    *("gemm", "attention", "rotary", "norm", "softmax", "router", "quant", "scan", "reduce"),
    *("gather", "scatter", "cache", "prefill", "decode", "paged", "fused", "grouped", "layout"),
)
NUMBERS = (8, 16, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 7168)

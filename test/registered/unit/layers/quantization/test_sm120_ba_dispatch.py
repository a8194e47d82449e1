"""Which calls the BA dispatcher gives to the kernel; runs on the CPU.

Only the capability query and what follows it (loading, launching) are faked: every guard sees real
tensors in real modes. Each test asserts the branch that ran, not only the values.

Beside it: `..._same_as_linear` (autograd, compilation, errors), `..._warm_state` (loading, capture,
threads, counts), `..._config` (flag, backends, layers), `..._plugin` and `..._hf`. All of them:
`python -m unittest discover -s test/registered/unit/layers/quantization -p 'test_sm120_ba_*.py'`.
"""

from __future__ import annotations

import itertools
import sys
import types
import unittest
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from ba_calls import (
    BF16,
    BREAKS,
    VOID,
    BranchAssertions,
    Spec,
    batch_invariant_library,
    dense,
    evaluate,
    merged,
    within,
)

from runci import register_cpu_ci
from sm120_ba.gemm import M_MAX, M_MIN, K, N
from sm120_ba.reasons import Reason
from sm120_ba.testing import RecordingRuntime, fake_dispatcher

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

ORDER = list(Reason)


class TestFastBranch(BranchAssertions, unittest.TestCase):
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
        self.assertEqual(runtime.gemm.rows, [4, 4])

    def test_the_stream_of_the_device_is_used(self) -> None:
        dispatcher, runtime = fake_dispatcher(runtime=RecordingRuntime(stream=1234))
        dispatcher.linear(Spec().x(), Spec().weight())
        self.assertEqual((runtime.gemm.streams, runtime.gemm.rows), ([1234], [4]))


class TestGuards(BranchAssertions, unittest.TestCase):
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
        here = {Reason.NO_DATA, Reason.OUTPUT_ALIGNMENT}
        at_warm_up = {Reason.COLD_CAPTURE, Reason.BEFORE_SM80}
        proofs = {Reason.BITS_DIFFER, Reason.NO_POWER, Reason.NOT_FASTER}  # test_sm120_ba_proof.py
        self.assertEqual(set(Reason) - alone, here | at_warm_up | proofs)
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
        self.assertEqual(runtime.gemm.rows, [])

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


if __name__ == "__main__":
    unittest.main()

"""The proof at warm-up: what is refused, on what it depends, and what is kept; runs on the CPU.

The kernels are played, the comparison is real: each plants one fault in the product, and F.linear
is the CPU's own. Each test asserts the reason and the branch that calls then take.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import ClassVar
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import torch
import torch.nn.functional as F  # noqa: N812
from ba_calls import batch_invariant_library, deterministic_algorithms, reductions
from planted_kernels import (
    Fault,
    Planted,
    no_nan,
    other_denormals,
    row_short,
    split_k,
    swapped_mma,
    swapped_operand,
    ulp_off_at_five_rows,
    zero_of_other_sign,
)

from runci import register_cpu_ci
from sm120_ba import __main__ as command
from sm120_ba import proof
from sm120_ba.config import Mode
from sm120_ba.dispatch import Dispatcher, summary
from sm120_ba.gemm import GemmUnavailable
from sm120_ba.inputs import CANCELLING, proof_cases
from sm120_ba.machine import cublas_version, library_settings
from sm120_ba.proof import RowProof, prove
from sm120_ba.proof_store import Store, default_folder
from sm120_ba.reasons import Reason
from sm120_ba.shapes import BY_SIZE, SM120_SHAPE, TABLE
from sm120_ba.testing import RecordingGemm, RecordingRuntime

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")

BF16 = torch.bfloat16
ALL = frozenset(SM120_SHAPE.rows)


class ProofCase(unittest.TestCase):
    """Dispatchers over a played device that prove for real."""

    def dispatcher(
        self,
        gemm: RecordingGemm | None = None,
        capability: tuple[int, int] = (12, 0),
        store: Store | None = None,
        **played: object,
    ) -> Dispatcher:
        self.runtime = RecordingRuntime(gemm=gemm or RecordingGemm(), **played)
        store = store or Store(None)
        return Dispatcher(lambda _device: capability, self.runtime, self.prover, store)

    def setUp(self) -> None:
        self.proved: list[list[int]] = []
        for level in ("info", "warning"):
            patch = mock.patch(f"sm120_ba.dispatch.logger.{level}")
            setattr(self, level, patch.start())
            self.addCleanup(patch.stop)

    def prover(self, *arguments: object) -> dict[int, RowProof]:
        """The real one, noting for which M it was asked."""
        self.proved.append(list(arguments[-1]))
        return prove(*arguments)

    def refusal(self, dispatcher: Dispatcher, rows: int, shape=SM120_SHAPE) -> Reason | None:
        """What `why_not` says of a call, which is then made and is F.linear's product."""
        x, w = torch.randn(rows, shape.k).to(BF16), torch.randn(shape.n, shape.k).to(BF16)
        reason = dispatcher.why_not(x, w)
        before = dispatcher.stats().fast
        y = dispatcher.linear(x, w)
        self.assertEqual(dispatcher.stats().fast - before, 0 if reason else 1)
        self.assertTrue(torch.equal(y, F.linear(x, w)))
        return reason


class TestPlantedFaults(ProofCase):
    """Each fault is refused, for its reason, at the M where it is."""

    FAULTS: ClassVar[dict[str, tuple[Fault, frozenset[int]]]] = {
        "split-K": (split_k, ALL),
        "swapped MMA": (swapped_mma, ALL),
        "swapped operand": (swapped_operand, ALL),
        "a row short": (row_short, ALL),
        "one ULP in one M": (ulp_off_at_five_rows, frozenset({5})),
        "0 becomes -0": (zero_of_other_sign, ALL),
        "other denormals": (other_denormals, ALL),
        "NaN becomes 0": (no_nan, ALL),
        "none": (F.linear, frozenset()),
    }

    def test_other_bits(self) -> None:
        for name, (fault, wrong) in self.FAULTS.items():
            with self.subTest(name):
                dispatcher = self.dispatcher(Planted(fault))
                expected = Reason.BITS_DIFFER if wrong else None
                self.assertIs(dispatcher.warmup("cpu"), expected)
                for rows in ALL:
                    reason = Reason.BITS_DIFFER if rows in wrong else None
                    self.assertIs(self.refusal(dispatcher, rows), reason)

    def test_the_figure_is_in_the_record(self) -> None:
        dispatcher = self.dispatcher(Planted(split_k))
        dispatcher.warmup("cpu", rows=[4])
        (found,) = json.loads(json.dumps(dispatcher.proof()))["proofs"]
        row = found["rows"]["4"]
        self.assertEqual((found["shape"], row["refused"]), ("48 x 5120", "BITS_DIFFER"))
        self.assertGreater(row["different"][CANCELLING] / row["compared"][CANCELLING], 0.5)
        self.assertGreater(row["control"], 0.5)

    def test_right_but_slow_is_refused_only_where_time_was_asked_for(self) -> None:
        for times in ((2.0, 1.9), (1.0, 1.04), None):
            dispatcher = self.dispatcher(times=times)
            self.assertIsNone(dispatcher.warmup("cpu"))
            self.assertIsNone(self.refusal(dispatcher, 4))
            dispatcher = self.dispatcher(times=times)
            self.assertIs(
                dispatcher.warmup("cpu", mode="proved", shapes=[(48, 5120)]), Reason.NOT_FASTER
            )
            self.assertIs(self.refusal(dispatcher, 4), Reason.NOT_FASTER)
        dispatcher = self.dispatcher(times=(0.95, 1.0))
        self.assertIsNone(dispatcher.warmup("cpu", mode="proved", shapes=[(48, 5120)]))

    def test_inputs_that_show_no_other_order_prove_nothing(self) -> None:
        def weak(*arguments: object) -> list:
            cases = proof_cases(*arguments)
            normal = next(case for case in cases if case.kind == "random")
            return [
                proof.ProofCase(case.kind, normal.x, normal.w) if case.kind == CANCELLING else case
                for case in cases
            ]

        with mock.patch.object(proof, "proof_cases", weak):
            dispatcher = self.dispatcher()
            self.assertIs(dispatcher.warmup("cpu", rows=[2, 4]), Reason.NO_POWER)
            self.assertIs(self.refusal(dispatcher, 4), Reason.NO_POWER)
            # What differs is refused for that, whatever the control says.
            dispatcher = self.dispatcher(Planted(row_short))
            self.assertIs(dispatcher.warmup("cpu", rows=[4]), Reason.BITS_DIFFER)

    def test_answers_from_figures(self) -> None:
        good = {"different": {"a": 0}, "compared": {"a": 8}, "control": 0.5}
        cases = [
            ({}, Mode.ALLOWLIST, None),
            ({"control": 0.49}, Mode.ALLOWLIST, Reason.NO_POWER),
            ({"different": {"a": 1}, "control": 0.0}, Mode.PROVED, Reason.BITS_DIFFER),
            ({"kernel_us": 9.6, "linear_us": 10.0}, Mode.PROVED, Reason.NOT_FASTER),
            ({"kernel_us": 9.5, "linear_us": 10.0}, Mode.PROVED, None),
            ({"kernel_us": 9.6, "linear_us": 10.0}, Mode.ALLOWLIST, None),
            ({}, Mode.PROVED, Reason.NOT_FASTER),
        ]
        for changes, mode, expected in cases:
            with self.subTest(changes=changes, mode=mode):
                self.assertIs(RowProof(**{**good, **changes}).refusal(mode), expected)


class TestInputs(unittest.TestCase):
    """Half of the cases cancel; all are BF16, gapless and at every multiple of 16 bytes."""

    def test_every_shape(self) -> None:
        for shape in TABLE:
            cases = proof_cases(shape, 3, 1, torch.device("cpu"))
            kinds = [case.kind for case in cases]
            self.assertGreaterEqual(2 * kinds.count(CANCELLING), len(kinds))
            self.assertEqual(len(set(kinds)), 8)
            for operand in ("x", "w"):
                tensors = [getattr(case, operand) for case in cases]
                self.assertTrue(all(t.is_contiguous() and t.dtype is BF16 for t in tensors))
                self.assertEqual({t.data_ptr() % 16 for t in tensors}, {0})
                self.assertEqual(len({t.data_ptr() % 256 for t in tensors}), 16)
            self.assertEqual(
                (cases[0].x.shape, cases[0].w.shape), ((3, shape.k), (shape.n, shape.k))
            )

    def test_another_default_type_changes_no_bit(self) -> None:
        plain = proof_cases(SM120_SHAPE, 4, 1, torch.device("cpu"))
        torch.set_default_dtype(BF16)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        for case, other in zip(
            proof_cases(SM120_SHAPE, 4, 1, torch.device("cpu")), plain, strict=True
        ):
            for operand in ("x", "w"):
                bits = [getattr(c, operand).view(torch.int16) for c in (case, other)]
                self.assertTrue(torch.equal(*bits), case.kind)

    def test_cancelling_sums_are_zero_without_rounding(self) -> None:
        case = proof_cases(BY_SIZE[64, 2048], 4, 1, torch.device("cpu"))[0]
        exact = case.x.double() @ case.w.double().t()
        self.assertLess(float(exact.abs().max()), 1e-9)

    def test_the_adversarial_ones_are_what_they_are_called(self) -> None:
        cases = {c.kind: c for c in proof_cases(SM120_SHAPE, 4, 1, torch.device("cpu"))}
        zeros = cases["signed zeros"].x
        self.assertEqual(int(zeros.count_nonzero()), 0)
        self.assertTrue(0 < int(zeros.signbit().sum()) < zeros.numel())
        product = F.linear(cases["denormal"].x, cases["denormal"].w)
        self.assertLess(float(product.abs().max()), torch.finfo(BF16).tiny)
        self.assertTrue(bool(cases["infinities"].x.isinf().any()))
        self.assertTrue(bool(cases["NaN"].w.isnan().any()))


class TestWarmUp(ProofCase):
    """What is proved when, and that it leaves no trace."""

    def test_only_the_rows_that_are_asked_for(self) -> None:
        dispatcher = self.dispatcher()
        self.assertIsNone(dispatcher.warmup("cpu", rows=[2, 4, 64]))
        self.assertIsNone(dispatcher.warmup("cpu", rows=[4]))
        self.assertEqual(self.proved, [[2, 4]])
        self.assertIs(self.refusal(dispatcher, 8), Reason.NOT_PROVED)
        self.assertIsNone(dispatcher.warmup("cpu", rows=[4, 8]))
        self.assertEqual((self.proved, self.runtime.loads), ([[2, 4], [8]], [-1]))
        for rows in (2, 4, 8):
            self.assertIsNone(self.refusal(dispatcher, rows))

    def test_the_first_reason_is_given_of_what_was_asked_for(self) -> None:
        dispatcher = self.dispatcher(Planted(ulp_off_at_five_rows))
        self.assertIsNone(dispatcher.warmup("cpu", rows=[4]))
        self.assertIs(dispatcher.warmup("cpu", rows=[4, 5]), Reason.BITS_DIFFER)
        self.assertIsNone(dispatcher.warmup("cpu", rows=[4]))
        self.assertIs(dispatcher.warmup("cpu", rows=[1, 9]), Reason.ROWS)
        self.assertIs(dispatcher.warmup("cpu", shapes=[(96, 5120)]), Reason.WEIGHT_SHAPE)

    def test_generators_and_modes_stay_as_they_were(self) -> None:
        state = torch.get_rng_state()
        with torch.autocast("cpu"), torch.device("cpu"), torch.inference_mode():
            self.assertIsNone(self.dispatcher().warmup("cpu"))
            self.assertTrue(torch.is_inference_mode_enabled() and torch.is_autocast_enabled("cpu"))
        self.assertTrue(torch.equal(torch.get_rng_state(), state))

    def test_modes_in_which_linear_is_another_one(self) -> None:
        modes = {
            Reason.DETERMINISTIC: lambda: deterministic_algorithms(False),
            Reason.BATCH_INVARIANT: lambda: batch_invariant_library("batch_invariant_ops"),
        }
        for reason, mode in modes.items():
            dispatcher = self.dispatcher()
            with mode():
                self.assertIs(dispatcher.warmup("cpu"), reason)
            self.assertEqual((self.proved, self.runtime.loads), ([], []))

    def test_a_proof_that_fails_leaves_linear(self) -> None:
        def fails(*_arguments: object) -> dict[int, RowProof]:
            raise torch.OutOfMemoryError("CUDA out of memory")

        runtime = RecordingRuntime()
        dispatcher = Dispatcher(lambda _device: (12, 0), runtime, fails, Store(None))
        self.assertIs(dispatcher.warmup("cpu"), Reason.UNAVAILABLE)
        self.assertIs(self.refusal(dispatcher, 4), Reason.UNAVAILABLE)
        self.assertEqual(self.warning.call_count, 1)

    def test_the_log_says_which_rows(self) -> None:
        self.dispatcher(Planted(ulp_off_at_five_rows)).warmup("cpu")
        line = self.info.call_args[0][-1]
        self.assertIn("48 x 5120 on cpu: kernel for M = 2..4, 6..8; F.linear (BITS_DIFFER)", line)
        self.assertIn("M = 5", summary(SM120_SHAPE, torch.device("cpu"), {5: None}))


class TestState(ProofCase):
    """What may change F.linear's bits while the process runs."""

    def test_another_state_is_refused_until_it_is_back_or_proved(self) -> None:
        dispatcher = self.dispatcher()
        self.assertIsNone(dispatcher.warmup("cpu", rows=[4]))
        with reductions(False):
            self.assertIs(self.refusal(dispatcher, 4), Reason.STATE_CHANGED)
        self.assertIsNone(self.refusal(dispatcher, 4))
        with reductions(False):
            self.runtime.settings["reductions"] = "False"  # as the real runtime says of itself
            self.assertIsNone(dispatcher.warmup("cpu", rows=[4]))
            self.assertIsNone(self.refusal(dispatcher, 4))
        self.assertEqual(self.proved, [[4], [4]])
        self.assertIs(self.refusal(dispatcher, 4), Reason.STATE_CHANGED)

    def test_the_split_k_part_is_state_too(self) -> None:
        dispatcher = self.dispatcher()
        with reductions(False):
            self.assertIsNone(dispatcher.warmup("cpu", rows=[4]))
            with reductions((False, False)):
                self.assertIs(self.refusal(dispatcher, 4), Reason.STATE_CHANGED)
            self.assertIsNone(self.refusal(dispatcher, 4))


class TestModes(ProofCase):
    """`=1` is the proposal's allowlist; `=proved` any shape of the table from SM80 on."""

    SMALL, ODD = BY_SIZE[64, 2048], BY_SIZE[24, 5120]

    def test_the_allowlist(self) -> None:
        for capability in ((9, 0), (12, 1), (8, 0)):
            dispatcher = self.dispatcher(capability=capability)
            self.assertIs(dispatcher.warmup("cpu"), Reason.NOT_SM120)
            self.assertIs(self.refusal(dispatcher, 4), Reason.NOT_SM120)
        dispatcher = self.dispatcher()
        self.assertIs(dispatcher.warmup("cpu", shapes=[(64, 2048)]), Reason.WEIGHT_SHAPE)
        self.assertIsNone(dispatcher.warmup("cpu"))
        self.assertIs(self.refusal(dispatcher, 4, self.SMALL), Reason.COLUMNS)
        self.assertIs(self.refusal(dispatcher, 4, self.ODD), Reason.WEIGHT_SHAPE)
        self.assertIs(self.refusal(dispatcher, 9), Reason.ROWS)

    def test_proved_takes_the_table_s_shapes_and_rows(self) -> None:
        for capability in ((8, 0), (9, 0), (12, 0), (12, 1)):
            dispatcher = self.dispatcher(capability=capability)
            asked = [(64, 2048), (24, 5120)]
            self.assertIsNone(
                dispatcher.warmup("cpu", shapes=asked, rows=[2, 9, 15, 17], mode="proved")
            )
            self.assertEqual(self.proved.pop(), [2, 9, 15, 17])
            self.assertEqual(self.proved.pop(), [2, 9, 15])
            for shape, rows, expected in (
                (self.SMALL, 15, None),
                (self.SMALL, 16, Reason.ROWS),  # 17 is of another shape
                (self.SMALL, 3, Reason.NOT_PROVED),
                (self.SMALL, 1, Reason.ROWS),
                (self.ODD, 17, None),
                (self.ODD, 64, Reason.ROWS),
                (SM120_SHAPE, 4, Reason.NOT_PROVED),
            ):
                with self.subTest(capability=capability, shape=str(shape), rows=rows):
                    self.assertIs(self.refusal(dispatcher, rows, shape), expected)

    def test_a_weight_of_another_width_is_linear_s_error(self) -> None:
        dispatcher = self.dispatcher()
        dispatcher.warmup("cpu", shapes=[(64, 2048)], mode="proved")
        x, w = torch.zeros(4, 5120, dtype=BF16), torch.zeros(64, 2048, dtype=BF16)
        self.assertIs(dispatcher.why_not(x, w), Reason.WEIGHT_SHAPE)
        with self.assertRaises(RuntimeError):
            dispatcher.linear(x, w)

    def test_older_gpus(self) -> None:
        dispatcher = self.dispatcher(capability=(7, 5))
        self.assertIs(dispatcher.warmup("cpu", mode="proved"), Reason.BEFORE_SM80)
        self.assertIs(self.refusal(dispatcher, 4), Reason.NOT_SM120)


class TestKept(ProofCase):
    """Proofs on disk: what is read again, and what is not."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "proofs"
        self.store = Store(self.folder)
        patch = mock.patch("sm120_ba.proof_store.logger.warning")
        self.not_kept = patch.start()
        self.addCleanup(patch.stop)

    def boot(self, rows: list[int], mode: str = "1", **played: object) -> Reason | None:
        """Warm up as a new process would."""
        dispatcher = self.dispatcher(store=self.store, **played)
        return dispatcher.warmup("cpu", rows=rows, shapes=[(48, 5120)], mode=mode)

    def file(self) -> Path:
        (path,) = self.folder.glob("*.json")
        return path

    def test_a_second_start_proves_only_what_is_new(self) -> None:
        self.boot([2, 4])
        self.boot([2, 4])
        self.boot([4, 8])
        self.assertEqual(self.proved, [[2, 4], [8]])
        self.assertEqual(list(json.loads(self.file().read_text())["rows"]), ["2", "4", "8"])

    def test_the_answer_about_time_is_kept_whatever_a_later_start_measures(self) -> None:
        self.assertIsNone(self.boot([4], "proved", times=(1.0, 2.0)))
        self.assertIsNone(self.boot([4], "proved", times=(2.0, 1.0)))
        self.assertIsNone(self.boot([4], "proved", settings={"driver": "2"}, times=(1.0, 2.0)))
        slow = {"settings": {"driver": "3"}}
        self.assertIs(self.boot([4], "proved", times=(2.0, 1.0), **slow), Reason.NOT_FASTER)
        self.assertIs(self.boot([4], "proved", times=(1.0, 2.0), **slow), Reason.NOT_FASTER)

    def test_a_refusal_is_kept_too(self) -> None:
        for _ in range(2):
            self.assertIs(self.boot([4], gemm=Planted(split_k)), Reason.BITS_DIFFER)
        self.assertEqual(self.proved, [[4]])

    def test_another_key_is_another_proof(self) -> None:
        for key in ("device", "uuid", "driver", "torch", "cublas", "triton", "tunable_op"):
            self.boot([4], settings={key: "another"})
        other = RecordingGemm()
        other.digest = "other machine code"
        self.boot([4], gemm=other)
        self.assertEqual(self.proved, [[4]] * 8)

    def test_a_file_that_does_not_hold_these_keys_is_proved_anew(self) -> None:
        self.boot([4])
        path = self.file()
        good = json.loads(path.read_text())
        broken = [
            "",
            "{",
            "[]",
            json.dumps({**good, "schema": 2}),
            json.dumps({**good, "keys": {**good["keys"], "device": "another"}}),
            json.dumps({**good, "rows": {"4": {"different": {}}}}),
            json.dumps({**good, "rows": {"4": {**good["rows"]["4"], "control": "high"}}}),
            json.dumps({**good, "rows": {"four": good["rows"]["4"]}}),
            json.dumps({**good, "rows": []}),
        ]
        for text in broken:
            with self.subTest(text[:40]):
                self.proved.clear()
                path.write_text(text)
                self.assertIsNone(self.boot([4]))
                self.assertEqual(self.proved, [[4]])
                self.assertEqual(json.loads(path.read_text())["rows"], good["rows"])

    def test_folder_and_files_are_the_user_s_own(self) -> None:
        self.boot([4])
        self.assertEqual(self.folder.stat().st_mode & 0o777, 0o700)
        self.assertEqual(self.file().stat().st_mode & 0o777, 0o600)
        self.folder.chmod(0o770)
        self.assertIsNone(self.boot([4]))
        self.assertEqual((self.proved, self.not_kept.call_count), ([[4], [4]], 1))

    def test_nothing_is_left_beside_the_file_and_its_lock(self) -> None:
        self.boot([4])
        names = sorted(path.suffix for path in self.folder.iterdir())
        self.assertIn(names, ([".json"], [".json", ".lock"]))

    def test_a_folder_that_cannot_be_made_keeps_nothing(self) -> None:
        self.folder.write_text("a file")
        for _ in range(2):
            self.assertIsNone(self.boot([4]))
        self.assertEqual(self.proved, [[4], [4]])

    def test_two_that_start_together_prove_once(self) -> None:
        barrier = threading.Barrier(2)

        def start() -> None:
            barrier.wait()
            self.boot([3, 6])

        workers = [threading.Thread(target=start) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(self.proved, [[3, 6]])

    def test_where_the_folder_is(self) -> None:
        home = Path.home()
        cases = [
            ({}, home / ".cache" / "sm120_ba"),
            ({"XDG_CACHE_HOME": "/c"}, Path("/c/sm120_ba")),
            ({"SM120_BA_CACHE_DIR": "/p", "XDG_CACHE_HOME": "/c"}, Path("/p")),
            ({"SM120_BA_CACHE_DIR": ""}, None),
        ]
        for environ, expected in cases:
            self.assertEqual(default_folder(environ), expected)
        with mock.patch.object(Path, "home", side_effect=RuntimeError("no home")):
            self.assertIsNone(default_folder({}))

    def test_the_folder_is_looked_up_when_it_is_needed(self) -> None:
        runtime = RecordingRuntime()
        dispatcher = Dispatcher(lambda _device: (12, 0), runtime, self.prover)
        with mock.patch.dict(os.environ, {"SM120_BA_CACHE_DIR": str(self.folder)}):
            self.assertIsNone(dispatcher.warmup("cpu", rows=[4]))
        self.assertTrue(self.file().exists())

    def test_a_file_system_without_locks_keeps_nothing(self) -> None:
        with mock.patch("filelock.FileLock.acquire", side_effect=NotImplementedError("flock")):
            self.assertIsNone(self.boot([4]))
        self.assertEqual((list(self.folder.glob("*.json")), self.not_kept.call_count), ([], 1))

    def test_cublas_is_named_by_the_library_that_is_loaded(self) -> None:
        maps = self.folder.with_name("maps")
        maps.write_text(
            "7f00-7f01 r--p 0 0 1   /lib/libc.so.6\n7f01-7f02 r--p 0 0 1   /x/libcublas.so.13\n"
        )
        unknown = cublas_version(maps.with_name("none"))
        self.assertIn("torch", unknown)
        self.assertEqual(cublas_version(maps), unknown)  # it cannot be loaded
        library = mock.Mock()
        library.cublasGetProperty = lambda part, value: setattr(value._obj, "value", part + 1)
        with mock.patch("ctypes.CDLL", return_value=library):
            self.assertEqual(cublas_version(maps), "libcublas 1.2.3")

    def test_the_real_keys_name_settings_and_environment(self) -> None:
        before = library_settings()
        with reductions(False), mock.patch.dict(os.environ, {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}):
            after = library_settings()
        changed = {key for key in before if before[key] != after[key]}
        self.assertEqual(
            changed, {"allow_bf16_reduced_precision_reduction", "CUBLAS_WORKSPACE_CONFIG"}
        )


class TestCommand(ProofCase):
    """`python -m sm120_ba prove`: its table, its record and its exit."""

    def prove(self, *options: str, **played: object) -> tuple[int, str, dict]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "proof.json"
            arguments = command._parse(["prove", "--json", str(path), *options])
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = command.run(self.dispatcher(**played), "cpu", arguments)
            return code, output.getvalue(), json.loads(path.read_text())

    def test_equal_bits_end_with_0_also_where_it_is_slow(self) -> None:
        small = ("--shape", "64x2048", "--rows", "2,9")
        for times, answer in (((1.0, 2.0), "kernel"), ((2.0, 1.0), "NOT_FASTER")):
            code, output, record = self.prove(*small, capability=(9, 0), times=times)
            self.assertEqual(code, 0)
            self.assertEqual(output.count(answer + "\n"), 2)
            (found,) = record["proofs"]
            self.assertEqual((found["shape"], list(found["rows"])), ("64 x 2048", ["2", "9"]))

    def test_other_bits_end_with_1(self) -> None:
        code, output, record = self.prove(
            "--shape", "48x5120", "--rows", "4,5", gemm=Planted(ulp_off_at_five_rows)
        )
        self.assertEqual(code, 1)
        rows = record["proofs"][0]["rows"]
        self.assertEqual([rows[m]["refused"] for m in ("4", "5")], [None, "BITS_DIFFER"])
        self.assertIn("BITS_DIFFER", output)

    def test_a_kernel_that_cannot_be_had_ends_with_1(self) -> None:
        code, output, _ = self.prove("--shape", "48x5120", failure=GemmUnavailable("no"))
        self.assertEqual(code, 1)
        self.assertIn("48 x 5120: UNAVAILABLE", output)

    def test_every_shape_by_default(self) -> None:
        code, _, record = self.prove("--rows", "2")
        self.assertEqual((code, len(record["proofs"])), (0, len(TABLE)))

    def test_without_cuda_and_wrong_use(self) -> None:
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            with mock.patch("torch.cuda.is_available", lambda: False):
                self.assertEqual(command.main(["prove"]), 3)
            with self.assertRaises(SystemExit) as ended:
                command.main(["prove", "--shape", "12x5120"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("12x5120 is none of 48x5120, ", errors.getvalue())


if __name__ == "__main__":
    unittest.main()

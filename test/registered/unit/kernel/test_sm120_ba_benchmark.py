"""What the BA benchmark says of its samples, and when it refuses to say anything; on the CPU."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from runci import register_cpu_ci
from runci.nightly.record import Check, Direction, Output, decode
from sm120_ba.timing import Samples

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FOLDER = Path(__file__).parents[4] / "kernel" / "benchmark"


def setUpModule() -> None:
    sys.path.insert(0, str(FOLDER))
    unittest.addModuleCleanup(sys.path.remove, str(FOLDER))


def results(ours: float = 6.0, is_sm120: bool = False):
    """Made-up results of three providers at M=2 and M=8."""
    import ba_report

    machine = {
        "gpu": "NVIDIA H200",
        "capability": "9.0",
        "is_sm120": is_sm120,
        "driver": "580",
        "torch": "2.13.0",
        "triton": "3.7.1",
        "clocks_before": "1980 MHz",
        "clocks_after": "1980 MHz",
    }
    made = ba_report.Results(machine)
    for rows in (2, 8):
        for name, value in (
            ("frozen form", 12.0),
            ("this kernel", ours),
            ("MMA chain, no loads", 5.6),
        ):
            made.samples[name, rows, "warm"] = Samples((value - 0.5, value, value + 0.5))
        made.numerics["this kernel", rows] = ba_report.Numerics(False, True, 0, 1.7e-3)
    made.skipped["quack gemm"] = "quack is not installed"
    return made


def run_main(*argv: str) -> tuple[int, str]:
    import benchmark_sm120_ba_gemm

    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        code = benchmark_sm120_ba_gemm.main(list(argv))
    return code, output.getvalue()


class TestSamples(unittest.TestCase):
    """Branch: arithmetic only."""

    def test_median_and_deciles(self):
        samples = Samples(tuple(float(v) for v in range(11)))
        self.assertEqual((samples.median, samples.spread), (5.0, (1.0, 9.0)))


class TestReport(unittest.TestCase):
    """Branch: made-up samples; no GPU is asked."""

    def test_another_gpu_is_never_called_sm120(self):
        import ba_report

        self.assertIn("This is not SM120", ba_report.text(results()))
        self.assertNotIn("This is not SM120", ba_report.text(results(is_sm120=True)))

    def test_goals_are_judged_at_their_own_rows(self):
        import ba_report

        self.assertEqual(
            ba_report.goal_lines(results(ours=6.0)),
            [
                "M=2: 0.500 x frozen form (goal 0.58: met)",
                "M=8: 0.500 x frozen form (goal 0.70: met)",
                "M=2: 1.071 x MMA chain, no loads (goal 1.10: met)",
                "M=8: 1.071 x MMA chain, no loads (goal 1.10: met)",
            ],
        )
        missed = ba_report.goal_lines(results(ours=7.8))
        self.assertEqual(
            [line.rsplit(": ", 1)[1] for line in missed], ["MISSED)", "met)", "MISSED)", "MISSED)"]
        )

    def test_table_has_medians_spreads_and_gaps(self):
        import ba_report

        made = results()
        del made.samples["this kernel", 2, "warm"]
        table = ba_report.time_table(made, "warm").splitlines()
        medians, spreads = (t.split() for t in table if t.startswith("this"))
        self.assertEqual(medians, ["this", "kernel", "-", "6.00"])
        self.assertEqual(spreads, ["this", "kernel", "-", "0.80"])
        self.assertEqual(ba_report.time_table(made, "cold"), "")

    def test_tables_of_every_provider_fit_80_columns(self):
        import ba_providers
        import ba_report

        made = results()
        for provider in ba_providers.PROVIDERS:
            for rows in ba_providers.ROWS:
                made.samples[provider.name, rows, "warm"] = Samples((10.0, 100.0, 200.0))
                made.numerics[provider.name, rows] = ba_report.Numerics(True, True, 65_535, 1e-300)
        tables = ba_report.time_table(made, "warm") + "\n" + ba_report.numerics_table(made)
        self.assertLessEqual(max(map(len, tables.splitlines())), 80)

    def test_the_device_is_named_by_uuid_and_the_commit_is_this_project_s(self):
        import ba_report

        properties = SimpleNamespace(uuid="1234", name="A GPU", major=9, minor=0, L2_cache_size=1)
        done = SimpleNamespace(stdout="said\n")
        with (
            mock.patch("torch.cuda.get_device_properties", lambda _index: properties),
            mock.patch("subprocess.run", return_value=done) as run,
        ):
            machine = ba_report.machine(0)
        self.assertEqual((machine["driver"], machine["commit"]), ("said", "said"))
        self.assertEqual([call.kwargs["cwd"] for call in run.call_args_list], [FOLDER] * 3)
        queries = [c.args[0] for c in run.call_args_list if c.args[0][0] == "nvidia-smi"]
        self.assertEqual({query[1] for query in queries}, {"--id=GPU-1234"})

    def test_what_cannot_be_found_out_is_none(self):
        import ba_report

        self.assertIsNone(ba_report._output("no-such-program-here"))
        self.assertIsNone(ba_report._output("git", "no-such-command"))


class TestJson(unittest.TestCase):
    """Branch: made-up samples, written and read back as the nightly reads them."""

    def written(self, made) -> bytes:
        import ba_json

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            ba_json.write_json(made, path)
            return path.read_bytes()

    def output(self, made) -> Output:
        return decode(self.written(made), Output, "results.json")

    def with_linear(self, **given):
        """As `results`, with F.linear warm at M=2 only."""
        made = results(**given)
        made.samples["F.linear", 2, "warm"] = Samples((7.0, 7.1, 7.2))
        return made

    def test_every_sample_and_all_the_rest_is_there(self):
        data = json.loads(self.written(results()))
        self.assertEqual(len(data["samples"]), 6)
        self.assertEqual(data["samples"][1]["values"], [5.5, 6.0, 6.5])
        self.assertEqual(data["skipped"], {"quack gemm": "quack is not installed"})
        self.assertEqual(len(data["numerics"]), 2)
        self.assertFalse(data["machine"]["is_sm120"])

    def test_metrics_are_named_by_provider_rows_and_cache_and_compared_with_linear(self):
        samples = {one.metric: one for one in self.output(self.with_linear()).samples}
        ours = samples["this kernel M=2 warm"]
        self.assertEqual(
            (ours.unit, ours.direction, ours.values, ours.reference),
            ("us", Direction.LOWER, (5.5, 6.0, 6.5), "F.linear M=2 warm"),
        )
        self.assertIsNone(samples["F.linear M=2 warm"].reference)
        self.assertIsNone(samples["this kernel M=8 warm"].reference)  # F.linear was not timed there

    def test_versions_are_those_that_could_be_found_out(self):
        made = results()
        made.machine["cuda"] = None
        self.assertEqual(self.output(made).versions, {"torch": "2.13.0", "triton": "3.7.1"})

    def test_other_bits_than_the_frozen_form_s_fail_and_name_the_rows(self):
        import ba_report

        made = results()
        (check,) = self.output(made).checks  # no promise about F.linear: this is not SM120
        self.assertEqual(check, Check("this kernel: bits of the frozen form", True, "M = 2, 8"))
        made.numerics["this kernel", 8] = ba_report.Numerics(True, False, 3, 1.7e-3)
        made.numerics["row-wise reduction", 2] = ba_report.Numerics(False, False, 9, 1.7e-3)
        (check,) = self.output(made).checks
        self.assertFalse(check.passed)
        self.assertEqual(check.detail, "other bits at M = 8, up to 3 ULP off (compared: M = 2, 8)")

    def test_on_sm120_linear_s_bits_are_promised_too(self):
        import ba_report

        made = results(is_sm120=True)  # equal to the frozen form, not to F.linear
        frozen, linear = self.output(made).checks
        self.assertTrue(frozen.passed)
        self.assertEqual(
            linear,
            Check(
                "this kernel: bits of F.linear",
                False,
                "other bits at M = 2, 8 (compared: M = 2, 8)",
            ),
        )
        for rows in (2, 8):
            made.numerics["this kernel", rows] = ba_report.Numerics(True, True, 0, 1.7e-3)
        self.assertTrue(all(check.passed for check in self.output(made).checks))

    def test_the_record_kept_here_has_this_form(self):
        path = FOLDER / "records" / "h200.json"
        output = decode(path.read_bytes(), Output, path.name)
        names = [one.metric for one in output.samples]
        self.assertEqual(len(set(names)), 124)
        self.assertTrue({one.reference for one in output.samples} - {None} <= set(names))
        self.assertEqual([check.passed for check in output.checks], [True])


class TestRefusals(unittest.TestCase):
    """Branch: the command line ends before anything is measured."""

    def test_no_device_is_nothing_to_measure(self):
        with mock.patch("torch.cuda.is_available", lambda: False):
            self.assertEqual(run_main(), (3, "No CUDA device: nothing to measure.\n"))

    def test_wrong_devices_are_wrong_use(self):
        with (
            mock.patch("torch.cuda.is_available", lambda: True),
            mock.patch("torch.version.cuda", "13.0"),
            mock.patch("torch.cuda.device_count", lambda: 1),
            mock.patch("torch.cuda.set_device"),
            mock.patch("torch.cuda.get_device_capability", lambda: (12, 1)),
        ):
            code, output = run_main("--device", "1")
            self.assertEqual((code, output), (2, "There is no CUDA device 1.\n"))
            code, output = run_main("--device", "-1")
            self.assertEqual((code, output), (2, "There is no CUDA device -1.\n"))
            code, output = run_main("--expect-sm120")
            self.assertEqual((code, output), (2, "Device 0 is (12, 1), not SM120 (12, 0).\n"))
            code, output = run_main("--only", "cublas")
            self.assertEqual(code, 2)
            self.assertIn("Not a provider: cublas. There are: F.linear, ", output)
            with mock.patch("benchmark_sm120_ba_gemm.find_spec", return_value=None):
                self.assertEqual(run_main(), (3, "Triton is not installed: nothing to measure.\n"))

    def test_what_would_be_lost_after_the_measurement_is_refused_before(self):
        import benchmark_sm120_ba_gemm

        for argv, text in (
            (("--repetitions", "1"), "at least 2"),
            (("--json", "no/such/folder/x.json"), "cannot write"),
            (("--plot", str(FOLDER)), "cannot write"),
        ):
            output = io.StringIO()
            with (
                self.subTest(argv=argv),
                contextlib.redirect_stderr(output),
                self.assertRaises(SystemExit) as ended,
            ):
                benchmark_sm120_ba_gemm.parse(list(argv))
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(text, output.getvalue())


if __name__ == "__main__":
    unittest.main()

"""The SGLang plugin's entry point and hooks without SGLang; runs on the CPU.

The same with SGLang's own loader and registry is in test/interop.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from importlib.metadata import entry_points
from types import SimpleNamespace
from unittest import mock

import torch

from runci import register_cpu_ci
from sm120_ba import config
from sm120_ba.config import FLAG

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ON = {FLAG: "1"}
BA_PREFIX = "model.layers.0.linear_attn.in_proj_ba"


class TestPlugin(unittest.TestCase):
    """The entry point without SGLang; test/interop has the tests with it."""

    def test_the_entry_point_is_installed(self) -> None:
        (found,) = entry_points(group="sglang.srt.plugins", name="sm120_ba")
        self.assertEqual(found.value, "sm120_ba.sglang_plugin:register")

    def test_off_is_cheap_and_silent(self) -> None:
        code = (
            "import sys\n"
            "from sm120_ba.sglang_plugin import register\n"
            "assert register() is None\n"
            "heavy = [m for m in ('torch', 'triton', 'sglang') if m in sys.modules]\n"
            "assert not heavy, heavy\n"
        )
        for flag in ({}, {FLAG: "0"}):
            environment = {k: v for k, v in os.environ.items() if k != FLAG} | flag
            command = [sys.executable, "-c", code]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_bad_flag_names_the_variable(self) -> None:
        from sm120_ba.sglang_plugin import register

        with (
            mock.patch.dict(os.environ, {FLAG: "perhaps"}),
            self.assertRaisesRegex(ValueError, FLAG),
        ):
            register()

    def test_on_registers_two_hooks(self) -> None:
        from sm120_ba import sglang_hooks, sglang_plugin

        registry = mock.Mock()
        module = SimpleNamespace(
            HookRegistry=registry, HookType=SimpleNamespace(AROUND="around", AFTER="after")
        )
        plugins = SimpleNamespace(hook_registry=module)
        fakes = {
            "sglang": SimpleNamespace(),
            "sglang.srt": SimpleNamespace(),
            "sglang.srt.plugins": plugins,
            "sglang.srt.plugins.hook_registry": module,
        }
        with mock.patch.dict(sys.modules, fakes), mock.patch.dict(os.environ, ON):
            sglang_plugin.register()
        calls = [
            mock.call(sglang_plugin.APPLY, sglang_hooks.around_apply, "around"),
            mock.call(sglang_plugin.INITIALIZE, sglang_hooks.after_initialize, "after"),
        ]
        self.assertEqual(registry.register.call_args_list, calls)

    def test_another_sglang_stays_as_it_is(self) -> None:
        from sm120_ba import sglang_hooks

        self.addCleanup(config.reset)
        layer = SimpleNamespace(prefix=BA_PREFIX)
        options = {
            "no module": mock.Mock(side_effect=ImportError("runtime_context")),
            "no attribute": mock.Mock(side_effect=AttributeError("get_exec")),
            "a new backend": mock.Mock(return_value=("newest", False)),
        }
        for name, read in options.items():
            with (
                self.subTest(name),
                mock.patch.object(sglang_hooks, "_server_options", read),
                mock.patch.dict(os.environ, ON),
                self.assertLogs("sm120_ba", "INFO") as logs,
            ):
                config.reset()
                original = mock.Mock(return_value="original")
                for _ in range(2):
                    y = sglang_hooks.around_apply(original, None, layer, torch.ones(1))
                    self.assertEqual(y, "original")
                self.assertFalse(config.current().enabled)
                self.assertEqual(len(logs.output), 1)
                self.assertIn("not enabled for any layer: the options of", logs.output[0])


if __name__ == "__main__":
    unittest.main()

"""The SGLang plugin's entry point and hooks without SGLang; runs on the CPU.

The same with SGLang's own loader and registry is in test/interop.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from importlib.metadata import entry_points
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch

from runci import register_cpu_ci
from sm120_ba import config
from sm120_ba.config import FLAG

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ON = {FLAG: "1"}
PACKAGES = ("sglang", "sglang.srt", "sglang.srt.layers", "sglang.srt.layers.quantization")
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

    def registered(self, **unquant: Any) -> list[Any]:
        """What `register` hooks in an SGLang whose module of that name holds `unquant`."""
        from sm120_ba import sglang_plugin

        registry = mock.Mock()
        hooks = ModuleType("sglang.srt.plugins.hook_registry")
        hooks.HookRegistry = registry
        hooks.HookType = SimpleNamespace(AROUND="around", AFTER="after")
        plugins = SimpleNamespace(hook_registry=hooks)
        unquantized = ModuleType("unquant")
        vars(unquantized).update(unquant)
        fakes = {name: ModuleType(name) for name in PACKAGES}
        fakes |= {
            "sglang.srt.plugins": plugins,
            "sglang.srt.plugins.hook_registry": hooks,
            "sglang.srt.layers.quantization.unquant": unquantized,
        }
        fakes["sglang.srt.layers.quantization"].unquant = unquantized
        with mock.patch.dict(sys.modules, fakes), mock.patch.dict(os.environ, ON):
            sglang_plugin.register()
        return registry.register.call_args_list

    def test_on_registers_its_hooks(self) -> None:
        from sm120_ba import sglang_hooks, sglang_plugin

        apply = mock.call(sglang_plugin.APPLY, sglang_hooks.around_apply, "around")
        loaded = mock.call(sglang_plugin.LOADED, sglang_hooks.after_loading, "after")
        after = mock.call(sglang_plugin.INITIALIZE, sglang_hooks.after_initialize, "after")
        newer = self.registered(initialize_bf16_gemm_config=lambda: None)
        self.assertEqual(newer, [apply, loaded, after])
        self.assertEqual(
            self.registered(), [apply, loaded], "0.5.11 to 0.5.14 have no such function"
        )

    def test_the_options_of_each_generation(self) -> None:
        """0.5.11: the arguments of a server; 0.5.15: those, and a backend; 0.5.23: a context."""
        from sm120_ba import sglang_hooks

        def arguments(flag: bool | None) -> ModuleType:
            module = ModuleType("server_args")
            if flag is None:
                module.get_global_server_args = mock.Mock(side_effect=ValueError("not set yet"))
            else:
                found = SimpleNamespace(enable_deterministic_inference=flag)
                module.get_global_server_args = lambda: found
            return module

        def context(flag: bool | None) -> ModuleType:
            module = ModuleType("runtime_context")
            found = SimpleNamespace(is_config_namespace_published=lambda _name: flag is not None)
            execution = SimpleNamespace(enable_deterministic_inference=flag)
            module.get_context = lambda: found
            module.get_exec = lambda: SimpleNamespace(deterministic=execution)
            return module

        older_context = ModuleType("runtime_context")
        older_context.get_context = object
        backend = lambda: SimpleNamespace(value="cutedsl")  # noqa: E731
        cases = {
            "0.5.11": ({}, None, arguments(False), ("auto", False)),
            "0.5.11, deterministic": ({}, None, arguments(True), ("auto", True)),
            "0.5.11, no server": ({}, None, arguments(None), ("auto", False)),
            "0.5.14": ({}, older_context, arguments(True), ("auto", True)),
            "0.5.15": ({"get_bf16_gemm_backend": backend}, older_context, arguments(True),
                       ("cutedsl", True)),
            "0.5.23": ({"get_bf16_gemm_backend": backend}, context(True), None,
                       ("cutedsl", True)),
            "0.5.23, no server": ({"get_bf16_gemm_backend": backend}, context(None), None,
                                  ("cutedsl", False)),
        }  # fmt: skip
        for name, (unquant, runtime_context, server_args, expected) in cases.items():
            fakes: dict[str, Any] = {package: ModuleType(package) for package in PACKAGES}
            vars(fakes["sglang.srt.layers.quantization"])["unquant"] = SimpleNamespace(**unquant)
            for module, part in (
                ("runtime_context", runtime_context),
                ("server_args", server_args),
            ):
                fakes[f"sglang.srt.{module}"] = part
                if part is not None:
                    setattr(fakes["sglang.srt"], module, part)
            with self.subTest(name), mock.patch.dict(sys.modules, fakes):
                self.assertEqual(sglang_hooks._server_options(), expected)

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

"""A second repository, adopted by `runci init`, and its own workflow under act.

Its workflow uses the published action, which act takes from this checkout; all that the action
installs is installed. What is played: GitHub's API, the actions of GitHub, and the GPUs.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from act_repository import Repository
from act_workflows import STUBS, USES, Scratch
from places import FIXTURES, ROOT
from trees import runci_process, track

ACTION = f"ci-team/runci@{'1' * 40}"
WORKFLOW = "runci.yml"
# What the action must not look at, at the root of the commit that it plans.
TRAPS = dict.fromkeys(
    ("identify.py", "requests.py", "sitecustomize.py"), "raise SystemExit('of the checkout')\n"
) | {"pip.conf": "[global]\nno-index = true\n"}
_GPUS = re.compile(r" gpus: \d+,")


class Adopted(Scratch):
    """The fixture `kernels` after `runci init`, at `folder`/repository, and its pull request."""

    def __init__(self, folder: Path, changes: Mapping[str, str]) -> None:
        shutil.copytree(ROOT / "ci_scripts", folder / "action" / "ci_scripts", ignore=_compiled)
        for name in ("action.yml", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / "action")
        Repository.__init__(self, folder, changes)

    def _programs(self) -> None:
        self.bin = Path(sys.executable).parent  # whose Python has what the tests need

    def _files(self) -> None:
        shutil.copytree(FIXTURES / "adopt" / "kernels", self.root)
        track(self.root)
        done = runci_process("init", "--action", ACTION, cwd=self.root)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(self.root / ".git")
        taxonomy = self.root / "runci.yml"
        taxonomy.write_text(_GPUS.sub("", taxonomy.read_text()))  # which no machine here has
        passes = "def test_it_runs():\n    pass\n"
        gpu = ("tests/test_gemm.py", "tests/kernels/test_softmax.py")
        self._write({**TRAPS, **dict.fromkeys(gpu, passes)})

    def stubs(self) -> dict[str, Path]:
        """The action from this checkout, and GitHub's own as they are played."""
        action = self.folder / "action"
        texts = [action / "action.yml", *(self.root / ".github").rglob("*.yml")]
        used = {m[1]: m[2] for path in texts for m in USES.finditer(path.read_text())}
        played = {uses: STUBS / name.partition("/")[2] for uses, name in used.items()}
        return {**played, ACTION: action}


def _compiled(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in ("__pycache__", "runci.egg-info")]

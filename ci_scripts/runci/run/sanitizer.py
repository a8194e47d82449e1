"""compute-sanitizer in front of a file's process: which of its tools, where it is, its command.

A run under a tool is a run of its own: its results name the tool and are in shards of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runci.config.taxonomy import FACTOR, TOOLS, Taxonomy
from runci.core.errors import RunciError
from runci.run.model import Selection
from runci.text.wording import nearest

NAME = "compute-sanitizer"
_REMEDY = (
    "put the folder of the CUDA toolkit's compute-sanitizer into PATH, set CUDA_HOME, or "
    "`pip install nvidia-cuda-sanitizer-api`"
)
# Of the tool: an error ends the kernel and not the context, so that the tests after it still mean
# something; what an API call or the program gives back is for the tests to judge.
_OPTIONS = ("--target-processes", "all", "--check-exit-code", "no")
_OF_TOOL = {"memcheck": ("--report-api-errors", "no", "--destroy-on-device-error", "kernel")}
# PyTorch's caching allocator would hide an access past the end of a tensor.
_ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of compute-sanitizer, such as memcheck, and the program."""

    name: str
    program: str

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables without which a tool would miss something."""
        return _ENVIRONMENT

    def command(self, log: Path) -> list[str]:
        """What stands in front of a command, so that the tool writes to `log`."""
        place = str(log.absolute()).replace("%", "%%")
        options = (*_OPTIONS, *_OF_TOOL.get(self.name, ()))
        return [self.program, "--tool", self.name, *options, "--log-file", place]


def asked(text: str) -> tuple[str, ...]:
    """The tools of «compute-sanitizer[=TOOL,...]», memcheck alone without one.

    Raises RunciError for another program or tool.
    """
    program, given, names = text.partition("=")
    if program != NAME:
        raise RunciError(f"--under {text}: write {NAME}[={','.join(TOOLS)}]")
    wanted = tuple(dict.fromkeys(names.split(","))) if given else TOOLS[:1]
    for name in wanted:
        if name not in TOOLS:
            listed = ", ".join(TOOLS)
            raise RunciError(
                f"--under {text}: {NAME} has no tool {name!r}{nearest(name, TOOLS)} (it has "
                f"{listed})"
            )
    return wanted


def lanes(chosen: Selection, given: str | None, taxonomy: Taxonomy) -> list[Selection]:
    """What is run of a selection: itself, or itself under each tool that is asked for.

    Asked for by --under, else by the suite. A planned shard is under what its plan says. Raises
    RunciError where --under contradicts that.
    """
    suite = taxonomy.suite(chosen.backend, chosen.suite)
    if chosen.plan is not None:
        if given is not None and asked(given) != (chosen.under,):
            planned = f"under {chosen.under}" if chosen.under else "under no tool"
            raise RunciError(
                f"--under {given}: shard {chosen.shard} is planned {planned}: leave --under out"
            )
        return [_lane(chosen, chosen.under, 1.0, chosen.shard)] if chosen.under else [chosen]
    tools = asked(given) if given is not None else suite.under if suite else ()
    factor = suite.under_factor if suite else FACTOR
    return [_lane(chosen, tool, factor, f"{chosen.shard}-{tool}") for tool in tools] or [chosen]


def _lane(chosen: Selection, tool: str, factor: float, shard: str) -> Selection:
    """Each file has a process of its own: what the tool finds then is of that file."""
    files = [replace(one, predicted=one.predicted * factor, group=None) for one in chosen.files]
    given = (*chosen.given, "--under", f"{NAME}={tool}")
    return replace(chosen, files=tuple(files), under=tool, shard=shard, given=given)


def find(environment: Mapping[str, str], packages: Sequence[str] | None = None) -> str:
    """The program: in PATH, CUDA's folder, or the package nvidia-cuda-sanitizer-api.

    `packages` are the folders of the namespace `nvidia`. Raises RunciError where there is none.
    """
    homes = [environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), "/usr/local/cuda"]
    installed = _nvidia() if packages is None else packages
    below = [one for folder in installed for one in sorted(Path(folder).glob(f"*/bin/{NAME}"))]
    known = [Path(home, "bin", NAME) for home in homes if home] + below
    found = [str(one) for one in known if one.is_file() and os.access(one, os.X_OK)]
    program = shutil.which(NAME, path=environment.get("PATH")) or next(iter(found), None)
    if program is None:
        looked = ", ".join(["PATH", *dict.fromkeys(map(str, known))])
        raise RunciError(f"--under {NAME}: it is not installed (looked in {looked}): {_REMEDY}")
    return program


def _nvidia() -> list[str]:
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    return list(spec.submodule_search_locations or ()) if spec is not None else []

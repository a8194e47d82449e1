"""Where a step of the nightly works: its repository, perf.yml, and its run on GitHub."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from runci.commands.shared import find_root
from runci.perf.config import Config, read_config

DEFAULT = Path("test/perf.yml")


def settings(options: Namespace) -> tuple[Path, Config]:
    """The root and perf.yml that `--root` and `--config` name, or that are found upwards."""
    root = find_root(options.root, options.config)
    return root, read_config(config_path(options, root))


def config_path(options: Namespace, root: Path) -> Path:
    """Where perf.yml is."""
    return Path(options.config) if options.config else root / DEFAULT


def run_url(environ: Mapping[str, str]) -> str:
    """The address of GitHub's run; empty outside one."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, number = (environ.get(name, "") for name in names)
    if not (server and repository and number):
        return ""
    return f"{server}/{repository}/actions/runs/{number}"

"""`runci audit`: whether the workflows keep strangers off our machines."""

from __future__ import annotations

import gc
import time
from argparse import Namespace
from pathlib import Path

from runci.audit.ids import IDS
from runci.audit.registry import RULES
from runci.audit.run import audit as run_audit
from runci.commands.shared import CONFIG, find_root, report
from runci.errors import Exit, RunciError
from runci.finding import RuleInfo, Summary
from runci.rules.base import nearest
from runci.rules.meta import UNJUSTIFIED
from runci.settings import load_taxonomy_file
from runci.suites import Taxonomy


def audit(options: Namespace) -> int:
    """Check the workflows, report, and say whether anything was found."""
    started = time.monotonic()
    gc.disable()  # a short process that allocates much and frees little
    root = find_root(options.root, options.config)
    result = run_audit(root, _taxonomy(root, options.config), _active(options))
    seconds = time.monotonic() - started
    summary = Summary(result.files, seconds, noun="workflow files", suppressed=result.suppressed)
    rules: dict[str, RuleInfo] = {rule.id: rule for rule in (*RULES, UNJUSTIFIED)}
    report(options, result.findings, summary, rules, root)
    return Exit.FINDINGS if result.failed else Exit.OK


def _taxonomy(root: Path, config: str | None) -> Taxonomy:
    """suites.yml; a repository without one is audited with the defaults."""
    if config is None and not (root / CONFIG).is_file():
        return Taxonomy(CONFIG.as_posix(), ())
    return load_taxonomy_file(root, Path(config) if config else root / CONFIG)


def _active(options: Namespace) -> frozenset[str]:
    for word in (*options.select, *options.ignore):
        if not any(rule.startswith(word) for rule in IDS):
            raise RunciError(f"no rule {word!r}{nearest(word, IDS)} (rules: {', '.join(IDS)})")
    chosen = (rule for rule in IDS if not options.select or rule.startswith(options.select))
    ignored = options.ignore
    return frozenset(rule for rule in chosen if not ignored or not rule.startswith(ignored))

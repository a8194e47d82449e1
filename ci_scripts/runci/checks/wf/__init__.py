"""Rules about workflows, those of one subject in one module, and their run over a checkout."""

from __future__ import annotations

import os
from pathlib import Path

from runci.checks.registry import rules_of
from runci.checks.rule import Found, Options
from runci.checks.wf.audit import Audit, WorkflowRule, read_audit
from runci.config.repository import CONFIGS, load_taxonomy_file
from runci.config.taxonomy import Taxonomy
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding
from runci.core.paths import read_named
from runci.read.comments import suppressions_of
from runci.read.yamlpos import Node, load
from runci.workflows.runs import read_workflows

RULESET = ".github/ruleset.json"


def find(options: Options) -> Found:
    """Read the workflows and run the rules. Raises RunciError where there are none."""
    taxonomy = _taxonomy(options)
    files, broken = read_workflows(options.root, taxonomy.workflows)
    folders = ", ".join(taxonomy.workflows.paths)
    if not files and not broken:
        raise RunciError(f"no workflow in {folders} below {options.root}", Exit.NOTHING)
    ruleset = _ruleset(options)
    findings = check(read_audit(files, taxonomy, broken, ruleset), options.active)
    paths = [*files, *(one.path for one in broken), *([ruleset[0]] if ruleset else ())]
    comments = {path: suppressions_of(path, data) for path, data in files.items()}
    return Found(findings, paths, f"no workflow there (they are in {folders})", comments)


def check(seen: Audit, active: frozenset[str]) -> list[Finding]:
    """All findings of the active rules, sorted; pure."""
    rules = [rule for rule in rules_of("WF") if isinstance(rule, WorkflowRule)]
    return sorted(f for rule in rules if rule.id in active for f in rule.check(seen))


def _ruleset(options: Options) -> tuple[str, Node] | None:
    """The export that was named, else the repository's own. Raises RunciError for a broken one."""
    path = options.ruleset or options.root / RULESET
    if options.ruleset is None and not path.is_file():
        return None
    shown = RULESET if options.ruleset is None else os.path.relpath(path, options.root)
    return Path(shown).as_posix(), load(read_named(path, option="--ruleset "), str(path))


def _taxonomy(options: Options) -> Taxonomy:
    """suites.yml; a repository without one is audited with the defaults."""
    if options.config == options.root / CONFIGS[0] and not options.config.is_file():
        return Taxonomy(CONFIGS[0], ())
    return load_taxonomy_file(options.root, options.config)

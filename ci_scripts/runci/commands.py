"""What each command does: options in, output and exit status out."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from runci.errors import Exit, RunciError
from runci.finding import Finding, RuleInfo, Summary
from runci.registration import Backend
from runci.suites import Kind

if TYPE_CHECKING:
    from runci import lint as linting
    from runci.collect import Filter

CONFIG = Path("test", "suites.yml")

_Choice = TypeVar("_Choice", Backend, Kind)


def lint(options: Namespace) -> int:
    """`runci lint`: the registered-test lint."""
    from runci import lint as linting
    from runci.report.summary import plural
    from runci.rules import ALL

    started = time.monotonic()
    gc.disable()  # a short process that allocates much and frees little
    request = tree_options(options)
    if options.write_baseline:
        return _write_baseline(options, request)
    result = linting.lint(request)
    fixed = 0
    if options.fix or options.diff:
        from runci import fix

        changes = fix.fix_files(request.root, result.findings, result.tree, request.active)
        if options.diff:
            _write(fix.diff(changes))
            return Exit.FINDINGS if changes else Exit.OK
        fixed = fix.write(request.root, changes)
        result = linting.lint(request) if fixed else result
    summary = Summary(
        result.files,
        time.monotonic() - started,
        noun="test files",
        registrations=result.registrations,
        suppressed=result.suppressed,
        baselined=result.baselined,
        fixed=fixed,
    )
    report(options, result.findings, summary, ALL, request.root)
    if result.gone:
        gone = plural(result.gone, "findings")
        _note(f"{options.baseline} lists {gone} no longer found: renew it with --write-baseline")
    return Exit.FINDINGS if result.failed else Exit.OK


def _write_baseline(options: Namespace, request: linting.Options) -> int:
    """Write down all findings of today: those of a part would drop the others."""
    from runci import baseline
    from runci import lint as linting
    from runci.report.summary import plural

    if options.baseline is None:
        raise RunciError("--write-baseline needs --baseline FILE, the file to write")
    if options.paths or options.fix or options.diff:
        raise RunciError("--write-baseline is about the whole tree: no PATH, --fix or --diff")
    found = linting.lint(replace(request, baseline=None)).findings
    count = plural(baseline.write(Path(options.baseline), found), "findings")
    _write(f"{options.baseline}: {count}; from now on only new ones are reported\n")
    return Exit.OK


def whitespace(options: Namespace) -> int:
    """`runci whitespace`: trailing whitespace, line ends, encodings, conflict markers."""
    from runci.whitespace import RULES, WhitespaceOptions, check

    started = time.monotonic()
    root = find_root(options.root)
    wanted = WhitespaceOptions(
        fix=options.fix,
        diff_base=options.diff_base,
        markdown_breaks=options.markdown_breaks,
    )
    result = check(root, options.paths, wanted)
    if not result.files and options.diff_base is None:
        raise RunciError(f"no file to check in {root}", Exit.NOTHING)
    seconds = time.monotonic() - started
    summary = Summary(result.files, seconds, noun="files", fixed=result.fixed)
    rules = {rule.id: rule for rule in RULES}
    report(options, result.findings, summary, rules, root)
    return Exit.FINDINGS if result.findings else Exit.OK


def collect(options: Namespace) -> int:
    """`runci collect`: registrations by suite, with totals."""
    from runci import lint as linting
    from runci.collect import by_suite
    from runci.report.collect import as_json, as_table

    gc.disable()
    wanted = _filter(options)
    request = tree_options(options)
    tree = linting.load_tree(request)
    below = linting.wanted_paths(request, tree)
    registrations = {
        path: found for path, found in tree.registrations.items() if linting.is_below(path, below)
    }
    suites = by_suite(registrations, tree.taxonomy, wanted)
    if options.format == "json":
        _write(as_json(suites))
    else:
        _write(as_table(suites, files=options.files, width=terminal_width()))
    if not suites:
        raise RunciError("no registration matches", Exit.NOTHING)
    return Exit.OK


def plan(options: Namespace) -> int:
    """`runci plan`: which suites run for a commit, in which shards."""
    from runci.commands_plan import plan as make

    return make(options)


def run(options: Namespace) -> int:
    """`runci run`: run test files, one result a file."""
    from runci.run.command import run as run_tests

    return run_tests(options)


def verify(options: Namespace) -> int:
    """`runci verify`: whether the results are the plan."""
    from runci.commands_results import verify as judge

    return judge(options)


def status(options: Namespace) -> int:
    """`runci status`: when each test last really ran."""
    from runci.commands_results import status as show

    return show(options)


def estimates(options: Namespace) -> int:
    """`runci estimates`: est_time against measured times."""
    from runci.commands_results import estimates as compare

    return compare(options)


def gate(options: Namespace) -> int:
    """`runci gate`: whether this run may use the GPUs."""
    from runci.commands_gate import gate as decide

    return decide(options)


def audit(options: Namespace) -> int:
    """`runci audit`: what workflows let a stranger start."""
    from runci.commands_audit import audit as prove

    return prove(options)


def slash(options: Namespace) -> int:
    """`runci slash`: the command in a comment on a pull request."""
    from runci.commands_slash import slash as carry_out

    return carry_out(options)


def needs(options: Namespace) -> int:
    """`runci needs`: whether the jobs before a final job did their part."""
    from runci.commands_needs import needs as look

    return look(options)


def pr_states(options: Namespace) -> int:
    """`runci pr-states`: the block with states in a pull request."""
    from runci.commands_slash import pr_states as show

    return show(options)


def rule(options: Namespace) -> int:
    """`runci rule`: what a rule means and how to mend what it finds."""
    from runci.audit.registry import RULES as AUDIT
    from runci.report.rules_page import as_markdown, as_text
    from runci.rules import ALL
    from runci.rules.base import nearest
    from runci.whitespace import RULES

    known: dict[str, RuleInfo] = {**ALL, **{item.id: item for item in (*AUDIT, *RULES)}}
    if options.all == bool(options.rules):
        raise RunciError("name rules, such as `runci rule RT104`, or pass --all")
    wanted = [name.upper() for name in options.rules] or list(known)
    for name in wanted:
        if name not in known:
            raise RunciError(f"no rule {name!r}{nearest(name, known)} (`runci rule --all`)")
    chosen = [known[name] for name in wanted]
    render = as_markdown if options.format == "markdown" else as_text
    _write(render(chosen, whole=options.all))
    return Exit.OK


def schema(_options: Namespace) -> int:
    """`runci schema`: the JSON Schema of suites.yml."""
    from runci.schema import schema_text

    _write(schema_text())
    return Exit.OK


def tree_options(options: Namespace) -> linting.Options:
    """What to read of a repository, for the options that name one."""
    from runci import lint as linting
    from runci.cache import default_folder
    from runci.reading import processors
    from runci.rules import choose

    root = find_root(options.root, options.config)
    known = getattr(options, "baseline", None)
    return linting.Options(
        root=root,
        config=Path(options.config) if options.config else root / CONFIG,
        cwd=Path.cwd(),
        active=choose(getattr(options, "select", ()), getattr(options, "ignore", ())),
        paths=tuple(options.paths),
        baseline=Path(known) if known else None,
        cache_folder=None if options.no_cache else Path(options.cache_dir or default_folder()),
        jobs=options.jobs or processors(),
    )


def find_root(given: str | None, config: str | None = None) -> Path:
    """The repository: as given, else upwards from here the first with a taxonomy or a `.git`."""
    if given is not None:
        root = Path(given)
        if not root.is_dir():
            raise RunciError(f"--root {given}: no such folder")
        return root
    here = Path.cwd()
    above = (here, *here.parents)
    if config is None:
        for folder in above:
            if (folder / CONFIG).is_file():
                return folder
    return next((folder for folder in above if (folder / ".git").exists()), here)


def _filter(options: Namespace) -> Filter:
    from runci.collect import Filter

    return Filter(
        backend=_choice(Backend, "--backend", options.backend),
        suite=options.suite,
        kind=_choice(Kind, "--kind", options.kind),
        disabled=options.disabled,
    )


def _choice(of: type[_Choice], option: str, given: str | None) -> _Choice | None:
    from runci.rules.base import nearest

    names = [member.value for member in of]
    if given is None or given in names:
        return None if given is None else of(given)
    raise RunciError(f"{option} {given}: choose one of {', '.join(names)}{nearest(given, names)}")


def report(
    options: Namespace,
    findings: Sequence[Finding],
    summary: Summary,
    rules: Mapping[str, RuleInfo],
    root: Path,
) -> None:
    """Write a report in the format that was asked for."""
    from runci.lines import LineReader
    from runci.report import ReportContext, render
    from runci.report.terminal import use_color

    color = {"always": True, "never": False}.get(options.color)
    context = ReportContext(
        read_lines=LineReader(root),
        rules=rules,
        color=use_color(sys.stdout, os.environ) if color is None else color,
        width=terminal_width(),
        root=_shown_root(root),
        command=f"runci {options.command}",
    )
    _write(render(options.format or "text", findings, summary, context))


def _shown_root(root: Path) -> str:
    """The root as whoever opens the paths of a report sees it: from here, or from the checkout.

    GitHub resolves annotations from the checkout, whatever the working folder of the step is.
    """
    checkout = os.environ.get("GITHUB_WORKSPACE", "")
    if checkout and root.resolve().is_relative_to(Path(checkout).resolve()):
        return root.resolve().relative_to(Path(checkout).resolve()).as_posix()
    try:
        return Path(os.path.relpath(root)).as_posix()
    except ValueError:  # another drive
        return root.absolute().as_posix()


def terminal_width() -> int:
    """Columns of the terminal; never so few that nothing can be said."""
    return max(shutil.get_terminal_size().columns, 40)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"runci: {text}\n")

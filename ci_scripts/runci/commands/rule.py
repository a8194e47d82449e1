"""`runci rule` and `runci schema`: what the lint knows, printed."""

from __future__ import annotations

from argparse import Namespace

from runci.commands.shared import write
from runci.errors import Exit, RunciError
from runci.finding import RuleInfo


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
    write(render(chosen, whole=options.all))
    return Exit.OK


def schema(_options: Namespace) -> int:
    """`runci schema`: the JSON Schema of suites.yml."""
    from runci.suites.schema import schema_text

    write(schema_text())
    return Exit.OK

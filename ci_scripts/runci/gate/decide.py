"""The run-ci gate: may this run use the GPUs? Pure; the first rule that matches decides.

`RULES` is the decision table, and the README shows it as `runci gate --table` prints it. A rule
that needs a fact which is not known denies, so that a forgotten fact is a safe one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runci.config.gate import Labels
from runci.gate import rules as test
from runci.gate.request import Decision, GateRequest, Outcome
from runci.gate.rules import PROTECTED, UnknownFactError, needed_labels

_ALLOW, _DENY, _IGNORE = Outcome.ALLOW, Outcome.DENY, Outcome.IGNORE


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `test` gives the reason when the row matches, else None."""

    name: str
    outcome: Outcome
    when: str
    remedy: str
    test: Callable[[GateRequest], str | None]


RULES = (
    Rule(
        "unknown",
        _DENY,
        "anything the decision needs is unknown: an API error, a slow or truncated answer, a "
        "missing field, a file of settings that cannot be read",
        "Run the job again; when it stays, mend what the reason names.",
        test.unknown,
    ),
    Rule(
        "event",
        _DENY,
        "the event is none of schedule, push, workflow_dispatch, pull_request, merge_group",
        "Start GPU jobs from one of these events.",
        test.other_event,
    ),
    Rule(
        "other-label",
        _IGNORE,
        "a label was put on or taken off that is none of this workflow's",
        "Nothing to do: this run neither starts nor stops anything.",
        test.other_label,
    ),
    Rule(
        "other-edit",
        _IGNORE,
        "the title or the text was edited, and the base branch was not",
        "Nothing to do: this run neither starts nor stops anything.",
        test.other_edit,
    ),
    Rule(
        "re-run",
        _DENY,
        "attempt 2 or later, started by somebody without write access (for a pull request an "
        "entry in ci-permissions.yml will do, and the workflow's own token adds nothing)",
        "Ask somebody with write access to run it again.",
        test.rerun,
    ),
    Rule(
        "other-ref",
        _DENY,
        "schedule, push or workflow_dispatch in a fork or on another ref than the default branch; "
        "merge_group in a fork",
        "Run it from the default branch; a branch's commit is tested through its pull request.",
        test.other_ref,
    ),
    Rule(
        "default-branch",
        _ALLOW,
        "schedule, or push to the default branch",
        "",
        test.trusted,
    ),
    Rule(
        "other-queue",
        _DENY,
        "merge_group where ci-permissions.yml does not say `merge_queue: allow`, CI is paused, the "
        "queue is not the default branch's, or its ref does not point to the run's commit now",
        "Let somebody with maintain or admin allow the queue, or merge without it.",
        test.other_queue,
    ),
    Rule(
        "queued",
        _ALLOW,
        "merge_group",
        "",
        test.queued,
    ),
    Rule(
        "dispatcher",
        _DENY,
        "workflow_dispatch by somebody without write access (by the workflow's own token: "
        "whoever wrote the command, unedited, that it carries out)",
        "Ask somebody with write access to start it.",
        test.dispatcher,
    ),
    Rule(
        "dispatched",
        _ALLOW,
        "workflow_dispatch on the default branch, for the default branch; for a pull request's "
        "commit the rows below apply too",
        "",
        test.dispatched,
    ),
    Rule(
        "closed",
        _DENY,
        "the pull request is closed or merged",
        "Reopen the pull request if it still needs a test.",
        test.closed,
    ),
    Rule(
        "superseded",
        _DENY,
        "the run's commit is not the live head, its merge commit is not one of that head into a "
        "commit of the base branch, or the base branch was changed",
        "Look at the newest run; where there is none, take {labels} off and put it on again.",
        test.superseded,
    ),
    Rule(
        "draft",
        _DENY,
        "the pull request is a draft",
        "Press «Ready for review».",
        test.draft,
    ),
    Rule(
        "paused",
        _DENY,
        "ci-status.yml says paused, and bypass-maintenance is not on, or was put on by somebody "
        "without maintain or admin",
        "Wait, then run it again; somebody with maintain or admin may put on "
        "`{bypass}` before the re-run.",
        test.paused,
    ),
    Rule(
        "old-base",
        _DENY,
        "the head does not contain min_base_sha of ci-status.yml, and it is not bypassed as above",
        "Merge or rebase onto the base branch and push.",
        test.old_base,
    ),
    Rule(
        "label-missing",
        _DENY,
        "run-ci (for Extra also run-ci-extra) is not on the live pull request",
        "A maintainer who has read the commit puts on {labels}.",
        test.label_missing,
    ),
    Rule(
        "protected",
        _DENY,
        "it changes protected paths, from a fork or by an author without write access, and no "
        "grant for this commit comes from somebody with maintain or admin",
        "Somebody with maintain or admin reads the change and comments `/run-ci` with the full "
        "commit, or leave these files alone.",
        test.protected,
    ),
    Rule(
        "cooldown",
        _DENY,
        "somebody whose only authority is an entry in ci-permissions.yml used a GPU less than "
        "their cooldown ago",
        "Wait, or ask somebody with write access for a grant.",
        test.cooldown,
    ),
    Rule(
        "author",
        _ALLOW,
        "the branch is in this repository and its author has write access, or an entry in "
        "ci-permissions.yml",
        "",
        test.author,
    ),
    Rule(
        "granted",
        _ALLOW,
        "a grant for exactly this commit: this event is the label, put on (last, too) by somebody "
        "with write access who is neither the author nor a bot; or such a person's unedited "
        "comment `/run-ci FULL_SHA`; or, for another event than a push, the label is still on and "
        "GitHub's lists show beyond doubt that such a person put it on for this commit",
        "",
        test.granted,
    ),
    Rule(
        "label-unclear",
        _DENY,
        "the label is on, put on by such a person, but maybe for another commit",
        "Somebody with write access who has read this commit comments `/run-ci` with the full "
        "commit, or takes {labels} off and puts it on again.",
        test.label_unclear,
    ),
    Rule(
        "no-grant",
        _DENY,
        "anything else",
        "A maintainer who has read this commit takes {labels} off and puts it on again, or "
        "comments `/run-ci` with the full commit. A push after that needs a new grant.",
        test.otherwise,
    ),
)


def decide(request: GateRequest, rules: tuple[Rule, ...] = RULES) -> Decision:
    """The first rule that matches; what is needed and not known denies."""
    for rule in rules:
        try:
            reason = rule.test(request)
        except UnknownFactError as error:
            return denied(f"not known: {error}")
        if reason is not None:
            remedy, lifts = _with_names(rule.remedy, request), _lifts_fastfail(request)
            return Decision(rule.outcome, rule.name, reason, remedy, lifts)
    return denied("not known: no rule matches")


def _lifts_fastfail(request: GateRequest) -> bool:
    pull, labels = request.pull, request.labels
    return bool(pull and labels and labels.bypass_fastfail in (pull.labels or ()))


def _with_names(remedy: str, request: GateRequest) -> str:
    """A remedy with the labels as they are called here, as far as that is known by then."""
    try:
        needed = " and ".join(f"`{name}`" for name in needed_labels(request))
    except UnknownFactError:
        needed = "the label"
    bypass = (request.labels or Labels()).bypass_maintenance
    return remedy.format(labels=needed, bypass=bypass)


def denied(reason: str) -> Decision:
    """The answer when something is not known."""
    return Decision(Outcome.DENY, RULES[0].name, reason, RULES[0].remedy)


def table() -> str:
    """The decision table as Markdown, one row a rule."""
    lines = [
        "| # | rule | when | answer | what to do |",
        "|---|---|---|---|---|",
    ]
    for number, rule in enumerate(RULES, 1):
        remedy = _with_names(rule.remedy, GateRequest())
        lines.append(
            f"| {number} | `{rule.name}` | {rule.when} | {rule.outcome.value} | {remedy} |"
        )
    paths = ", ".join(f"`{glob}`" for glob in PROTECTED)
    more = "and the globs under `protected` in ci-permissions.yml"
    where = (
        "A name without a slash counts in every folder; so does each link or submodule that is "
        "added or changed."
    )
    names = "The labels have their default names here; `labels` in ci-permissions.yml gives others."
    lines += ["", f"Protected paths: {paths}; {more}. {where}", "", names]
    return "\n".join(lines) + "\n"

"""The report of a serving comparison, from what its boots left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from sm120_ba.validate.report import Failure, Report, Table
from sm120_ba.validate.serving import figures
from sm120_ba.validate.serving.figures import METRICS, Comparison, Group
from sm120_ba.validate.serving.manifest import Plan
from sm120_ba.validate.serving.outputs import Outputs, compare_outputs
from sm120_ba.validate.serving.records import WARM_UP, Boot, Request

Found = Mapping[str, tuple[Boot, tuple[Request, ...]]]


@dataclass(frozen=True)
class Compared:
    """All that is computed of the boots, for tables, notes and the picture."""

    groups: tuple[Group, ...]
    comparisons: tuple[Comparison, ...]
    outputs: tuple[Outputs, ...]
    failures: tuple[Failure, ...]


def compared(plan: Plan, found: Found) -> Compared:
    """Compute it; a run with a failure of a boot or a request keeps its figures."""
    groups = [one for boot, requests in found.values() for one in figures.groups(boot, requests)]
    comparisons = figures.compare(groups, plan.manifest.margin)
    greedy = plan.manifest.load.temperature == 0
    answers = {name: requests for name, (_, requests) in found.items()}
    return Compared(
        tuple(groups),
        tuple(comparisons),
        tuple(compare_outputs(answers)) if greedy else (),
        tuple(_run_failures(plan, found)),
    )


def report(plan: Plan, found: Found, broken: Sequence[str], machine: Mapping[str, str]) -> Report:
    """Everything that was found; `broken` are the folders of boots that were not finished."""
    of = compared(plan, found)
    slower = () if of.failures else tuple(_slower(of))
    return Report(
        command="serve",
        compared=sum(group.requests - group.failed for group in of.groups),
        settings=_settings(plan),
        tables=_tables(plan, found, of),
        failures=(*of.failures, *_flips(of.outputs), *slower),
        notes=tuple(_notes(plan, found, of, broken)),
        details={
            "groups": [asdict(group) | {"tokens_per_s": group.tokens_per_s} for group in of.groups],
            "comparisons": [asdict(one) for one in of.comparisons],
            "outputs": [asdict(one) for one in of.outputs],
            "broken": list(broken),
        },
        machine=machine,
    )


def _run_failures(plan: Plan, found: Found) -> Iterator[Failure]:
    wanted = _wanted(plan)
    for name in plan.manifest.boots:
        if name not in found:
            yield Failure(name, "was not run; `--resume` goes on with it")
            continue
        boot, requests = found[name]
        yield from (Failure(name, what) for what in boot.failures)
        for one in requests:
            if one.error is not None:
                yield Failure(f"{name}, {_at(one.concurrency)}, request {one.index}", one.error)
        lacking = wanted - Counter((one.concurrency, one.index) for one in requests)
        if lacking or len(requests) != wanted.total():
            kept = wanted.total() - lacking.total()
            text = f"{kept} of {wanted.total()} requests, with the warm-up, are recorded"
            twice = len(requests) - kept
            yield Failure(name, text + (f", and {twice} twice or unasked" if twice else ""))


def _wanted(plan: Plan) -> Counter[tuple[int, int]]:
    """The concurrency and index of each request of a boot."""
    load = plan.manifest.load
    prefixes = {prompt[: load.warm_up_prefix] for prompt in plan.prompts}
    warm_up = range(len(prefixes) if load.warm_up_prefix else 0)
    return Counter(
        [(WARM_UP, i) for i in warm_up]
        + [(c, i) for c in load.concurrencies for i in range(load.requests)]
    )


def _slower(of: Compared) -> Iterator[Failure]:
    for one in of.comparisons:
        better = METRICS[one.metric][1]
        if one.verdict == (figures.LOWER if better else figures.HIGHER):
            yield Failure(_at(one.concurrency), f"{one.metric}: {_difference(one)}")


def _flips(outputs: Sequence[Outputs]) -> Iterator[Failure]:
    """Where A repeats itself everywhere, B must, too; where it does not, a flip must be stable."""
    a_repeats = not any(one.a_varies for one in outputs)
    for flip in (flip for one in outputs for flip in one.flips):
        if flip.stable or a_repeats:
            yield Failure(
                f"{_at(flip.concurrency)}, request {flip.index}",
                f"B's tokens differ from A's, first the one at {flip.position}: "
                f"{flip.b} in place of {flip.a}"
                + ("" if flip.stable else "; not in every boot of B"),
            )


def _at(concurrency: int) -> str:
    return "warm-up" if concurrency == WARM_UP else f"{concurrency} at once"


def _settings(plan: Plan) -> dict[str, object]:
    manifest, load = plan.manifest, plan.manifest.load
    values = [arm.environment.get(plan.variable, "not set") for arm in (manifest.a, manifest.b)]
    return {
        "command": " ".join(manifest.a.command),
        "A": f"{plan.variable}={values[0]}",
        "B": f"{plan.variable}={values[1]}",
        "boots": " ".join(manifest.boots),
        "endpoint": manifest.endpoint,
        "prompts": f"{len(plan.prompts)}, SHA-256 {plan.prompts_sha256}",
        "prompt tokens": f"{min(map(len, plan.prompts))} to {max(map(len, plan.prompts))}",
        "warm-up prefix": load.warm_up_prefix,
        "output tokens": load.output_tokens,
        "temperature": load.temperature,
        "requests a group": load.requests,
        "concurrencies": " ".join(map(str, load.concurrencies)),
        "margin": manifest.margin,
        "manifest": f"SHA-256 {plan.sha256}",
    }


def _tables(plan: Plan, found: Found, of: Compared) -> tuple[Table, ...]:
    return (
        Table(
            f"B against A ({plan.variable})",
            ("at once", "metric", "each pair", "mean", "over pairs", "interval", "A by itself", ""),
            tuple(_comparison_row(one, judged=not of.failures) for one in of.comparisons),
        ),
        Table(
            "Arms: means over their boots",
            ("arm", "at once", "output tokens/s", "TTFT P50 ms", "TTFT P90 ms", "cached %"),
            tuple(_arm_rows(of.groups)),
        ),
        Table(
            "Groups of each boot",
            (
                *("boot", "at once", "requests", "failed", "output tokens/s"),
                *("TTFT P50 ms", "TTFT P90 ms", "cached %", "most at once, sampled"),
            ),
            tuple(
                (g.boot, g.concurrency, g.requests, g.failed, *_cells(g), _or(g.running_peak))
                for g in of.groups
            ),
        ),
        Table(
            "Answers, token by token",
            ("at once", "equal in all boots", "differ within A", "differ in B only", "unknown"),
            tuple(
                (o.concurrency, o.equal, o.a_varies, len(o.flips), o.not_compared)
                for o in of.outputs
            ),
        ),
        Table(
            "Boots",
            ("boot", "started", "healthy after s", "failures", "killed after SIGTERM"),
            tuple(
                (
                    *(boot.name, boot.started, _or(boot.healthy_after_s)),
                    *(len(boot.failures), ", ".join(boot.killed) or "none"),
                )
                for boot, _ in found.values()
            ),
        ),
    )


def _comparison_row(one: Comparison, *, judged: bool) -> tuple[object, ...]:
    return (
        one.concurrency,
        one.metric,
        ", ".join(map(_percent, one.pairs)),
        _percent(one.mean),
        _span(one.bootstrap),
        "none" if one.interval is None else _span(one.interval),
        f"±{100 * one.null:.3g} %",
        one.verdict if judged else "not judged: the run failed",
    )


def _arm_rows(groups: Sequence[Group]) -> Iterator[tuple[object, ...]]:
    for concurrency in dict.fromkeys(group.concurrency for group in groups):
        for arm in "AB":
            cells = [
                _cells(group)
                for group in groups
                if group.concurrency == concurrency and group.boot[0] == arm
            ]
            if cells:
                yield (arm, concurrency, *map(_mean, zip(*cells, strict=True)))


def _cells(group: Group) -> tuple[float | str, ...]:
    """Tokens a second, TTFT P50 and P90 in ms, and the cached share in percent."""
    values = (
        group.tokens_per_s,
        None if group.ttft_p50_s is None else 1000 * group.ttft_p50_s,
        None if group.ttft_p90_s is None else 1000 * group.ttft_p90_s,
        None if group.cached is None else 100 * group.cached,
    )
    return tuple(map(_or, values))


def _mean(values: Sequence[float | str]) -> float | str:
    numbers = [value for value in values if not isinstance(value, str)]
    return fmean(numbers) if len(numbers) == len(values) else "unknown"


def _notes(plan: Plan, found: Found, of: Compared, broken: Sequence[str]) -> Iterator[str]:
    yield from _claims(of, plan.manifest.margin)
    yield from _reading(of, len(plan.manifest.boots) // 2, plan.manifest.margin)
    for group in of.groups:
        if group.running_peak is not None and group.running_peak < group.concurrency:
            yield (
                f"Warning: {group.boot} was asked {group.concurrency} requests at once, and at "
                f"most {group.running_peak} were seen to run: the server may queue them, or renew "
                "its figure too seldom for a sample to see it."
            )
    silent = [group.boot for group in of.groups if group.running_peak is None]
    if silent and plan.manifest.metrics:
        yield (
            f"How many requests ran at once is unknown in {', '.join(dict.fromkeys(silent))}: "
            f"{plan.manifest.metrics} gave no number (SGLang needs --enable-metrics)."
        )
    for boot, _ in found.values():
        if boot.killed:
            yield (
                f"Warning: {', '.join(boot.killed)} of {boot.name} outlived SIGTERM by "
                f"{plan.manifest.timeouts.stop:g} s and had to be killed."
            )
    load = plan.manifest.load
    if load.requests * len(load.concurrencies) > len(plan.prompts):
        yield (
            f"There are fewer prompts ({len(plan.prompts)}) than requests of a boot, so that later "
            "groups ask again what earlier ones asked, and may find it cached."
        )
    if broken:
        yield (
            f"Boots that were interrupted and run anew, whose requests are in no figure here: "
            f"{', '.join(broken)}."
        )


def _claims(of: Compared, margin: float) -> Iterator[str]:
    if of.failures:
        yield "Nothing may be claimed of A and B: boots or requests failed, see above."
        return
    shown = {figures.HIGHER, figures.LOWER}
    differing = [one for one in of.comparisons if one.verdict in shown]
    for one in differing:
        yield f"May be claimed: {_at(one.concurrency)}, {one.metric}: {_difference(one)}."
    within = [one for one in of.comparisons if one.verdict == figures.WITHIN]
    if within:
        named = "; ".join(f"{one.metric}, {_at(one.concurrency)}" for one in within)
        yield f"May be claimed: no difference of more than {100 * margin:g} % in: {named}."
    undecided = [one for one in of.comparisons if one.verdict == figures.UNDECIDED]
    if undecided:
        named = "; ".join(f"{one.metric}, {_at(one.concurrency)}" for one in undecided)
        yield (
            f"May not be claimed, neither a difference nor that there is none: {named}. The boots "
            "vary too much, or are too few, for this margin."
        )
    if not of.outputs:
        yield "Nothing may be claimed of the answers: they were sampled, not greedy."
    elif any(one.not_compared for one in of.outputs):
        yield "Of answers without token ids it is unknown whether they are equal."


def _reading(of: Compared, pairs: int, margin: float) -> Iterator[str]:
    """How the table of differences is to be read."""
    if not of.comparisons:
        return
    at_best = 100 * (1 - 0.5 ** (pairs - 1))
    yield (
        f"How to read «B against A»: each pair is B / A - 1 of two boots. «Over pairs» is the "
        f"bootstrap interval of the mean over {pairs} pair{'s' * (pairs > 1)}"
        + (
            f"; with so few it is the range of the pairs, which covers their median in "
            f"{at_best:g} % of runs, not in 95 %, and decides nothing. "
            if pairs <= 3
            else ". "
        )
        + f"«Interval» is Student's t over the pairs at {100 * (1 - figures.ERROR):g} % for all "
        f"{len(of.comparisons)} rows together, for logarithms that are about normal; it decides "
        f"against the margin of {100 * margin:g} % that was set before the run. «A by itself» is "
        "the largest difference of two boots of A: a smaller one of the arms is not claimed. "
        "Requests of one boot are no independent samples, so there is no interval over them."
    )
    yield (
        "It holds for this machine, these commands, prompts and concurrencies. It does not say "
        "why, nor which layer."
    )


def _difference(one: Comparison) -> str:
    interval = "" if one.interval is None else f" (interval {_span(one.interval)})"
    return f"{one.verdict} by {100 * abs(one.mean):.3g} %{interval}"


def _percent(share: float) -> str:
    # A noisy interval ends far away, where a factor is easier to read.
    return f"{100 * share:+.3g} %" if -0.9 < share < 9 else f"x {1 + share:.3g}"


def _span(ends: tuple[float, float]) -> str:
    return f"{_percent(ends[0])} to {_percent(ends[1])}"


def _or(value: float | None) -> float | str:
    return "unknown" if value is None else value

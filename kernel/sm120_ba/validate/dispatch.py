"""Which layers took the kernel, at which M, eagerly and in CUDA graphs, against what was expected.

In a process the model is called; of a server the files are read that SM120_BA_STATS_DIR has.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from sm120_ba import dispatch, layers_seen
from sm120_ba.config import Mode
from sm120_ba.graph_audit import BA_KERNEL
from sm120_ba.huggingface import flattened_linear
from sm120_ba.reasons import Reason
from sm120_ba.shapes import ALLOWLIST, M_MIN, WHOLE
from sm120_ba.validate import calls as model_calls
from sm120_ba.validate import models
from sm120_ba.validate.calls import Calls, Layers
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.implementations import driven_by, implementation
from sm120_ba.validate.ranks import gathered, world
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine

KERNEL = "kernel"
LINEAR = "F.linear"  # in a file of expectations: whatever the reason
BASELINE, CANDIDATE = "baseline", "candidate"


@dataclass(frozen=True, order=True)
class Site:
    """Calls of one layer with M rows, eager ones or those that a CUDA graph holds."""

    layer: str
    m: int
    captured: bool

    @property
    def where(self) -> str:
        """`graph` or `eager`."""
        return "graph" if self.captured else "eager"


@dataclass(frozen=True)
class Graph:
    """A captured graph: the M and arm it was captured with, and its kernel nodes by name."""

    m: int
    arm: str
    nodes: Mapping[str, int]


@dataclass(frozen=True)
class Seen:
    """What one rank did and was expected to do: `kernel`, or the name of the reason against it.

    Where a site's calls were not all answered alike, the answers are joined by `+`; `calls` counts
    them, each of a graph once.
    """

    rank: int
    answers: Mapping[Site, str]
    expected: Mapping[Site, str]
    calls: Mapping[Site, int]
    graphs: tuple[Graph, ...] = ()
    baseline_calls: int = 0
    forced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Weight:
    """What of a layer decides whether a call may take the kernel."""

    size: tuple[int, ...]
    dtype: str = "torch.bfloat16"
    bias: bool = False
    requires_grad: bool = False


Expect = Callable[[str, int], str]


def expected_answer(
    weight: Weight, m: int, mode: Mode, refusal: Reason | None, proved: Mapping[int, str | None]
) -> str:
    """`kernel` where M was proved for the weight's shape on the device, else the reason.

    `refusal` is the device's; `proved` has what refused each M that was proved, None where nothing
    did. The order of the reasons is that of the guards.
    """
    coverage = WHOLE if mode is Mode.PROVED else ALLOWLIST
    n, k = weight.size
    if weight.bias:
        return Reason.BIAS.name
    if refusal is not None:
        return refusal.name
    if weight.dtype != "torch.bfloat16":
        return Reason.DTYPE.name
    if not M_MIN <= m <= coverage.m_max:
        return Reason.ROWS.name
    if k not in coverage.widths:
        return Reason.COLUMNS.name
    if weight.requires_grad:
        return Reason.REQUIRES_GRAD.name
    shape = coverage.by_size.get((n, k))
    if shape is None:
        return Reason.WEIGHT_SHAPE.name
    if m not in shape.rows:
        return Reason.ROWS.name
    return proved.get(m, Reason.NOT_PROVED.name) or KERNEL


def rows_proved(proofs: Iterable[Mapping[str, Any]], size: Sequence[int]) -> dict[int, str | None]:
    """What refused each M of an N x K, from the list that `sm120_ba.proof()["proofs"]` is."""
    found: dict[int, str | None] = {}
    for proof in proofs:
        if proof["shape"] == " x ".join(map(str, size)):
            found |= {int(m): row["refused"] for m, row in proof["rows"].items()}
    return found


def read_expectations(path: Path) -> Expect:
    """A file such as {"*.in_proj_ba": {"1": "ROWS", "2-8": "kernel", "9": "F.linear"}}.

    The first glob that matches a layer decides, and says something of every M. Raises UsageError.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
        table = {
            glob: {m: _answer(text) for span, text in one.items() for m in model_calls.rows(span)}
            for glob, one in found.items()
        }
    except (OSError, ValueError, AttributeError, argparse.ArgumentTypeError) as error:
        raise UsageError(
            f"--expect {path}: {error}; it has an object of M by glob, such as "
            '{"*.in_proj_ba": {"1": "ROWS", "2-8": "kernel"}}'
        ) from None

    def expect(layer: str, m: int) -> str:
        rows = next((rows for glob, rows in table.items() if fnmatchcase(layer, glob)), {})
        return rows.get(m, f"{path.name} says nothing of it")

    return expect


def _answer(text: object) -> str:
    if text not in (KERNEL, LINEAR, *Reason.__members__):
        raise ValueError(f"{text!r} is neither {KERNEL}, {LINEAR} nor the name of a reason")
    return str(text)


def judge(ranks: Sequence[Seen]) -> tuple[Failure, ...]:
    """Every difference: from what was expected, among ranks, in the graphs, in the baseline."""
    failures = []
    for site in sorted({site for seen in ranks for site in (*seen.answers, *seen.expected)}):
        where = f"{site.layer}, M={site.m}, {site.where}"
        for seen in ranks:
            answer, wanted = seen.answers.get(site), seen.expected.get(site)
            if (answer or wanted) and not _fits(answer, wanted):
                failures.append(Failure(f"rank {seen.rank}: {where}", _told(answer, wanted)))
        if len({seen.answers.get(site) for seen in ranks}) > 1:
            each = (f"rank {seen.rank}: {seen.answers.get(site) or 'no call'}" for seen in ranks)
            failures.append(Failure(where, f"the ranks differ: {'; '.join(each)}"))
    return (*failures, *(one for seen in ranks for one in _graph_failures(seen)))


def _fits(answer: str | None, wanted: str | None) -> bool:
    if answer is None or wanted is None:
        return False
    if wanted == LINEAR:
        return Reason.__members__.keys() >= {*answer.split("+")}
    return answer == wanted


def _told(answer: str | None, wanted: str | None) -> str:
    return f"expected {wanted or 'nothing'}, found {answer or 'no call'}"


def _graph_failures(seen: Seen) -> Iterable[Failure]:
    """Nodes of the kernel: none for the baseline, else one for each call that was to take it."""
    if seen.baseline_calls:
        yield Failure(f"rank {seen.rank}: baseline", f"{seen.baseline_calls} calls took the kernel")
    for graph in seen.graphs:
        wanted = nodes_wanted(seen, graph)
        found = graph.nodes.get(BA_KERNEL, 0)
        if found != wanted:
            where = f"rank {seen.rank}: graph of M={graph.m}, {graph.arm}"
            yield Failure(where, f"expected {wanted} nodes of {BA_KERNEL}, found {found}")


def nodes_wanted(seen: Seen, graph: Graph) -> int:
    """How many nodes of the kernel that graph should have: one for each call that was captured."""
    if graph.arm == BASELINE:
        return 0
    return sum(
        seen.calls.get(site, 0)
        for site, wanted in seen.expected.items()
        if wanted == KERNEL and site.captured and site.m == graph.m
    )


def report_of(
    ranks: Sequence[Seen], settings: Mapping[str, Any], notes: Sequence[str], device: str
) -> Report:
    """The report of all ranks; `compared` is the number of sites with a call."""
    forced = sorted({text for seen in ranks for text in seen.forced})
    if forced:
        notes = (
            f"Bits may differ: force=True took the kernel at {', '.join(forced)}, which the proof "
            "refuses there. Nothing here says that results are those of F.linear.",
            *notes,
        )
    return Report(
        "dispatch",
        sum(len(seen.answers) for seen in ranks),
        {**settings, "force": bool(forced)},
        tables=(_sites(ranks), *_graphs(ranks)),
        failures=judge(ranks),
        notes=tuple(notes),
        details={"ranks": [_as_json(seen) for seen in ranks]},
        machine=machine(device),
    )


def _sites(ranks: Sequence[Seen]) -> Table:
    """One row for the layers that are alike, under the first of them."""
    alike: dict[tuple[str, ...], dict[tuple[int, bool], list[str]]] = {}
    for site in sorted({site for seen in ranks for site in (*seen.answers, *seen.expected)}):
        wanted = sorted({seen.expected.get(site, "nothing") for seen in ranks})
        cells = (" or ".join(wanted), *(seen.answers.get(site, "no call") for seen in ranks))
        alike.setdefault(cells, {}).setdefault((site.m, site.captured), []).append(site.layer)
    rows = [
        (m, "graph" if captured else "eager", _some(layers), *cells)
        for cells, places in alike.items()
        for (m, captured), layers in places.items()
    ]
    columns = ("M", "where", "layers", "expected", *(f"rank {seen.rank}" for seen in ranks))
    return Table("Layers", columns, tuple(sorted(rows)))


def _some(layers: Sequence[str]) -> str:
    return layers[0] + (f" and {len(layers) - 1} more" if len(layers) > 1 else "")


def _graphs(ranks: Sequence[Seen]) -> tuple[Table, ...]:
    rows = tuple(
        (
            seen.rank,
            graph.m,
            graph.arm,
            nodes_wanted(seen, graph),
            graph.nodes.get(BA_KERNEL, 0),
            sum(graph.nodes.values()),
        )
        for seen in ranks
        for graph in seen.graphs
    )
    columns = ("rank", "M", "arm", "nodes expected", f"nodes of {BA_KERNEL}", "kernel nodes in all")
    return (Table("Graphs", columns, rows),) if rows else ()


def _as_json(seen: Seen) -> dict[str, Any]:
    sites = sorted({*seen.answers, *seen.expected})
    return {
        "rank": seen.rank,
        "sites": [
            {
                **asdict(site),
                "expected": seen.expected.get(site),
                "answer": seen.answers.get(site),
                "calls": seen.calls.get(site, 0),
            }
            for site in sites
        ],
        "graphs": [asdict(graph) for graph in seen.graphs],
        "baseline_calls": seen.baseline_calls,
        "forced": list(seen.forced),
    }


class _Watch:
    """Calls the dispatcher for each layer, and notes from its counts what it did."""

    def __init__(self) -> None:
        self.calls: Counter[Site] = Counter()
        self._found: dict[Site, set[str]] = {}

    def linear(self, name: str, _layer: torch.nn.Linear) -> Any:
        """The layer's function of x, weight and bias."""

        def call(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
            before = dispatch.stats()
            y = flattened_linear(x, weight, bias)
            site = Site(name, x.numel() // x.shape[-1], layers_seen.is_capturing())
            self.calls[site] += 1
            self._found.setdefault(site, set()).add(_answered(before, dispatch.stats()))
            return y

        return call

    def answers(self) -> dict[Site, str]:
        """Each site with its answer."""
        return {site: "+".join(sorted(found)) for site, found in self._found.items()}


def _answered(before: dispatch.Stats, after: dispatch.Stats) -> str:
    if after.fast > before.fast:
        return KERNEL
    grown = [r for r, n in after.fallback.items() if n > before.fallback.get(r, 0)]
    return grown[0].name if grown else "not counted"


def observe(
    model: torch.nn.Module,
    layers: Layers,
    calls: Calls,
    *,
    mode: str = "1",
    force: bool = False,
    expect: Expect | None = None,
    rank: int = 0,
) -> Seen:
    """Warm up, call the model in both arms, and note what each layer did.

    Without `expect` the expectation comes from the device and from what warm-up proved there. With
    `force` the kernel is taken where a proof refuses it, see `sm120_ba.warmup`. Raises UsageError.
    """
    sizes = sorted({tuple(layer.weight.shape) for layer in layers.values()})
    device = next(iter(layers.values())).weight.device
    dispatch.warmup(device, shapes=sizes, rows=calls.rows, mode=mode, force=force)
    before, plain = dispatch.stats().fast, implementation("torch").linear
    with driven_by(layers, lambda _name, _layer: plain):
        baseline = model_calls.make(model, layers, calls)
    baseline_calls = dispatch.stats().fast - before
    watch = _Watch()
    with driven_by(layers, watch.linear):
        candidate = model_calls.make(model, layers, calls)
    expect = expect or _derived(layers, Mode(mode))
    arms = {BASELINE: baseline, CANDIDATE: candidate}
    return Seen(
        rank,
        watch.answers(),
        {
            Site(name, m, captured): expect(name, m)
            for name in layers
            for m in calls.rows
            for captured in ((False, True) if candidate else (False,))
        },
        dict(watch.calls),
        tuple(
            Graph(m, arm, dict(names)) for arm, found in arms.items() for m, names in found.items()
        ),
        baseline_calls,
        _forced_in(dispatch.proof()["proofs"]),
    )


def _derived(layers: Layers, asked: Mode) -> Expect:
    proofs = dispatch.proof()["proofs"]

    def expect(name: str, m: int) -> str:
        layer = layers[name]
        # Once a process has warmed up with mode=proved, that stays.
        whole = len(dispatch.DEFAULT.sizes(layer.weight.device)) > len(ALLOWLIST.by_size)
        mode = Mode.PROVED if whole else asked
        size = tuple(layer.weight.shape)
        kind = Weight(
            size, str(layer.weight.dtype), layer.bias is not None, layer.weight.requires_grad
        )
        refusal = dispatch.DEFAULT.refusal(layer.weight.device)
        return expected_answer(kind, m, mode, refusal, rows_proved(proofs, size))

    return expect


def _forced_in(proofs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The shapes and M that calls take against the proof, with what it says."""
    return tuple(
        f"{proof['shape']}, M={m} ({row['forced']})"
        for proof in proofs
        for m, row in proof["rows"].items()
        if row["forced"]
    )


def audit(
    model: torch.nn.Module,
    rows: Iterable[int] = (1, 2, 4, 8),
    *,
    layers: Sequence[str] | None = None,
    mode: str = "1",
    force: bool = False,
    graph: str = "layers",
    expect: Expect | None = None,
) -> Report:
    """Audit a model of this process, which stays as it is; arguments as `Calls` and `observe`.

    Only here, in Python, can `force` be given: its report says that bits may differ.
    """
    chosen = model_calls.chosen(model, layers)
    calls = Calls(tuple(rows), graph=graph)
    seen = observe(model, chosen, calls, mode=mode, force=force, expect=expect)
    device = str(next(iter(chosen.values())).weight.device)
    settings = {"rows": list(calls.rows), "mode": mode, "graph": graph}
    return report_of([seen], settings, _notes([seen], device), device)


def _notes(ranks: Sequence[Seen], device: str) -> list[str]:
    """What the audit does and does not say."""
    answers = [answer for seen in ranks for answer in seen.answers.values()]
    notes = []
    if KERNEL not in answers:
        reasons = sorted(set(answers))
        notes.append(f"No call took the kernel; the reasons: {', '.join(reasons) or 'no call'}.")
    if not device.startswith("cuda"):
        notes.append(f"Only eager calls were audited: there are no CUDA graphs on {device}.")
    elif not any(seen.graphs for seen in ranks):
        notes.append("Only eager calls were audited: graphs were not asked for.")
    return notes


def read_stats(folder: Path, expect: Expect | None) -> list[Seen]:
    """What the ranks of a server wrote, in their order; one that wrote nothing has no calls.

    Raises UsageError.
    """
    files = sorted(folder.glob("sm120_ba-*.json"))
    if not files:
        raise UsageError(
            f"--stats {folder}: it has no sm120_ba-*.json; start the server with "
            f"{layers_seen.FOLDER}={folder} and the kernel enabled"
        )
    ranks: dict[int, Seen] = {}
    size = 0
    for path in files:
        try:
            document = _document(path)
            seen = _seen_of(document, expect)
            size = max(size, document["ranks"] or 1, seen.rank + 1)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"--stats: {path}: {type(error).__name__}: {error}; it is no file of a rank that "
                "this version wrote, take it out"
            ) from None
        if not document["layers"]:
            continue  # a process of the server without a model, such as its front
        if seen.rank in ranks:
            raise UsageError(
                f"--stats {folder}: {path.name} is another file of rank {seen.rank}; leave the "
                "files of one start of the server"
            )
        ranks[seen.rank] = seen
    return [ranks.get(rank, Seen(rank, {}, {}, {})) for rank in range(size)] if ranks else []


def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if document["version"] != layers_seen.VERSION:
        raise ValueError(f"version {document['version']}, not {layers_seen.VERSION}")
    return document


def _seen_of(document: Mapping[str, Any], expect: Expect | None) -> Seen:
    answers, expected, calls = {}, {}, {}
    some = any(layer["calls"] for layer in document["layers"].values())
    for name, layer in document["layers"].items():
        if some and not layer["calls"]:
            expected[Site(name, 0, captured=False)] = "a call"
        for call in layer["calls"]:
            site = Site(name, call["rows"], call["captured"])
            found = [KERNEL] * bool(call["kernel"])
            found += [call["why"] or "not counted"] * bool(call["before"])
            answers[site] = "+".join(found)
            calls[site] = call["kernel"] + call["before"]
            expected[site] = (
                expect(name, site.m) if expect else _derived_of(document, layer, site.m)
            )
    rank = document["rank"]
    forced = _forced_in(document["proofs"])
    return Seen(0 if rank is None else rank, answers, expected, calls, forced=forced)


def _derived_of(document: Mapping[str, Any], layer: Mapping[str, Any], m: int) -> str:
    if not document["enabled"] or layer["why_never"] is not None:
        return LINEAR
    weight = Weight(tuple(layer["size"]), layer["dtype"])
    proved = rows_proved(document["proofs"], layer["size"])
    return expected_answer(weight, m, Mode(document["mode"]), None, proved)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    model_calls.add_arguments(parser, model_required=False)
    model_calls.add_graph(parser)
    parser.add_argument(
        "--mode", choices=("1", "proved"), default="1", help="of the warm-up (default: 1)"
    )
    parser.add_argument("--expect", type=Path, metavar="FILE", help=read_expectations.__doc__)
    parser.add_argument(
        "--stats",
        type=Path,
        metavar="DIR",
        help=f"in place of a model: the folder that a server had as {layers_seen.FOLDER}",
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write it, and FILE.md")


def run(arguments: argparse.Namespace) -> int:
    """Audit a model in each rank, or the files of a server."""
    if (arguments.model is None) == (arguments.stats is None):
        raise UsageError("name either --model or --stats, the folder of a server's counts")
    expect = read_expectations(arguments.expect) if arguments.expect else None
    settings: dict[str, Any] = {"expected": str(arguments.expect or "what was proved")}
    if arguments.stats is not None:
        ranks = read_stats(arguments.stats, expect)
        settings["stats"] = str(arguments.stats)
        notes = [
            "A server's counts have no names of graph nodes: a site in a graph is a call that was "
            "captured, which every replay runs."
        ]
        return deliver(report_of(ranks, settings, notes, "cpu"), arguments.report)
    here = world()
    device = str(model_calls.device_of(here.device(arguments.device)))
    model = models.load(arguments.model, device)
    layers = model_calls.chosen(model, arguments.layers)
    calls = model_calls.of(arguments)
    seen = observe(model, layers, calls, mode=arguments.mode, expect=expect, rank=here.rank)
    ranks = gathered(seen, here)
    settings |= {"model": arguments.model, "rows": list(calls.rows), "mode": arguments.mode}
    settings |= {"graph": calls.graph, "device": device, "ranks": here.size}
    report = report_of(ranks, settings, _notes(ranks, device), device)
    return deliver(report, arguments.report) if here.rank == 0 else report.status

"""`python -m sm120_ba prove`: prove the kernel on this machine, print what came of it.

`python -m sm120_ba validate` compares what models say, see `validate/`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sm120_ba.shapes import BY_SIZE, TABLE

if TYPE_CHECKING:
    from sm120_ba.dispatch import Dispatcher

DIFFERENT, USAGE, NOTHING_TO_PROVE = 1, 2, 3
_VOID = ("BITS_DIFFER", "NO_POWER", "UNAVAILABLE")


def main(argv: Sequence[str] | None = None) -> int:
    """0: every bit is that of F.linear; 1: some is not, or a proof is void; 3: no CUDA device."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["validate"]:
        from sm120_ba.validate import commands

        return commands.main(words[1:])
    arguments = _parse(words)
    import torch

    from sm120_ba.dispatch import Dispatcher
    from sm120_ba.proof_store import Store

    if torch.version.cuda is None or not torch.cuda.is_available():
        print("No CUDA device: nothing to prove.", file=sys.stderr)
        return NOTHING_TO_PROVE
    if arguments.device not in range(torch.cuda.device_count()):
        print(f"There is no CUDA device {arguments.device}.", file=sys.stderr)
        return USAGE
    # What is kept from earlier starts is no proof of today.
    return run(Dispatcher(store=Store(None)), f"cuda:{arguments.device}", arguments)


def run(dispatcher: Dispatcher, device: str, arguments: argparse.Namespace) -> int:
    """Prove each shape with `dispatcher` on `device`, print, and write the record if asked to."""
    failed = []
    for size in arguments.shape:
        reason = dispatcher.warmup(device, shapes=[size], rows=arguments.rows, mode="proved")
        if reason is not None and reason.name not in (*_VOID[:2], "NOT_FASTER"):
            failed.append(f"{BY_SIZE[size]}: {reason.name}: {reason.sentence}")
    record = dispatcher.proof()
    print(report(record))
    print("\n".join(failed), end="\n" if failed else "")
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    rows = [row for found in record["proofs"] for row in found["rows"].values()]
    return DIFFERENT if failed or any(row["refused"] in _VOID for row in rows) else 0


def report(record: dict[str, Any]) -> str:
    """The record as a table: a line for each M of each shape, and what it all depends on."""
    lines = [
        f"{'N x K':<11}{'M':>3}  {'other bits in':<29}{'control':>8}{'F.linear':>10}{'kernel':>8}"
        "  answer"
    ]
    for found in record["proofs"]:
        for m, row in found["rows"].items():
            times = f"{_us(row['linear_us']):>10}{_us(row['kernel_us']):>8}"
            lines.append(
                f"{found['shape']:<11}{m:>3}  {_differences(row):<29}{row['control']:>8.1%}{times}"
                f"  {row['refused'] or 'kernel'}"
            )
    keys = record["proofs"][0]["keys"] if record["proofs"] else {}
    own = ("kernel", "shape")
    return "\n".join(
        [*lines, *(f"{key}: {value}" for key, value in keys.items() if key not in own)]
    )


def _differences(row: dict[str, Any]) -> str:
    """The kinds of input with other bits and their share of elements, the worst first."""
    shares = {kind: count / row["compared"][kind] for kind, count in row["different"].items()}
    worst = sorted((-share, kind) for kind, share in shares.items() if share)
    text = ", ".join(f"{kind} {-share:.1%}" for share, kind in worst[:2])
    return text + (f" +{len(worst) - 2}" if len(worst) > 2 else "") if worst else "none"


def _us(time: float | None) -> str:
    return "-" if time is None else f"{time:.2f}"


def _size(text: str) -> tuple[int, int]:
    sizes = {f"{n}x{k}": (n, k) for n, k in BY_SIZE}
    if text not in sizes:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(sizes)}")
    return sizes[text]


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sm120_ba", description=__doc__)
    commands = parser.add_subparsers(required=True)
    prove = commands.add_parser("prove", help="compare with F.linear on this machine; 1: differs")
    prove.add_argument("--device", type=int, default=0, help="CUDA device (default: 0)")
    prove.add_argument(
        "--shape",
        type=_size,
        action="append",
        help="N x K as in 48x5120, may be repeated (default: the whole table)",
    )
    prove.add_argument("--rows", type=_numbers, help="M as in 2,4,8 (default: all of each shape)")
    prove.add_argument("--json", type=Path, help="write the record here")
    commands.add_parser("validate", help="compare what a model says with and without the kernel")
    arguments = parser.parse_args(argv)
    arguments.shape = arguments.shape or [(shape.n, shape.k) for shape in TABLE]
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())

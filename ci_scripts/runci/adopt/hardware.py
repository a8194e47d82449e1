"""Which hardware a test file asks for: clues with their lines, and what they come to."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from runci.core.registration import Backend
from runci.read.module import Module
from runci.read.names import dotted, walk

GPU, CUDA, AMD, CPU, SEVERAL = "gpu", "cuda", "amd", "cpu", "several"
XPU, NPU, MUSA = "xpu", "npu", "musa"
_OTHERS = (NPU, XPU, MUSA)  # code says them where none of it says CUDA: else a test is for both

# By the words of a mark, of a folder and of a label. What stands in none says nothing.
_WORDS = {
    AMD: ("amd", "rocm", "hip", "aiter"),
    CUDA: ("cuda", "nvidia", "cutlass", "cudnn", "cublas", "hopper", "blackwell", "ampere"),
    XPU: ("xpu",),
    NPU: ("npu", "ascend"),
    MUSA: ("musa", "mthreads"),
    GPU: ("gpu", "gpus", "triton", "kernel", "kernels"),
    CPU: ("cpu",),
}
_MODELS = {
    CUDA: re.compile(
        r"(sm_?\d{2,3}[a-z]?|[ahb]\d{2,4}|gb\d{2,3}|[lt]4|l40s?|rtx(\d{4}(ti)?)?|v100|(g[4-7]|p[3-6])(d|dn|e|en)?|\d0[5-9]0(ti)?)"
    ),
    AMD: re.compile(r"(mi\d{3}[a-z]?|gfx\d+[a-z]?)"),
    GPU: re.compile(r"\d+x?gpus?|gpus?\d+"),
}
# What a vendor's name comes to; a device that no vendor is named for is CUDA's where it can be.
BACKENDS = {
    AMD: Backend.AMD,
    CUDA: Backend.CUDA,
    XPU: Backend.XPU,
    NPU: Backend.NPU,
    MUSA: Backend.MUSA,
}
_ON_GPU = frozenset((*BACKENDS, GPU))
_PLAIN_MARKS = frozenset(("gpu", "gpus", "cuda", "nvidia", "rocm", "hip", "amd"))
_PLAIN_MARKS |= {"xpu", "npu", "ascend", "musa"}
_IN_MARKS = {"kernel", "kernels", "triton"}  # there they are subjects, not machines
_SEVERAL = re.compile(r"multi_?gpus?|multi_?node|distributed|[2-9]_?gpus?|gpus?\([^01]\w*.*\)")
# By the first name of an import.
_IMPORTS = {"triton": GPU, "cupy": CUDA, "pycuda": CUDA, "pynvml": CUDA, "numba.cuda": CUDA}
_IMPORTS |= {"torch.cuda": GPU, "cutlass": CUDA, "cuda": CUDA, "hip": AMD, "aiter": AMD}
_IMPORTS |= {"torch_npu": NPU, "torch.npu": NPU, "torch.xpu": XPU, "torch_musa": MUSA}
_DEVICE = re.compile(r"(cuda|npu|xpu|musa)(:\d*)?")
_CLUES = (*_OTHERS, "cuda", "triton", "cupy", "pynvml", "cutlass", "hip", "aiter")
_ASKS = ("is_available", "device_count", "get_device_capability", "get_device_properties")
ON_CPU = "a job without one runs it today"
NO_SIGN = "no sign of a GPU"
ON_BOTH = f"{NO_SIGN}; jobs with a GPU and others run it today"
_PREFIXES = ("requires_", "require_", "needs_", "need_", "on_", "with_", "only_", "test_")


@dataclass(frozen=True, slots=True)
class Clue:
    """One thing that says what a file needs: where (line 0: its path), and what it is."""

    means: str
    line: int
    text: str

    @property
    def where(self) -> str:
        """For a report."""
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass(frozen=True, slots=True)
class Guess:
    """On which backends a file runs, and why. `mixed`: only its tests with one of these marks."""

    backends: tuple[Backend, ...]
    why: str
    mixed: tuple[str, ...] = ()


def words_mean(text: str) -> str:
    """What the words of a folder's name or a label say: a kind, or "" for nothing."""
    words = [word for word in re.split(r"[^a-z0-9]+", text.lower()) if word]
    for kind, named in _WORDS.items():
        model = _MODELS.get(kind)
        if any(w in named or (model is not None and model.fullmatch(w)) for w in words):
            return kind
    return ""


def has_model(text: str) -> bool:
    """Whether a label names a model or an architecture, not a vendor alone."""
    words = re.split(r"[^a-z0-9]+", text.lower())
    return any(_MODELS[kind].fullmatch(word) for kind in (CUDA, AMD) for word in words if word)


def mark_means(mark: str) -> str:
    """What a mark says, such as `gpu`, `requires_cuda` or `gpus(2)`: a kind, or ""."""
    name = _plain(mark)
    found = words_mean(name.replace("_", " "))
    return "" if found == GPU and set(name.split("_")) <= _IN_MARKS else found


def path_clues(path: str) -> Iterator[Clue]:
    """What the folders of a file and its own name say; the innermost first."""
    folders = path.split("/")
    for part in reversed(folders[:-1]):
        kind = words_mean(part.replace("_", " "))
        if kind:
            yield Clue(kind, 0, f"folder {part}/")
    words = folders[-1].removesuffix(".py").replace("_", " ")
    kind = words_mean(words)
    if kind and not set(words.split()) & _IN_MARKS:
        yield Clue(kind, 0, f"name {folders[-1]}")


def code_clues(module: Module) -> tuple[Clue, ...]:
    """The first of each kind of thing in the code that asks for a GPU, in order of lines."""
    if not any(word in module.text for word in _CLUES):
        return ()
    found: dict[tuple[str, str], Clue] = {}
    for node in walk(module.tree):
        for means, text in _asked(node):
            line = getattr(node, "lineno", 1)
            known = found.get((means, text))
            if known is None or line < known.line:
                found[means, text] = Clue(means, line, text)
    return tuple(sorted(found.values(), key=lambda clue: (clue.line, clue.text)))


def _asked(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _imported(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if device := _DEVICE.fullmatch(node.value):
            yield _kind(device[1]), f'device "{node.value}"'
    elif isinstance(node, ast.Call):
        called = (dotted(node.func) or "").rpartition(".")[2]
        if isinstance(node.func, ast.Attribute) and node.func.attr in (CUDA, *_OTHERS):
            yield _kind(node.func.attr), f".{node.func.attr}()"
        elif called in ("importorskip", "import_module") and node.args:
            first = node.args[0]
            yield from _named(first.value) if isinstance(first, ast.Constant) else ()
    elif isinstance(node, ast.Attribute):
        chain = dotted(node) or ""
        module = chain.rpartition(".")[0]
        if module in _TORCH:
            asks = node.attr in _ASKS
            yield _TORCH[module], f"asks {module} whether a GPU is there" if asks else module


def _kind(stack: str) -> str:
    """What the name of a stack says in code; AMD's GPUs are called cuda there, too."""
    return GPU if stack == CUDA else stack


_TORCH = {f"torch.{stack}": _kind(stack) for stack in (CUDA, *_OTHERS)}


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif node.level:
        return
    else:
        names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in names:
        yield from _named(name)


def _named(module: object) -> Iterator[tuple[str, str]]:
    """What a module says that is imported."""
    for wanted, means in _IMPORTS.items():
        if f"{module}.".startswith(f"{wanted}."):
            yield means, f"imports {wanted}"


def decide(
    path: str,
    code: Sequence[Clue],
    marks: Iterable[Sequence[str]] = ((),),
    ran_on: Collection[Backend] = (),
    machines: Sequence[Backend] = (),
    elsewhere: bool = False,
) -> Guess:
    """On which backends a file should run.

    `ran_on` are those of jobs that run it today, `machines` those of GPU runners that there are;
    `elsewhere`: a job on a machine that no label tells runs it, too.
    A vendor's name decides, then where it runs today, then the first machine; without any clue
    it runs where it does today, else on a CPU.
    """
    sets = [tuple(one) for one in marks]
    of_gpu = tuple(sorted({m.partition("(")[0] for one in sets for m in one if _is_gpu(m)}))
    by_marks = [any(map(_is_gpu, one)) for one in sets]
    clues = [*(Clue(mark_means(m), 0, f"mark {m}") for m in of_gpu), *code, *path_clues(path)]
    if not of_gpu:
        cpu = [Clue(CPU, 0, f"mark {m}") for one in sets for m in one if mark_means(m) == CPU]
        cpu += [clue for clue in path_clues(path) if clue.means == CPU]
        if cpu:
            return Guess((Backend.CPU,), cpu[0].where)
    gpu = [clue for clue in clues if clue.means in _ON_GPU]
    on = tuple(one for one in Backend if one in ran_on and one is not Backend.CPU)
    today = f"; {ON_CPU}" if set(ran_on) == {Backend.CPU} else ""
    others = [clue for clue in code if clue.means in _OTHERS]
    if others and not any(map(_says_cuda, gpu)):
        return Guess((BACKENDS[others[0].means],), others[0].where + today)
    gpu = [clue for clue in gpu if clue not in others]
    if not gpu:
        if on and Backend.CPU not in ran_on and not elsewhere:
            return Guess(on, "no sign of a GPU in it, but only GPU jobs run it today")
        why = f"{NO_SIGN}; {ON_CPU}" if Backend.CPU in ran_on else NO_SIGN
        return Guess((Backend.CPU,), ON_BOTH if on else why)
    named = next((BACKENDS[clue.means] for clue in gpu if clue.means in BACKENDS), None)
    first = (machines[0],) if machines else (Backend.CUDA,)
    backends = (named,) if named is not None else on or first
    some = any(by_marks) and not all(by_marks)
    # Of an architecture or a number of GPUs, the tests without the mark want a GPU, too.
    mixed = of_gpu if some and all(_is_plain(mark) for mark in of_gpu) else ()
    return Guess(backends, gpu[0].where + today, mixed)


def _says_cuda(clue: Clue) -> bool:
    """Whether a clue is of NVIDIA's or AMD's stack, and not of any GPU as «triton» is."""
    return clue.means in (CUDA, AMD) or (clue.means == GPU and CUDA in clue.text)


def _is_plain(mark: str) -> bool:
    """Whether a mark says no more than that there must be a GPU."""
    return _plain(mark) in _PLAIN_MARKS


def _plain(mark: str) -> str:
    """A mark's name in small letters, without arguments and words such as «requires»."""
    name = mark.partition("(")[0].lower()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _is_gpu(mark: str) -> bool:
    return mark_means(mark) in _ON_GPU


def wants_several(marks: Iterable[Sequence[str]], text: str) -> bool:
    """Whether a file seems to want more than one GPU."""
    marked = any(_SEVERAL.fullmatch(mark.lower()) for one in marks for mark in one)
    return (
        marked or "torch.distributed" in text or "mp.spawn" in text or "init_process_group" in text
    )

"""What a job's processes did before a limit ended it: whether it worked, or stood still."""

from __future__ import annotations

from collections import deque

from runci.run.model import Activity

LONGEST = 10.0  # seconds between two looks
SHORTEST = 0.2
LOOKS = 3  # before the limit: what happened between the first of them and the end is told
_SPAN = 0.5  # seconds below which nothing can be said


class Watch:
    """Looks at a job a few times before its limit, and not at all before that."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque(maxlen=LOOKS)

    def due(self, now: float, began: float, deadline: float) -> bool:
        """Whether to look now."""
        between = min(max((deadline - began) / (2 * LOOKS), SHORTEST), LONGEST)
        last = self._looks[-1][0] if self._looks else float("-inf")
        return now >= deadline - LOOKS * between and now - last >= between

    def look(self, now: float, cpu: float) -> None:
        """Note the CPU seconds of all its processes."""
        self._looks.append((now, cpu))

    def last(self, now: float, cpu: float, heard: float) -> Activity | None:
        """What it did since the first look; `heard` is when it last said something."""
        if not self._looks or now - self._looks[0][0] < _SPAN:
            return None
        then, before = self._looks[0]
        return Activity(round(now - then, 3), round(max(cpu - before, 0.0), 3), heard > then)

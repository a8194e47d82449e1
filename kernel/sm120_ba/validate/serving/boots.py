"""One boot: a fresh server is started, waited for, asked in groups, and ended whole."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import aiohttp
import msgspec
import psutil

from sm120_ba.validate.serving import client, processes, records
from sm120_ba.validate.serving.manifest import Manifest, Plan
from sm120_ba.validate.serving.records import WARM_UP, Boot, Request, Running

POLL_S = 0.1  # between two looks at a server that is not healthy yet


class BootError(Exception):
    """This boot cannot go on; the message is its failure."""


@dataclass
class _Progress:
    """What is known of the boot so far."""

    failures: list[str] = field(default_factory=list)
    healthy_after_s: float | None = None
    running: dict[int, Running] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Server:
    """A running server, its URL and the processes that were ever seen of it."""

    process: asyncio.subprocess.Process
    url: str
    mark: str
    seen: set[psutil.Process]

    def processes(self) -> set[psutil.Process]:
        """All that is alive of it."""
        self.seen.update(processes.tree(self.mark, self.process.pid))
        return {one for one in self.seen if processes.is_alive(one)}


async def run_boot(
    plan: Plan, run_id: str, name: str, folder: Path, tick: Callable[[Request], None]
) -> Boot:
    """Do all of one boot in a new `folder`; `tick` gets each request that is no warm-up.

    What fails is in the result, which is written last: a folder without it was not finished.
    """
    folder.mkdir()
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    progress = _Progress()
    try:
        await _serve_and_ask(plan, f"{run_id}/{name}", name, folder, progress, tick)
    except BootError as error:
        progress.failures.append(str(error))
    boot = Boot(
        name=name,
        started=started,
        healthy_after_s=progress.healthy_after_s,
        failures=tuple(progress.failures),
        killed=tuple(progress.killed),
        running=progress.running,
    )
    records.write_boot(folder, boot)
    return boot


async def _serve_and_ask(
    plan: Plan,
    mark: str,
    name: str,
    folder: Path,
    progress: _Progress,
    tick: Callable[[Request], None],
) -> None:
    manifest = plan.manifest
    port = manifest.port or processes.free_port()
    if not processes.is_free(port):
        raise BootError(f"port {port} is taken by another process; end that, or leave `port` out")
    server = await _start(plan, mark, name, port, folder / records.LOG)
    try:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        nothing = aiohttp.ClientTimeout(total=None)  # each use has its own
        async with aiohttp.ClientSession(connector=connector, timeout=nothing) as session:
            progress.healthy_after_s = await _until_healthy(session, server, manifest)
            server.processes()
            with _appending(folder / records.REQUESTS) as keep:
                await _ask_all(session, server, plan, progress, keep, tick)
        if not processes.is_alive(server.process.pid):
            status = await server.process.wait()
            progress.failures.append(f"the server {_ending(status)} by itself")
    finally:
        # Without awaiting: it must happen under cancellation, too.
        progress.killed, alive = processes.end(server.processes, manifest.timeouts.stop)
        if alive:
            progress.failures.append(f"{alive} processes of the server live on after SIGKILL")
        await server.process.wait()
    await _until_free(port, manifest.timeouts.stop, progress)


async def _start(plan: Plan, mark: str, name: str, port: int, log: Path) -> _Server:
    arm = plan.manifest.arm(name)
    values = {"{port}": str(port), "{python}": sys.executable}
    words = [_filled(word, values) for word in arm.command]
    environment = processes.environment(os.environ, arm.environment, plan.variable, mark)
    with log.open("wb") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                cwd=plan.folder,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise BootError(f"the server does not start: {error}") from None
    return _Server(process, f"http://{processes.HOST}:{port}", mark, set())


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


async def _until_healthy(
    session: aiohttp.ClientSession, server: _Server, manifest: Manifest
) -> float:
    """Seconds until the first answer of status 200 from the health check."""
    began = time.perf_counter()
    limit = manifest.timeouts.start
    last = "no answer"
    ended = asyncio.ensure_future(server.process.wait())
    try:
        while (left := began + limit - time.perf_counter()) > 0:
            check = asyncio.ensure_future(_health(session, server.url + manifest.health))
            await asyncio.wait({check, ended}, timeout=left, return_when="FIRST_COMPLETED")
            if ended.done():
                check.cancel()
                raise BootError(f"the server {_ending(ended.result())} before it was healthy")
            if not check.done():
                check.cancel()
                break
            last = check.result()
            if last == "status 200":
                return time.perf_counter() - began
            await asyncio.sleep(POLL_S)
    finally:
        ended.cancel()
    raise BootError(f"not healthy within {limit:g} s: {manifest.health} gave {last}")


async def _health(session: aiohttp.ClientSession, url: str) -> str:
    try:
        async with session.get(url) as response:
            return f"status {response.status}"
    except (aiohttp.ClientError, OSError) as error:
        return repr(error)


async def _ask_all(
    session: aiohttp.ClientSession,
    server: _Server,
    plan: Plan,
    progress: _Progress,
    keep: Callable[[Request], None],
    tick: Callable[[Request], None],
) -> None:
    """The warm-up, then each group; no failure of a request keeps the others from being asked."""
    load = plan.manifest.load
    prefixes = {prompt[: load.warm_up_prefix]: i for i, prompt in enumerate(plan.prompts)}
    if load.warm_up_prefix:
        await _group(session, server, plan, WARM_UP, list(prefixes.items()), keep)
    for number, concurrency in enumerate(load.concurrencies):
        chosen = [(number * load.requests + i) % len(plan.prompts) for i in range(load.requests)]
        sampler = asyncio.ensure_future(_sample(session, server.url, plan.manifest))

        def both(request: Request) -> None:
            keep(request)
            tick(request)

        prompts = [(plan.prompts[i], i) for i in chosen]
        try:
            await _group(session, server, plan, concurrency, prompts, both)
        finally:
            sampler.cancel()
        found = (await asyncio.gather(sampler, return_exceptions=True))[0]
        if isinstance(found, Running):
            progress.running[concurrency] = found


async def _group(
    session: aiohttp.ClientSession,
    server: _Server,
    plan: Plan,
    concurrency: int,
    prompts: list[tuple[tuple[int, ...], int]],
    keep: Callable[[Request], None],
) -> None:
    """Ask all `prompts`, `concurrency` at a time: a request is admitted when another one ends."""
    manifest = plan.manifest
    began = time.perf_counter()
    waiting = iter(enumerate(prompts))

    async def admit() -> None:
        for index, (prompt, number) in waiting:
            admitted = time.perf_counter() - began
            answer, error = await client.ask(
                session,
                server.url,
                client.ENDPOINTS[manifest.endpoint],
                prompt,
                manifest.load,
                manifest.model,
                manifest.timeouts.request,
            )
            keep(
                client.as_record(
                    answer,
                    error,
                    concurrency=concurrency,
                    index=index,
                    prompt=number,
                    admitted_s=admitted,
                    ended_s=time.perf_counter() - began,
                )
            )

    await asyncio.gather(*(admit() for _ in range(max(1, concurrency))))


async def _sample(session: aiohttp.ClientSession, url: str, manifest: Manifest) -> Running | None:
    """Until it is cancelled, look how many requests run; None where the server does not say."""
    peak, samples = 0, 0
    try:
        while manifest.metrics:
            try:
                async with session.get(url + manifest.metrics) as response:
                    found = client.running_requests(await response.text())
            except (aiohttp.ClientError, OSError):
                found = None
            if found is not None:
                peak, samples = max(peak, found), samples + 1
            await asyncio.sleep(manifest.sample_every)
    except asyncio.CancelledError:
        pass  # the group is over, and what was seen is the result
    return Running(peak, samples) if samples else None


async def _until_free(port: int, limit_s: float, progress: _Progress) -> None:
    deadline = time.monotonic() + limit_s
    while not processes.is_free(port):
        if time.monotonic() > deadline:
            progress.failures.append(f"port {port} is still taken {limit_s:g} s after the end")
            return
        await asyncio.sleep(POLL_S)


@contextmanager
def _appending(path: Path) -> Iterator[Callable[[Request], None]]:
    """Write each request as a line as soon as it ended."""
    with path.open("ab") as file:

        def keep(request: Request) -> None:
            file.write(msgspec.json.encode(request) + b"\n")
            file.flush()

        yield keep


def _ending(status: int) -> str:
    return f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"

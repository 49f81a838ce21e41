"""What a signal does in each phase of a run, and what is left when a reader does not read."""

import asyncio
import os
import signal
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from perdure.interfaces.cli.goals.run_ui.interrupts import ENDING, Interrupts
from perdure.interfaces.cli.goals.run_ui.writer import Writer


@dataclass
class State:
    """A goal in which nothing runs."""

    open_calls: dict[str, object] = field(default_factory=dict)


class Loop:
    """What can be stopped."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.state = State()

    def stop(self) -> None:
        self.stopped.set()


def interrupts(said: list[str], left: list[int]) -> Interrupts:
    return Interrupts(said.append, left.append)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_before_there_is_a_goal_the_first_signal_ends_at_once(kind: signal.Signals) -> None:
    with interrupts([], []) as taken:
        os.kill(os.getpid(), kind)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
        assert taken.forget()
    await asyncio.sleep(0)


async def test_the_first_signal_stops_after_the_step_and_the_second_at_once() -> None:
    said: list[str] = []
    loop: Any = Loop()
    with interrupts(said, []) as taken:
        taken.watch(loop)
        os.kill(os.getpid(), signal.SIGTERM)
        await loop.stopped.wait()
        assert not taken.forget()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
        assert taken.forget()
    assert said == [ENDING]


async def test_a_goal_that_begins_after_the_first_signal_is_stopped_too() -> None:
    first: Any = Loop()
    late: Any = Loop()
    with interrupts([], []) as taken:
        taken.watch(first)
        os.kill(os.getpid(), signal.SIGTERM)
        await first.stopped.wait()
        taken.watch(late)
        assert late.stopped.is_set()


async def test_a_client_that_keeps_asking_is_disconnected() -> None:
    left = threading.Event()
    said: list[str] = []
    with Interrupts(said.append, lambda _code: left.set()) as taken:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(60)
        taken.forget()
        os.kill(os.getpid(), signal.SIGINT)
        assert left.wait(30)


def test_code_that_blocks_the_event_loop_does_not_keep_a_process_from_ending() -> None:
    left = threading.Event()

    async def block() -> None:
        loop: Any = Loop()
        said: list[str] = []
        with Interrupts(said.append, lambda _code: left.set()) as taken:
            taken.watch(loop)
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
            assert left.wait(30)
            assert said == [ENDING]
            taken.forget()

    asyncio.run(block())


async def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts([], []) as taken:
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
            assert taken.count == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_the_handlers_are_as_before_when_the_run_is_over() -> None:
    before = [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with interrupts([], []):
        pass
    assert [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_while_a_prompt_is_open_the_first_signal_ends_at_once(kind: signal.Signals) -> None:
    loop: Any = Loop()
    with interrupts([], []) as taken:
        taken.watch(loop)
        with taken.delegate_to_loop():
            os.kill(os.getpid(), kind)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(60)
        assert taken.forget()
    assert not loop.stopped.is_set()


async def test_after_a_prompt_the_signals_stop_the_next_run_as_before() -> None:
    loop: Any = Loop()
    with interrupts([], []) as taken:
        with taken.delegate_to_loop():
            asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: None)
            asyncio.get_running_loop().remove_signal_handler(signal.SIGWINCH)
        taken.watch(loop)
        os.kill(os.getpid(), signal.SIGTERM)
        await loop.stopped.wait()


async def test_a_reader_who_does_not_read_stops_nothing_else() -> None:
    writer, gate, done = Writer(), threading.Event(), list[str]()

    def held() -> None:
        gate.wait(60)

    writer.do(held)
    writer.do(lambda: done.append("written"))
    waiting = asyncio.ensure_future(writer.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    await waiting
    assert done == ["written"]
    writer.close()

"""The garbage collector is paused in a block, and runs again behind the last of several that overlap."""

import gc
import threading
from collections.abc import Iterator

import pytest

from perdure.gc_pause import gc_paused


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_it_is_paused_in_the_block_alone_also_when_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), gc_paused():
        assert not gc.isenabled()
        _ = 1 / 0
    assert gc.isenabled()


def test_pauses_of_two_threads_overlap() -> None:
    entered, leave = threading.Event(), threading.Event()

    def pause() -> None:
        with gc_paused():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=pause)
    with gc_paused():
        thread.start()
        entered.wait()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_program_that_has_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    with gc_paused():
        pass
    assert not gc.isenabled()

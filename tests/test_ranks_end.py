"""How one rank ends all: the launcher gets to know why, and nobody waits for it for ever."""

import io
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from made_world import Made, Post
from savemark.ranks.world import PASS_ON_S, World
from waiting import LIMIT_S

WHY = "error: rank 1 is lost\n"


@pytest.fixture
def ending(monkeypatch):
    """Ends all ranks, of which this one says why to a stream; returns what has been ended."""

    def ending(stream):
        ended = []
        monkeypatch.setattr(sys, "stderr", stream)
        world = Made(Post(1), 0)
        world.code, world._comm = 3, SimpleNamespace(Abort=ended.append)
        stream.write(WHY)
        thread = threading.Thread(target=World.abort, args=(world,), daemon=True)
        thread.start()
        return thread, ended

    return ending


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w") as stream:
        yield reader, stream


def test_all_are_ended_when_the_launcher_has_read_why(ending, pipe):
    reader, stream = pipe
    thread, ended = ending(stream)
    thread.join(4 * PASS_ON_S)
    assert ended == [], "it reads late"
    assert os.read(reader, 100) == WHY.encode()
    thread.join(LIMIT_S)
    assert ended == [3]


@pytest.mark.parametrize("kind", ["never read", "file", "no file"])
def test_a_launcher_that_does_not_read_is_not_waited_for(kind, ending, pipe, tmp_path, monkeypatch):
    monkeypatch.setattr("savemark.ranks.world.READ_S", 0.1)
    with (tmp_path / "log").open("w") as log:
        stream = {"never read": pipe[1], "file": log, "no file": io.StringIO()}[kind]
        thread, ended = ending(stream)
        thread.join(LIMIT_S)
    assert ended == [3]

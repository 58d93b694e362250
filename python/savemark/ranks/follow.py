"""Every rank but the first: does what it is told, prints nothing, loads the engine alone."""

from __future__ import annotations

import sys
import time
import traceback
from contextlib import suppress
from typing import Any

import savemark._engine as engine
from savemark.errors import RankLost
from savemark.ranks.part import Work, silent_s
from savemark.ranks.world import IDLE_S, SOON_S, TimedOut, World

Json = dict[str, Any]


def follow(world: World) -> int:
    """Work until the first rank says that it is over; return the exit code.

    Where that rank is lost nobody else can say so: it is said here, and all are ended.
    """
    try:
        world.allgather([engine.version()])
        runner = engine.Engine()
        watch_s = silent_s()
        while (order := world.order(None, watch_s))["do"] != "end":
            if order["do"] == "rest":
                watch_s = IDLE_S
                continue
            if not any(world.rank in node for node in order["members"]):
                continue
            work = Work(world, order)
            with suppress(RankLost):
                work.run(runner, lambda _: None)
            if world.lost:
                _give_up(world, work)
        world.flush()
    except (TimedOut, KeyboardInterrupt) as error:
        print(f"error: {error or 'interrupted'}", file=sys.stderr)  # noqa: T201
        world.abort()
    except Exception:
        traceback.print_exc()
        world.abort()
    return 0


def _give_up(world: World, work: Work) -> None:
    """End all ranks; the second one says why, for the first one cannot, and gives up first."""
    if world.rank > 1:
        time.sleep(SOON_S)  # for the first or the second one to do so
    if work.collective.failure is not None:
        print(f"error: {work.collective.failure.error().message}", file=sys.stderr)  # noqa: T201
    world.abort()

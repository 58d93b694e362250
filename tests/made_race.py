"""A made-up run folder of a race: looked at, screened, and confirmed in blocks."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import made_run
from made_run import CODECS, Made

Setting = tuple[str, int]
FINALISTS: tuple[Setting, ...] = (("none", 4), ("none", 16), ("lz4", 4), ("planes", 4))
SCREENED: tuple[Setting, ...] = (*FINALISTS, ("none", 1), ("lz4", 16), ("zstd", 4))
QUIET = {"quiet": True, "disturbed_by": None}


@dataclass
class Race:
    """What to make; the defaults are a default run on a healthy machine at rest."""

    finalists: tuple[Setting, ...] = FINALISTS
    baseline: Setting = ("none", 1)
    repeats: int = 6
    rest: dict[str, Any] = field(default_factory=lambda: dict(QUIET))
    targets: dict[str, str] = field(default_factory=lambda: {"scratch": "/mnt/scratch"})
    speed: float = 2.0  # of the disk, times 2 GB/s
    filesystem: str = "ext4"
    noise: dict[Setting, float] = field(default_factory=dict)  # of one setting, standard deviation
    factor: dict[Setting, float] = field(default_factory=dict)  # of one setting, in time
    cached: tuple[Setting, ...] = ()  # the device sees a tenth of their bytes
    size: int = 2 * made_run.SIZE
    stop_after: int | None = None
    seed: int = 5

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What is confirmed."""
        return tuple(dict.fromkeys((*self.finalists, self.baseline)))


def make_race(folder: Path, race: Race | None = None) -> Path:
    """Write run.json and records.jsonl, and return the folder."""
    race = race or Race()
    made = Made(
        codecs=tuple(dict.fromkeys(codec for codec, _ in race.settings)),
        targets=dict.fromkeys(race.targets, race.speed),
        repeats=race.repeats,
        size=race.size,
    )
    rng = random.Random(race.seed)
    folder.mkdir(parents=True, exist_ok=True)
    plan = _plan(race, rng)
    (folder / "run.json").write_text(json.dumps(_head(race, made, plan)), encoding="utf-8")
    lines = [_line(race, made, rng, item) for item in plan[: race.stop_after]]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "records.jsonl").write_text(text, encoding="utf-8")
    return folder


def _plan(race: Race, rng: random.Random) -> list[dict[str, Any]]:
    plan: list[dict[str, Any]] = []

    def add(role: str, name: str, label: str, repeat: int, factors: dict[str, Any]) -> None:
        head = {"index": len(plan), "role": role, "name": name, "label": label, "repeat": repeat}
        plan.append(head | {"factors": factors})

    def named(setting: Setting, label: str) -> dict[str, Any]:
        own = {"target": label} if len(race.targets) > 1 else {}
        return own | {"codec": setting[0], "streams": setting[1]}

    for label in race.targets:
        for name in ("fsync", "memcpy", *(f"codec/{codec}" for codec in ("lz4", "zstd", "planes"))):
            add("ceiling", name, label, 0, {})
        for setting in SCREENED:
            add("screen", "checkpoint", label, 0, named(setting, label))
    for repeat in range(race.repeats):
        for label in race.targets:
            block = [("trial", "checkpoint", named(s, label)) for s in race.settings]
            block += [("ceiling", name, {}) for name in ("write", "read_checked")]
            rng.shuffle(block)
            for role, name, factors in block:
                add(role, name, label, repeat, factors)
    return plan


def _head(race: Race, made: Made, plan: list[dict[str, Any]]) -> dict[str, Any]:
    head = made_run._head(made, plan)
    named = [{"codec": codec, "streams": streams} for codec, streams in race.finalists]
    times = {setting: 3.0 + place / 3 for place, setting in enumerate(SCREENED)}
    shares = {codec: 1 / ratio for codec, (_, _, ratio) in CODECS.items()}
    head["study"] |= {
        "race": {
            "baseline": {"codec": race.baseline[0], "streams": race.baseline[1]},
            "keep": 1.5,
            "finalists": 4,
        },
        "factors": {"codec": ["none", "lz4", "zstd", "planes"], "streams": [1, 4, 16]},
    }
    head["host"]["target"]["filesystem"] = race.filesystem
    head["targets"] = [{"label": label, "target": t} for label, t in race.targets.items()]
    head["command"] = ["savemark", "run", *(t if len(race.targets) == 1 else f"{label}={t}"
                                            for label, t in race.targets.items())]  # fmt: skip
    head["race"] = {
        "rest": race.rest,
        "bounded": [
            {
                "factors": {"codec": "zstd", "streams": 1},
                "why": "zstd on 1 core encodes 0.46 GB/s: at least 2.3 × the time of none × 4",
            }
        ],
        "screened": [
            {
                "factors": {"codec": codec, "streams": streams},
                "seconds": times[codec, streams],
                "stored_share": shares.get(codec, 1.0),
                "kept": (codec, streams) in race.finalists,
                "why": f"{times[codec, streams] / 3:.1f} × the time of none × 4",
            }
            for codec, streams in SCREENED
        ],
        "finalists": named,
        "size_bytes": race.size,
        "screen_bytes": 2**31,
    }
    return head


def _line(race: Race, made: Made, rng: random.Random, item: dict[str, Any]) -> dict[str, Any]:
    if item["role"] == "ceiling":
        plain = item | {"name": item["name"].removesuffix("_checked")}
        return made_run._line(made, rng, plain) | item
    line = made_run._line(made, rng, item)
    setting = (item["factors"]["codec"], item["factors"]["streams"])
    for phase in line["record"]["phases"]:
        noise = 1 + abs(rng.gauss(0, race.noise.get(setting, 0.0)))
        scale = noise * race.factor.get(setting, 1.0)
        for name in ("elapsed_ns", "first_done_ns", "last_done_ns"):
            phase[name] = round(phase[name] * scale)
        if setting in race.cached:
            phase["device"]["written_bytes"] //= 10
            phase["device"]["read_bytes"] //= 10
    return line

"""The stages of a race while it runs: what comes next, from what the run folder holds so far.

Look: the machine and each codec by itself. Screen: one short trial of each setting, first of those
without a codec, then of those that their codec does not rule out, and a second one of the fastest.
Confirm: the finalists, the baseline and what bounds them, block after block. All that was decided
is in `race` of `run.json`, so that a run that was killed in any stage goes on from there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from savemark.records.naming import setting
from savemark.run import timing
from savemark.run.entries import (
    is_coded,
    is_small,
    moving_ceilings,
    numbered,
    short_trial,
    streams_of,
    target_level,
    without_target,
)
from savemark.run.folder import Json, RunFolder
from savemark.study import race as rules
from savemark.study.model import Study
from savemark.study.order import blocks
from savemark.study.plan import Entry
from savemark.study.race import Codec, Race, Screened
from savemark.study.until import MOST_REPEATS

if TYPE_CHECKING:
    from savemark.records.run import Entry as Recorded

# What the intervals of all medians are to be within; fewer than six repeats have none.
WITHIN = 0.05
# Of a budget that nobody gave by hand: better a little late than no answer.
GRACE = 1.15


def sized(study: Study, entry: Entry, folder: RunFolder) -> Study:
    """Return the study with the size that an entry has: of a short trial, or of one that counts."""
    state = folder.head.get("race") or {}
    size = state.get("screen_bytes" if entry.role == "screen" else "size_bytes")
    return study.with_size(int(size)) if size else study


def following(study: Study, entries: list[Entry], folder: RunFolder) -> list[Entry]:
    """Return what comes after `entries`, all of which ran; nothing where the race is decided."""
    from savemark.records.run import read_run  # with all that reads records

    race = Stage(study, folder.head["race"], read_run(folder.path).entries, entries)
    block: list[Entry] = []
    if "bounded" not in race.state:
        block = race.coded()
    if not block and not {"tried_again", "finalists"} & set(race.state):
        block = race.again()
    if not block and "finalists" not in race.state:
        block = race.confirm(folder.head["order_seed"])
        if size := race.state.get("size_bytes"):
            folder.head["study"] = study.with_size(int(size)).as_json()
    elif not block:
        block = race.another(folder.head["order_seed"])
    return block


@dataclass(frozen=True)
class Stage:
    """What a race knows at the end of a stage: `state` is `race` of `run.json`, and is added to."""

    study: Study
    state: Json
    lines: Sequence[Recorded]  # of the run folder
    entries: Sequence[Entry]  # of the plan

    @property
    def rules(self) -> Race:
        """How the best setting is looked for."""
        assert self.study.race is not None
        return self.study.race

    @property
    def labels(self) -> list[str]:
        """The targets."""
        return list(dict.fromkeys(entry.label for entry in self.entries))

    def coded(self) -> list[Entry]:
        """Return the settings with a codec, less those that it rules out, which are listed."""
        self.state["bounded"], entries = [], []
        for label in [] if is_small(self.study) else self.labels:
            for cell in self.study.cells_at(label):
                if not is_coded(self.study, cell):
                    continue
                factors = {**target_level(self.labels, label), **cell}
                if why := self._ruled_out(label, cell):
                    self.state["bounded"].append({"factors": factors, "why": why})
                else:
                    entries.append(short_trial(self.study, label, factors))
        return numbered(entries, len(self.entries))

    def again(self) -> list[Entry]:
        """Return a second short trial of what may be among the best, in the opposite order."""
        near = [each.factors for label in self.labels for each in rules.again(self.screened(label))]
        self.state["tried_again"] = [dict(each) for each in near]
        first = [entry for entry in self.entries if entry.role == "screen"]
        entries = [replace(each, repeat=1) for each in reversed(first) if each.factors in near]
        return numbered(entries, len(self.entries))

    def _ruled_out(self, label: str, cell: Mapping[str, Any]) -> str:
        """Return why a codec keeps a setting from being one of the best; what is smallest may."""
        codecs, leader = self._codecs(), self._leader(label)
        codec = codecs.get(str(cell["codec"]))
        if codec is None or not leader:
            return ""
        coded = [each for each in self.study.cells_at(label) if is_coded(self.study, each)]
        smallest = min(codecs.values(), key=lambda each: each.stored)
        if codec is smallest and streams_of(cell) == max(map(streams_of, coded)):
            return ""
        args = streams_of(cell), self.state["cores"], leader, self.rules.keep
        return rules.ruled_out(codec, *args)

    def _codecs(self) -> dict[str, Codec]:
        """Return what the look measured of each codec on one core: the best of its repeats."""
        codecs: dict[str, Codec] = {}
        for line in self._of("ceiling"):
            phases = {phase.name: phase for phase in line.phases}
            if not line.name.startswith("codec/") or not {"encode", "decode"} <= set(phases):
                continue
            name, encode = line.name.removeprefix("codec/"), phases["encode"]
            known = codecs.get(name, Codec(name, 0.0, 0.0, 1.0))
            codecs[name] = Codec(
                name,
                max(known.encode, timing.rate(encode)),
                max(known.decode, timing.rate(phases["decode"])),
                (encode.stored_bytes or 0) / max(encode.user_bytes or 0, 1),
            )
        return codecs

    def _leader(self, label: str) -> float:
        """Return the least seconds per user byte so far; 0 where no setting finished."""
        done = [line for line in self._of("screen") if line.ok and line.label == label]
        return min(
            (timing.measured_s(line) / timing.moved_bytes(line) for line in done), default=0.0
        )

    def screened(self, label: str) -> list[Screened]:
        """Return the settings of a target whose short trial finished: the shorter one of two."""
        found: dict[str, Screened] = {}
        for line in self._of("screen"):
            if line.ok and line.label == label:
                each = timing.screened(line)
                known = found.setdefault(repr(each.factors), each)
                found[repr(each.factors)] = min(known, each, key=lambda one: one.seconds)
        return list(found.values())

    def _of(self, role: str) -> list[Recorded]:
        return [line for line in self.lines if line.role == role]

    def confirm(self, seed: int) -> list[Entry]:
        """Choose the size and the finalists; return the blocks that confirm them."""
        seen = {label: self.screened(label) for label in self.labels}
        rates = [rate for line in self._of("screen") if line.ok for rate in timing.rates(line)]
        if rates and self.study.wants_size():
            most, before = self.state["most_bytes"], self.state.get("before_bytes")
            self.state["size_bytes"] = size = rules.confirm_bytes(max(rates), most, before)
            if not self._two_fit(seen) and size / 2 / max(rates) >= rules.SCREEN_S:
                self.state["size_bytes"] = size // 2
        confirmed = [
            each
            for label in self.labels
            for each in rules.finalists(seen[label], self.rules, self._fits(seen[label]))
        ]
        self.state["finalists"] = [dict(each.factors) for each in confirmed] or self._all()
        self.state["screened"] = [
            self._screen_result(line, seen, confirmed)
            for line in self._of("screen")
            if line.repeat == 0
        ]
        return self._blocks(range(self.study.repeats), seed) if self.state["finalists"] else []

    def _two_fit(self, seen: Mapping[str, Sequence[Screened]]) -> bool:
        """Whether the budget holds two finalists of each target, with the size as it is."""
        some = {label: rules.order_of_merit(seen[label], self.rules) for label in self.labels}
        return all(
            self._fits(seen[label])(each[: rules.ALWAYS]) for label, each in some.items() if each
        )

    def _all(self) -> list[Json]:
        """Return all settings, the most streams first, where they are too few to be screened."""
        if not is_small(self.study):
            return []
        return [
            {**target_level(self.labels, label), **cell}
            for label in self.labels
            for cell in sorted(self.study.cells_at(label), key=streams_of, reverse=True)
        ]

    def _fits(self, seen: Sequence[Screened]) -> Callable[[Sequence[Screened]], bool]:
        """Return whether so many finalists can be confirmed in what is left of the budget."""
        times = {repr(dict(each.factors)): each.seconds for each in seen}
        baseline = [each for each in seen if self._is_baseline(each.factors)]
        left = GRACE * self.study.budget_s - self._spent()
        larger = self.state.get("size_bytes", self.state["screen_bytes"])
        larger /= self.state["screen_bytes"]

        def fits(some: Sequence[Screened]) -> bool:
            block = {repr(dict(each.factors)): each for each in (*some, *baseline)}
            # The ceilings move the same bytes as the leader does.
            seconds = sum(times[name] for name in block) + some[0].seconds
            count = len(block) + len(moving_ceilings(self.study))
            each = seconds * larger * timing.BESIDE + count * timing.BETWEEN_S
            return bool(self.study.repeats * each * len(self.labels) <= left)

        return fits

    def _is_baseline(self, factors: Mapping[str, Any]) -> bool:
        return bool(self.rules.baseline.items() <= dict(factors).items())

    def _spent(self) -> float:
        """Return about how many seconds all trials took so far."""
        return sum(timing.whole_s(line) for line in self.lines)

    def _screen_result(
        self, line: Recorded, seen: Mapping[str, Sequence[Screened]], chosen: Sequence[Screened]
    ) -> Json:
        """Return what became of a screened setting, and why it is not confirmed."""
        if not line.ok:
            why = (line.error and line.error.message) or "failed"
            return {"factors": line.factors, "kept": False, "why": why}
        own = next(each for each in seen[line.label] if each.factors == line.factors)
        best = min(seen[line.label], key=lambda each: each.seconds)
        result = {
            "factors": line.factors,
            "seconds": round(own.seconds, 6),
            "stored_share": round(own.stored_share, 6),
            "kept": own in chosen or self._is_baseline(own.factors),
        }
        if result["kept"]:
            return result
        times, leader = own.seconds / best.seconds, setting(without_target(best.factors))
        why = f"{times:.1f} × the time of {leader}"
        if times <= self.rules.keep:
            why += "; more than four settings, or more than the budget holds, are not confirmed"
        return {**result, "why": why}

    def another(self, seed: int) -> list[Entry]:
        """Return one more block where a median is not known well enough and the budget holds it."""
        from savemark.stats.stopping import open_cells

        done = [entry for entry in self.entries if entry.role == "trial"]
        repeat = 1 + max((entry.repeat for entry in done), default=-1)
        if not done or repeat >= (self.study.max_repeats or MOST_REPEATS):
            return []
        within = WITHIN if self.study.until is None else self.study.until
        last = [line for line in self.lines if line.repeat == repeat - 1 and line.role != "screen"]
        took = sum(timing.whole_s(line) for line in last)
        if took > GRACE * self.study.budget_s - self._spent():
            return []
        return self._blocks([repeat], seed) if open_cells(self.lines, within) else []

    def _blocks(self, repeats: Sequence[int], seed: int) -> list[Entry]:
        """Return blocks of all finalists, the baseline and what bounds them, in balanced order."""
        entries: list[Entry] = []
        treatments = self._treatments()
        orders = blocks(len(treatments), 1 + max(repeats), random.Random(f"{seed}/confirm"))
        for repeat in repeats:
            entries += [replace(treatments[at], repeat=repeat) for at in orders[repeat]]
        return numbered(entries, len(self.entries))

    def _treatments(self) -> list[Entry]:
        """Return everything that a block of the confirmation holds, once."""
        entries = []
        for label in self.labels:
            target = target_level(self.labels, label)
            cells = {repr(c): c for c in self.study.cells_at(label) if self._confirmed(target, c)}
            entries += [
                Entry(0, label, "trial", self.study.workload, 0, {**target, **cell})
                for cell in cells.values()
            ]
            leader = next(f for f in self.state["finalists"] if target.items() <= f.items())
            for name in moving_ceilings(self.study):
                own = self.study.at_streams(name, max(streams_of(leader), 1))
                entries.append(Entry(0, label, "ceiling", own, 0, target))
        return entries

    def _confirmed(self, target: Mapping[str, Any], cell: Mapping[str, Any]) -> bool:
        return {**target, **cell} in self.state["finalists"] or self._is_baseline(cell)

"""Whether two minutes choose the right setting: default runs against a long reference.

    python bench/decide.py SCRATCH [--reference-repeats 12] [--runs 20] [--neighbour] [--keep DIR]

The reference measures every candidate of the default study that often, in blocks of balanced order,
with the size of a default run that comes first (the fastest phase lasts a second with it). Then
come the default runs, `savemark run DIR --json`, one beside the other in one folder, as a user's.
What each says is held against the reference: whether the advised setting is within 5 % of the best,
whether the speeds that are printed of it are within 10 %, and whether the storage speed below which
a codec pays is within 15 %. Each is held by `savemark gate` against the one before, and against the
five before: all are of one place, so an alarm is a false one. With --neighbour a process writes
300 MB/s now and then during the default runs, not during the reference.

`--keep DIR` keeps every result; a reference that is there is used again. On a disk of 2 GB/s the
reference takes a quarter of an hour and 20 runs three quarters.

Expected before the first run: advice within 5 % in 19 of 20, speeds in 18, the codec's threshold in
18. With a neighbour there may be more wrong answers, but each is provisional or none at all.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from sides import goal, say

from savemark.study.shipped import find

ADVICE, SPEED, THRESHOLD = 0.05, 0.10, 0.15
SHORTEST_S = 1.0
# So many runs are held against each: one shows nothing of how runs differ, five do.
BASELINES = (1, 5)
NEIGHBOUR_BYTES_PER_S = 300e6
PHASES = ("save", "restore")
Digest = dict[str, Any]


def main() -> None:
    """Measure the reference and the runs, and print what they come to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--reference-repeats", type=int, default=12)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--budget", help="of a default run; its own if left out")
    parser.add_argument("--neighbour", action="store_true")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.scratch, prefix="savemark-decide-") as made:
        bench = Bench(Path(made), asked.keep or Path(made, "kept"), asked.budget)
        reference = Truth(bench.reference(asked.reference_repeats))
        say_reference(reference)
        start = Neighbour(Path(made)) if asked.neighbour else None
        try:
            runs = [bench.default(number) for number in range(asked.runs)]
        finally:
            if start:
                start.stop()
        gates = {
            count: [bench.gate(before, after) for before, after in in_turn(runs, count)]
            for count in BASELINES
        }
    judge([held_against(reference, *each) for each in runs], neighbour=asked.neighbour)
    judge_gates(gates, neighbour=asked.neighbour)


def in_turn(
    runs: Sequence[tuple[Digest, float]], count: int
) -> Iterator[tuple[Sequence[Digest], Digest]]:
    """Yield each run with so many that came before it."""
    digests = [digest for digest, _ in runs]
    for place in range(count, len(digests)):
        yield digests[place - count : place], digests[place]


@dataclass
class Bench:
    """Where runs are made, and where their results are kept."""

    scratch: Path
    keep: Path
    budget: str | None

    def __post_init__(self) -> None:
        (self.scratch / "place").mkdir()
        self.keep.mkdir(parents=True, exist_ok=True)

    def savemark(self, *words: str) -> Digest:
        """Return the result of a run of the place; run folders lie side by side in the scratch."""
        command = [str(Path(sys.executable).parent / "savemark"), "run", *words]
        done = subprocess.run(
            [*command, str(self.scratch / "place"), "--json"],
            cwd=self.scratch, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if not done.stdout.startswith("{") or '"cells"' not in done.stdout:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        found: Digest = json.loads(done.stdout)
        return found

    def reference(self, repeats: int) -> Digest:
        """Return every candidate measured at length, from the kept file where there is one."""
        kept = self.keep / "reference.json"
        if kept.exists():
            found: Digest = json.loads(kept.read_text())
            return found
        say("one default run, for its size")
        first, _ = self.default(-1)
        head = json.loads((self.scratch / first["run_dir"] / "run.json").read_text())
        if "size_bytes" not in head["race"]:
            raise SystemExit("the default run ended before it chose a size: a longer --budget")
        study = self.scratch / "reference.yaml"
        write_study(study, repeats, int(head["race"]["size_bytes"]))
        say(f"the reference: {repeats} repeats of every candidate")
        found = self.savemark(str(study), "--show-blocked")
        kept.write_text(json.dumps(found))
        return found

    def default(self, number: int) -> tuple[Digest, float]:
        """Return one default run and the seconds that it took, with the report and all."""
        budget = ["--budget", self.budget] if self.budget else []
        start = time.monotonic()
        found = self.savemark(*budget, "--seed", str(number + 1))
        took = time.monotonic() - start
        kept = self.keep / f"run-{time.strftime('%H%M%S')}-{number + 1}.json"
        kept.write_text(json.dumps(found | {"wall_s": took}))
        shutil.copytree(self.scratch / found["run_dir"], kept.with_suffix(""))
        return found, took

    def gate(self, before: Sequence[Digest], after: Digest) -> int:
        """Hold a run against those before it, which did the same; return the exit status."""
        command = [str(Path(sys.executable).parent / "savemark"), "gate", after["run_dir"]]
        for each in before:
            command += ["--baseline", each["run_dir"]]
        done = subprocess.run(
            command, cwd=self.scratch, capture_output=True, text=True, check=False
        )
        if done.returncode:
            say(f"gate: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.returncode


def write_study(file: Path, repeats: int, size: int) -> None:
    """Write the default study without its race: every candidate in every block."""
    yaml = YAML()
    study = yaml.load(find("quick"))
    for name in ("race", "budget"):
        study.pop(name, None)
    study["name"], study["repeats"] = "reference", repeats
    study["defaults"]["size"] = size
    with file.open("w", encoding="utf-8") as out:
        yaml.dump(study, out)


class Neighbour:
    """A process that writes to the same disk now and then, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.process = multiprocessing.Process(target=write_now_and_then, args=(folder / "other",))
        self.process.start()

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.join()


def write_now_and_then(file: Path) -> None:
    """Write 300 MB/s to a file for 3 to 8 seconds, rest for 10 to 30, and so on."""
    rng, part = random.Random(1), os.urandom(30_000_000)
    pause = len(part) / NEIGHBOUR_BYTES_PER_S
    with file.open("wb", buffering=0) as out:
        while True:
            for turn in range(round(rng.uniform(3, 8) / pause)):
                start = time.monotonic()
                os.pwrite(out.fileno(), part, turn % 30 * len(part))
                os.fdatasync(out.fileno())
                time.sleep(max(0.0, pause - (time.monotonic() - start)))
            time.sleep(rng.uniform(10, 30))


class Truth:
    """What the reference says: seconds and speeds by setting, and the codec's threshold."""

    def __init__(self, digest: Digest) -> None:
        self.cells = {cell["setting"]: cell for cell in digest["cells"]}
        self.threshold = threshold(digest)
        self.best = min(self.cells, key=self.total)
        self.shortest_s = min(
            cell[f"{phase}_s_median"] for cell in self.cells.values() for phase in PHASES
        )

    def total(self, setting: str) -> float:
        """The median seconds of a save and a restore."""
        return float(self.cells[setting]["total_s_median"])

    def loss(self, setting: str) -> float:
        """How much longer than the best a setting takes, as a share."""
        return self.total(setting) / self.total(self.best) - 1

    def off(self, cell: Digest) -> float | None:
        """How far a cell's printed speeds are from the reference's, the farther one, as a share."""
        own = self.cells[cell["setting"]]
        names = [f"{phase}_user_bytes_per_s" for phase in PHASES]
        if any(cell[name] is None for name in names):
            return None
        return max(abs(cell[name] / own[name] - 1) for name in names)


def threshold(digest: Digest) -> float | None:
    """The speed of storage below which a codec pays, in bytes per second; None where none does."""
    found = digest["targets"][0].get("codec_pays_below_bytes_per_s")
    return None if found is None else float(found)


@dataclass(frozen=True)
class Result:
    """One default run beside the reference; shares, None where the run says nothing."""

    setting: str | None
    loss: float | None
    off: float | None  # of the advised setting
    all_off: float | None  # of the setting that is farthest off
    threshold_off: float | None
    state: str
    reason: str
    wall_s: float

    @property
    def wrong(self) -> bool:
        """Whether it advises what is more than 5 % slower, or prints speeds that are not so."""
        far = self.loss is not None and self.loss > ADVICE
        return far or (self.off is not None and self.off > SPEED)


def held_against(truth: Truth, digest: Digest, wall_s: float) -> Result:
    """Return what one run says, as far from the truth as it is."""
    answers = digest["targets"][0]["answers"]
    advised = answers[0]["advised"] if answers else None
    setting = advised["setting"] if advised else None
    cells = {cell["setting"]: cell for cell in digest["cells"] if cell["n"]}
    all_off = [off for cell in cells.values() if (off := truth.off(cell)) is not None]
    own = threshold(digest)
    known = own is not None and truth.threshold is not None
    return Result(
        setting=setting,
        loss=truth.loss(setting) if setting else None,
        off=truth.off(cells[setting]) if setting else None,
        all_off=max(all_off, default=None),
        threshold_off=abs(own / truth.threshold - 1) if known else None,
        state=digest["state"],
        reason=digest["reason"],
        wall_s=wall_s,
    )


def say_reference(truth: Truth) -> None:
    """Print the settings as the reference has them, the fastest first."""
    say(f"reference, shortest phase {truth.shortest_s:.2f} s:")
    if truth.shortest_s < SHORTEST_S:
        say(f"  its phases should last {SHORTEST_S:g} s; this place does not hold enough for that")
    for setting in sorted(truth.cells, key=truth.total):
        cell = truth.cells[setting]
        speeds = [cell[f"{phase}_user_bytes_per_s"] / 1e9 for phase in PHASES]
        say(
            f"  {setting:12} {truth.total(setting):7.3f} s  +{truth.loss(setting):6.1%}  "
            f"save {speeds[0]:5.2f} GB/s  restore {speeds[1]:5.2f} GB/s  n = {cell['n']}"
        )
    if truth.threshold:
        say(f"  a codec pays below {truth.threshold / 1e9:.2f} GB/s")


def judge(results: list[Result], *, neighbour: bool) -> None:
    """Print a line per run, then the shares that matter; fail where a goal is missed."""
    say("run  advised       loss    speeds off  all off  threshold off    wall  state")
    for number, each in enumerate(results, 1):
        shares = [each.loss, each.off, each.all_off, each.threshold_off]
        text = ["–" if share is None else f"{share:.1%}" for share in shares]
        say(
            f"{number:3}  {each.setting or '–':12} {text[0]:>6}  {text[1]:>10}  {text[2]:>7}  "
            f"{text[3]:>13}  {each.wall_s:5.0f} s  {each.state}"
            + (f": {each.reason}" if each.reason else "")
        )
    within = {
        "advice within 5 % of the best": (0.95, [(r.loss, ADVICE) for r in results]),
        "speeds within 10 %": (0.9, [(r.off, SPEED) for r in results]),
        "threshold of codecs within 15 %": (0.9, [(r.threshold_off, THRESHOLD) for r in results]),
    }
    missed = []
    for name, (least, pairs) in within.items():
        met = sum(share is not None and share <= most for share, most in pairs)
        goal(f"{name}, of {len(pairs)} runs", met, least * len(pairs))
        missed += [name] if met < least * len(pairs) else []
    trusted = sum(each.wrong and each.state == "trusted" for each in results)
    goal("wrong answers that are trusted", trusted, 0, most=True)
    say(f"  trusted: {sum(each.state == 'trusted' for each in results)} of {len(results)}")
    if (missed and not neighbour) or trusted:
        raise SystemExit("the default run is wrong more often than it may be")


def judge_gates(gates: Mapping[int, Sequence[int]], *, neighbour: bool) -> None:
    """Print how often a run is an alarm beside those before; fail where it is too often."""
    for count, found in gates.items():
        of = f"of {len(found)} gates with {count} baseline{'s' if count > 1 else ''}"
        for status, name in ((3, "alarms"), (1, "runs that lack a setting"), (2, "runs refused")):
            many = sum(each == status for each in found)
            goal(f"{name}, {of}", many, 1 if status == 3 else 0, most=True)
    if not neighbour and any(sum(map(bool, found)) > 1 for found in gates.values()):
        raise SystemExit("two runs of one place are told apart")


if __name__ == "__main__":
    main()

"""What was observed of each subject, beside what it promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
OUTCOMES = ("current", "old", "torn", "lost")


@dataclass(slots=True)
class Finding:
    """All crashes of one subject; counts by outcome."""

    subject: str
    contract: str
    can_tear: bool
    kills: int = 0
    points: dict[str, int] = field(default_factory=dict)  # power losses, by filesystem
    boundaries: int = 0
    at_rest: Counter[str] = field(default_factory=Counter)
    in_save: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    torn_on: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The worst that was seen, in words."""
        seen = self.at_rest + self.in_save + self.killed
        words = (("torn", "may be torn"), ("lost", "may be lost"), ("old", "may be old"))
        return next((word for outcome, word in words if seen[outcome]), "always whole")

    @property
    def note(self) -> str:
        """Whether what was seen is what was promised."""
        if self.broken:
            return f"BROKEN {self.broken} times"
        if self.can_tear and self.verdict != "may be torn":
            return "kept (no tear was caught)"
        return "kept"

    def add(self, result: Json) -> None:
        """Count one job's report."""
        job, report = result["job"], result["report"]
        tally = report["tally"]
        if job["crash"] == "kill":
            self.kills += report["points"]
            self.killed.update(tally["at_rest"])
            self.killed.update(tally["in_save"])
        else:
            place = job["filesystem"]
            self.points[place] = self.points.get(place, 0) + report["points"]
            self.boundaries += report["boundaries"]
            self.at_rest.update(tally["at_rest"])
            self.in_save.update(tally["in_save"])
            self.torn_on[place] += tally["at_rest"]["torn"] + tally["in_save"]["torn"]
        self.broken += tally["broken"]
        self.examples += [f"{job['crash']}, {text}" for text in tally["examples"]]

    def as_json(self) -> Json:
        """As `--json` prints it."""
        return {
            "subject": self.subject,
            "contract": self.contract,
            "verdict": self.verdict,
            "kept": not self.broken,
            "broken": self.broken,
            "examples": self.examples,
            "kills": self.kills,
            "points": self.points,
            "boundaries": self.boundaries,
            "at_rest": {name: self.at_rest[name] for name in OUTCOMES},
            "in_save": {name: self.in_save[name] for name in OUTCOMES},
            "killed": {name: self.killed[name] for name in OUTCOMES},
        }


def collect(contracts: list[Json], results: list[Json]) -> list[Finding]:
    """One finding per subject that was tested, in the order of the contracts."""
    findings = {
        each["subject"]: Finding(each["subject"], each["contract"], each["can_tear"])
        for each in contracts
    }
    for result in results:
        findings[result["job"]["subject"]].add(result)
    return [finding for finding in findings.values() if finding.points or finding.kills]

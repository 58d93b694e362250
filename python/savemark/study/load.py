"""Reads a study file. Every error names file, line, path and the nearest right key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from savemark import escape, limits, untrusted
from savemark.errors import SavemarkError, did_you_mean, from_exception, usage
from savemark.study import bounded, mounts, streams, until
from savemark.study.keys import Keys, Trial
from savemark.study.model import Study
from savemark.study.race import Race
from savemark.study.shipped import is_shipped

FIELDS = [
    "name",
    "title",
    "budget",
    "repeats",
    "until",
    "max_repeats",
    "order",
    "defaults",
    "ceilings",
    "trial",
    "factors",
    "exclude",
    "parts",
    "race",
    "checks",
    "mount",
    "expect",
]
OF_A_PART = ["trial", "factors", "exclude"]
RACE = ["baseline", "keep", "finalists"]
MOST_KEPT, MOST_FINALISTS = 100, 100
# What a study may be called: run folders and jobs are named after it.
NAME = re.compile(r"\w[\w ._:+@,=%()#-]{0,99}")
ORDERS = ["balanced", "listed"]


def load(file: Path, keys: Keys) -> Study:
    """Read and validate one study file."""
    return _Reader(file, keys).study()


def parse(file: Path) -> CommentedMap:
    """Read YAML 1.2; a syntax error or a duplicate key names its line."""
    try:
        text = untrusted.read(file, limits.LARGEST_STUDY).decode("utf-8")
    except OSError as error:
        raise usage(
            f"{file}: {error.strerror}", "`savemark studies` lists the shipped ones"
        ) from None
    except UnicodeDecodeError as error:
        raise usage(f"{file}: not YAML: {error}") from None
    root = bounded.load(file, text)
    if not isinstance(root, CommentedMap):
        raise usage(f"{file}:1: a study is a mapping of keys", f"its keys: {', '.join(FIELDS)}")
    return root


class _Reader:
    def __init__(self, file: Path, keys: Keys) -> None:
        self.file = file
        self.keys = keys
        self.root = parse(file)
        self.places: dict[str, str] = {}
        # What the trials do where a section does not say so itself.
        self.workload = _workload(self.root)

    def study(self) -> Study:
        root = self.root
        for field in root:
            if field not in FIELDS:
                self.fail(root, field, "", f"unknown key `{field}`", did_you_mean(field, FIELDS))
        if "trial" not in root and "parts" not in root:
            raise usage(f"{self.file}: `trial` is missing", "trial: {workload: checkpoint}")
        name = self.text("name", self.file.stem)
        if not NAME.fullmatch(name):
            raise usage(
                f"{self.file}: name: `{escape.one_line(name)}` is no name of a study",
                "letters, digits, spaces and ._:+-@,=%()#, at most 100, a letter or digit first",
            )
        factors = self.factors(root, "")
        return Study(
            name=name,
            title=self.text("title", name),
            budget_s=self.budget(),
            repeats=self.repeats(),
            until=self.until(),
            max_repeats=self.max_repeats(),
            order=self.order(),
            defaults=self.section(root, "defaults", ""),
            ceilings=self.ceilings(),
            trial=self.section(root, "trial", ""),
            factors=factors,
            exclude=self.exclude(root, "", list(factors)),
            parts=self.parts(list(factors)),
            race=self.race(list(factors)),
            checks=self.checks(),
            mounts=self.mounts(),
            expect=self.expect(),
            places=self.places,
        )

    def fail(
        self, node: CommentedMap, key: object, path: str, message: str, hint: str | None = None
    ) -> NoReturn:
        """Raise the usage error of `key` in `node`, which stands at `path`."""
        full = f"{path}.{key}" if path else str(key)
        raise usage(f"{self.place(node, key)}: {full}: {message}", hint)

    def place(self, node: CommentedMap, key: object) -> str:
        try:
            line = node.lc.key(key)[0]
        except KeyError:  # it came with `<<`: the line of the mapping that takes it in
            line = node.lc.line
        return f"{self.file}:{line + 1}"

    def text(self, field: str, default: str) -> str:
        value = self.root.get(field, default)
        if not isinstance(value, str):
            self.fail(self.root, field, "", "expected text")
        return str(value)

    def budget(self) -> float:
        value = self.root.get("budget", "2m")
        import savemark._engine as engine

        try:
            seconds = engine.parse_span(str(value))
        except engine.EngineError as error:
            self.fail(self.root, "budget", "", error.message, "budget: 2m")
        return seconds

    def repeats(self) -> int:
        value = self.root.get("repeats", 5)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.fail(self.root, "repeats", "", "expected a whole number of at least 1")
        return int(value)

    def until(self) -> float | None:
        value = self.root.get("until")
        try:
            return None if value is None else until.parse(str(value))
        except SavemarkError as error:
            self.fail(self.root, "until", "", error.message.removeprefix("until: "), error.hint)

    def max_repeats(self) -> int | None:
        value = self.root.get("max_repeats")
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < until.LEAST_REPEATS:
            message = f"expected a whole number of at least {until.LEAST_REPEATS}"
            self.fail(self.root, "max_repeats", "", message)
        if "until" not in self.root:
            self.fail(self.root, "max_repeats", "", "there is no `until` to cap", "until: ci<3%")
        return int(value)

    def order(self) -> str:
        value = self.root.get("order", ORDERS[0])
        if value not in ORDERS:
            self.fail(
                self.root, "order", "", f"unknown order `{value}`", did_you_mean(str(value), ORDERS)
            )
        return str(value)

    def mapping(self, node: CommentedMap, key: str, path: str) -> CommentedMap:
        value = node.get(key)
        if value is None:
            return CommentedMap()
        if not isinstance(value, CommentedMap):
            self.fail(node, key, path, "expected a mapping of keys")
        return value

    def section(self, node: CommentedMap, key: str, path: str) -> Trial:
        """Read the keys of a trial."""
        section = self.mapping(node, key, path)
        here = f"{path}.{key}" if path else key
        # A shipped file is right: what is wrong there came from a flag.
        if key in node and not is_shipped(self.file):
            self.places[here] = self.place(node, key)
        return {str(name): self.value(section, name, here, section[name]) for name in section}

    def value(self, node: CommentedMap, name: str, path: str, value: object) -> Any:
        """Read one value of a trial's key; the engine checks it again with the whole trial."""
        if name == "target":
            self.fail(
                node, name, path, "targets are given on the command line", "savemark run PATH"
            )
        workload = node.get("workload", self.workload)
        known = list(self.keys.accepted(workload, None)) if workload else list(self.keys.by_name)
        if name not in (known if path != "defaults" else self.keys.by_name):
            self.fail(node, name, path, f"unknown key `{name}`", did_you_mean(name, known))
        if isinstance(value, CommentedMap | CommentedSeq):
            self.fail(node, name, path, "expected one value", "several values make a factor")
        try:
            return self.keys.key(name).read(value)
        except Exception as error:
            shown = from_exception(error)
            if shown is None:
                raise
            self.fail(node, name, path, shown.message, shown.hint)

    def parts(self, common: list[str]) -> dict[str, dict[str, Any]]:
        """Read the parts of a study that has several workloads."""
        node, parts = self.mapping(self.root, "parts", ""), {}
        whole = self.workload
        for name in node:
            part, here = self.mapping(node, name, "parts"), f"parts.{name}"
            for key in part:
                if key not in OF_A_PART:
                    hint = did_you_mean(str(key), OF_A_PART)
                    self.fail(part, key, here, f"unknown key `{key}`", hint)
            self.workload = _workload(part) or whole
            if self.workload is None:
                self.fail(node, name, "parts", "`trial.workload` is missing")
            factors = self.factors(part, here)
            parts[str(name)] = {
                "trial": self.section(part, "trial", here),
                "factors": factors,
                "exclude": self.exclude(part, here, [*common, *factors]),
            }
            if not is_shipped(self.file):
                self.places[here] = self.place(node, name)
        self.workload = whole
        return parts

    def ceilings(self) -> dict[str, Trial]:
        node = self.mapping(self.root, "ceilings", "")
        for name in node:
            if "workload" not in self.mapping(node, name, "ceilings"):
                known = ", ".join(sorted(self.keys.workloads))
                self.fail(node, name, "ceilings", "`workload` is missing", f"one of: {known}")
        return {str(name): self.section(node, name, "ceilings") for name in node}

    def factors(self, parent: CommentedMap, path: str) -> dict[str, list[Any]]:
        node, here = self.mapping(parent, "factors", path), f"{path}.factors".lstrip(".")
        factors: dict[str, list[Any]] = {}
        for name, levels in node.items():
            if not isinstance(levels, CommentedSeq) or not levels:
                self.fail(node, name, here, "expected a list of levels", f"{name}: [a, b]")
            read = [self.value(node, name, here, level) for level in levels]
            if len({repr(level) for level in read}) < len(levels):
                self.fail(node, name, here, "a level is listed twice")
            factors[str(name)] = streams.settled(read) if name == streams.NAME else read
        return factors

    def exclude(self, parent: CommentedMap, path: str, factors: list[str]) -> list[dict[str, Any]]:
        rules = parent.get("exclude", CommentedSeq())
        if not isinstance(rules, CommentedSeq) or not all(
            isinstance(r, CommentedMap) for r in rules
        ):
            self.fail(
                parent,
                "exclude",
                path,
                "expected a list of mappings",
                "- {codec: tar, streams: 2}",
            )
        for rule in rules:
            for name in rule:
                if name not in factors:
                    self.fail(
                        rule, name, "exclude", "not a factor", did_you_mean(str(name), factors)
                    )
        return [{name: _plain(level) for name, level in rule.items()} for rule in rules]

    def race(self, factors: list[str]) -> Race | None:
        """Read how the best setting is looked for: `race: {baseline: {codec: none}, keep: 1.5}`."""
        if "race" not in self.root:
            return None
        node = self.mapping(self.root, "race", "")
        for name in node:
            if name not in RACE:
                self.fail(node, name, "race", f"unknown key `{name}`", did_you_mean(name, RACE))
        base = self.mapping(node, "baseline", "race")
        for name in base:
            if name not in factors:
                hint = did_you_mean(str(name), factors)
                self.fail(base, name, "race.baseline", "not a factor", hint)
        levels = {str(n): self.value(base, n, "race.baseline", base[n]) for n in base}
        keep, most = node.get("keep", Race.keep), node.get("finalists", Race.finalists)
        if not _is_number(keep, int | float) or not 1 <= keep <= MOST_KEPT:
            self.fail(node, "keep", "race", f"expected a number from 1 to {MOST_KEPT}")
        if not _is_number(most, int) or not 1 <= most <= MOST_FINALISTS:
            message = f"expected a whole number from 1 to {MOST_FINALISTS}"
            self.fail(node, "finalists", "race", message)
        return Race(levels, float(keep), int(most))

    def mounts(self) -> list[dict[str, str]]:
        """Read how buckets are mounted: names of tools that are known, or commands."""
        if "mount" not in self.root:
            return []
        try:
            return mounts.parse(self.root["mount"])
        except SavemarkError as error:
            self.fail(self.root, "mount", "", error.message, error.hint)

    def expect(self) -> list[str]:
        """Read what the figures have to be; each line is one expectation."""
        if "expect" not in self.root:
            return []
        from savemark.study import expect

        lines, expectations = self.root["expect"], []
        if not isinstance(lines, CommentedSeq):
            self.fail(self.root, "expect", "", "expected a list", f"- {expect.EXAMPLE}")
        for place, line in enumerate(lines):
            try:
                expectations.append(expect.parse(expect.written(line)).text)
            except SavemarkError as error:
                where = f"{self.file}:{lines.lc.item(place)[0] + 1}"
                raise usage(f"{where}: expect[{place}]: {error.message}", error.hint) from None
        return expectations

    def checks(self) -> dict[str, dict[str, float]]:
        """Read the limits of honesty checks that this study sets: `HC-13: {seconds: 300}`."""
        node = self.mapping(self.root, "checks", "")
        if not node:
            return {}
        from savemark.checks import catalogue

        known = {entry.id: list(entry.limits) for entry in catalogue() if entry.limits}
        for name in node:
            if name not in known:
                hint = did_you_mean(str(name), list(known))
                self.fail(node, name, "checks", "no check with a limit to set", hint)
            for limit, value in self.mapping(node, name, "checks").items():
                path = f"checks.{name}"
                if limit not in known[name]:
                    hint = did_you_mean(str(limit), known[name])
                    self.fail(node[name], limit, path, f"unknown key `{limit}`", hint)
                if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
                    self.fail(node[name], limit, path, "expected a number of at least 0")
        return {
            str(name): {str(key): float(value) for key, value in limits.items()}
            for name, limits in node.items()
        }


def _workload(node: CommentedMap) -> object:
    trial = node.get("trial")
    return trial.get("workload") if isinstance(trial, CommentedMap) else None


def _is_number(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _plain(value: object) -> Any:
    return list(value) if isinstance(value, CommentedSeq) else value

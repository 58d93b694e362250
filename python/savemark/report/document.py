"""What a report is made of, whatever format it is written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from savemark.advice.next_step import Step
    from savemark.advice.verdict import State
    from savemark.checks import Finding
    from savemark.checks import Verdict as Severity


@dataclass(frozen=True, slots=True)
class Datum:
    """One field of a table: what is read, what it sorts by, what a page shows on hover."""

    text: str
    sort: float | str | None = None
    tip: str = ""
    tone: str = ""  # what it means for its look: name, mark, quiet, blocked, why, passed, lost …
    bar: float | None = None  # 0..1, drawn behind the text
    missing: bool = False  # a number that is not known, or not shown: last in any order

    @property
    def number(self) -> bool:
        """Whether it belongs on the right."""
        return self.missing or isinstance(self.sort, int | float)


MISSING = Datum("–", missing=True)
BLANK = Datum("", missing=True)


def quantity(value: float | None, words: Callable[[float], str]) -> Datum:
    """A number in the words of a reader, or a dash."""
    return MISSING if value is None else Datum(words(value), value)


@dataclass(frozen=True, slots=True)
class Line:
    """One row; `levels` are the values that a filter asks for, by the name of the factor."""

    data: list[Datum]
    levels: dict[str, str] = field(default_factory=dict)
    tone: str = ""  # best, tied, lost, slower, faster …


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; `groups` are (title, number of columns) above the column heads."""

    name: str
    title: str
    columns: list[str]
    lines: list[Line]
    note: str = ""
    groups: list[tuple[str, int]] = field(default_factory=list)
    sortable: bool = False
    section: str = "study"  # of the report, where a study adds the table
    brief: bool = False  # whether a terminal shows it, too


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Short texts, each on a line of its own."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Text that keeps its lines and its spaces."""

    title: str
    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Links:
    """Files beside the report: the path of each, and what is in it."""

    text: str
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn figure: panels as (title, SVG), and its files below figures/, without endings."""

    name: str
    title: str
    caption: str
    panels: tuple[tuple[str, str], ...]
    files: tuple[str, ...]
    columns: int  # panels side by side on a wide page
    wide: bool  # scrolled on a narrow screen, not shrunk


@dataclass(frozen=True, slots=True)
class Message:
    """What was seen and why, and what to do about it; of all findings with that remedy."""

    kind: str
    verdict: Severity
    ids: tuple[str, ...]
    seen: str
    remedy: str

    @property
    def text(self) -> str:
        """Both sentences."""
        return f"{self.seen} {self.remedy}".strip()


@dataclass(frozen=True, slots=True)
class Checks:
    """The findings of all checks, and those that fired as messages."""

    validity: str
    messages: tuple[Message, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """One target at its best setting: user bytes per second of save and restore."""

    label: str
    setting: str
    save: float
    restore: float
    colour: str


@dataclass(frozen=True, slots=True)
class Interval:
    """How often a job should save: a table of one job, which a page computes for others."""

    text: str
    table: Table
    places: tuple[Place, ...]  # of each line
    state: float  # bytes
    mtbf: float  # seconds
    restart: float  # seconds


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks behind a title, which a page opens on a click; an `aside` is of little interest."""

    title: str
    blocks: tuple[Block, ...]
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """The speed of one phase, each part as it is read; empty where it is not known."""

    phase: str
    value: str
    unit: str
    interval: str
    kind: str  # what the brackets are: `95 %`
    limit: str  # `97 % of the disk`
    times: str  # `2.1 × one file`


@dataclass(frozen=True, slots=True)
class Spoken:
    """One answer; `lines` are (label, text)."""

    about: str
    state: State
    title: str
    sentence: str
    numbers: tuple[Number, ...]
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first screen: what is the answer, what stands against it, and what to do next."""

    state: State
    reason: str
    sentences: tuple[str, ...]
    expected: str  # how many expectations were met, in a sentence
    answers: tuple[Spoken, ...]  # empty where the sentences say all: of a score, of several parts
    caveats: str
    step: Step | None
    cost: str  # of that step
    pictures: tuple[Picture, ...]


Block = Text | Lines | Code | Links | Table | Picture | Checks | Interval | Fold


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks below a title; `filters` are the levels of each factor that a reader may choose."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    note: str = ""
    open: bool = False
    filters: dict[str, list[str]] | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A report, before it is HTML, Markdown or anything else."""

    title: str
    question: str
    when: str
    expected: tuple[Table, ...]
    verdict: Verdict
    sections: tuple[Section, ...]

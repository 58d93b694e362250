"""Text from outside, made harmless where it is shown: a page, Markdown, a terminal, a spreadsheet.

Names of studies, labels, paths, messages of other programs: whoever made a run folder or a result
file chose them. JSON needs nothing from here, for `json.dumps` escapes all that is not ASCII.
"""

from __future__ import annotations

import html as _html
import re

# What a terminal obeys, or what changes the order in which text is read, and what no XML may hold.
# Characters for characters, so that columns stay aligned: ␛ for ESC, � where there is no picture.
_CONTROLS = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_INVISIBLE = (
    *range(0x80, 0xA0),  # C1: on some terminals as good as ESC
    *(0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)),  # order, lines
    *range(0xD800, 0xE000),  # halves of a character, of names that are not UTF-8
    *(0xFFFE, 0xFFFF),
)
_ONE_LINE = _CONTROLS | dict.fromkeys(_INVISIBLE, 0xFFFD)
_LINES = {code: shown for code, shown in _ONE_LINE.items() if chr(code) not in "\n\t"}
# What begins a formula in spreadsheets, also after spaces (OWASP, CSV injection).
_FORMULA = re.compile(r"\s*[=+\-@\uff0b\uff0d\uff1d\uff20]")
# What Markdown may take for markup: anywhere, where it ends the text of a link or of what links
# refer to, around a word, or where it begins a line.
_MARKUP = re.compile(
    r"[\\`*|]|\](?=[(\[:]|$)|~(?=~)|(?<=~)~|(?<!\w)_|_(?!\w)"
    r"|^(?:>|[#+-](?=[#\s-]|$)|=(?==)|\d+(?=[.)]\s))"
)


def printable(text: str) -> str:
    """Return the text for a terminal: control characters as pictures; line ends and tabs stay."""
    return text if text.isprintable() else text.translate(_LINES)


def one_line(text: str) -> str:
    """As `printable`, and no more than one line."""
    return text if text.isprintable() else text.translate(_ONE_LINE)


def html(text: str) -> str:
    """Return the text for HTML, SVG or the value of an attribute in quotes."""
    return _html.escape(printable(text))


def markdown(text: str) -> str:
    """Return the text as one line of Markdown, also in a table, that says what it says."""
    words = one_line(" ".join(text.splitlines()) if not text.isprintable() else text)
    marked = _MARKUP.sub(lambda found: _backslash(found[0]), words)
    # Last, and as entities: not all programs know a backslash before these.
    return marked.replace("&", "&amp;").replace("<", "&lt;")


def cell(text: str) -> str:
    """As `markdown`, in a table, where a space comes next: an interval keeps its brackets."""
    return markdown(f"{text} ")[:-1]


def fenced(text: str, language: str = "") -> list[str]:
    """Return the lines of a Markdown block that shows the text as it is."""
    body = printable(text)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", body, fence]


def csv(value: object) -> object:
    """Return a field of a CSV file: a text that a spreadsheet would compute gets a `'` before it.

    Numbers, and texts that are a number, stay.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    starts = text[:1] in ("\t", "\n") or _FORMULA.match(text)
    return f"'{text}" if starts and not _is_number(text) else text


def _backslash(found: str) -> str:
    # A list's number is told by the dot after it: `1.` becomes `1\.` where the dot is matched.
    return f"{found}\\" if found.isdigit() else f"\\{found}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None

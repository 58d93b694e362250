"""Errors as users meet them: what happened, what to do, and the exit code."""

from __future__ import annotations

from typing import Literal

Kind = Literal["failed", "usage", "outside", "corrupt", "refused", "interrupted"]

EXIT_CODES: dict[Kind, int] = {
    "failed": 1,
    "usage": 2,
    "outside": 3,
    "corrupt": 4,
    "refused": 5,
    "interrupted": 130,
}


class SavemarkError(Exception):
    """What happened and where (`message`), what to do (`hint`); `kind` decides the exit code."""

    def __init__(self, kind: Kind, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        # A file's name may be no UTF-8; it can be printed and written down all the same.
        self.message = message.encode("utf-8", "backslashreplace").decode()
        self.hint = hint and hint.encode("utf-8", "backslashreplace").decode()

    def __str__(self) -> str:
        """Return what a traceback shows: what happened, and what to do."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    @property
    def exit_code(self) -> int:
        """The documented exit code of this kind."""
        return EXIT_CODES[self.kind]

    def as_json(self) -> dict[str, str | None]:
        """Return the form used in records and under `--json`."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint}


class RankLost(SavemarkError):  # noqa: N818  (as with the others, what happened)
    """A process of those that work together is gone or hangs: nothing more can be measured."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__("failed", message, hint)


class Inexpressible(SavemarkError):  # noqa: N818  (as with the others, what happened)
    """Another tool cannot do what a trial asks of it: a usage error, or a setting left out.

    `any_value` is the message without the value that was asked for, where that does not matter.
    """

    def __init__(self, message: str, hint: str | None = None, any_value: str = "") -> None:
        super().__init__("usage", message, hint)
        self.any_value = any_value or message


def usage(message: str, hint: str | None = None) -> SavemarkError:
    """Build the error of a wrong argument, option or study."""
    return SavemarkError("usage", message, hint)


def refused(message: str, hint: str | None = None) -> SavemarkError:
    """Build the error of something that would not have been safe or honest."""
    return SavemarkError("refused", message, hint)


def from_exception(error: BaseException) -> SavemarkError | None:
    """Return the error to show for `error`, or None where it is a bug of ours."""
    if isinstance(error, SavemarkError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return SavemarkError("interrupted", "interrupted")
    if isinstance(error, ModuleNotFoundError) and error.name == "savemark._engine":
        return SavemarkError(
            "failed", "the savemark engine is not built", "build it: pip install . (needs Rust)"
        )
    # By its attributes, not its class: naming the class would load the engine.
    kind, message = getattr(error, "kind", None), getattr(error, "message", None)
    if kind in EXIT_CODES and isinstance(message, str):
        return SavemarkError(kind, message, getattr(error, "hint", None))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return SavemarkError("failed", f"{where}{error.strerror or error}")
    return None


def nearest(word: str, known: list[str]) -> str | None:
    """Return the known word that is most like `word`, or None where none is near."""
    from difflib import get_close_matches

    matches = get_close_matches(word, known, n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(word: str, known: list[str]) -> str:
    """Return the hint for an unknown word: the nearest one, or all of them."""
    near = nearest(word, known)
    return f"did you mean `{near}`?" if near else f"known here: {', '.join(sorted(known))}"

"""savemark: how fast can this storage save and restore my state, is that true, what to change."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from savemark.api import restore, save
    from savemark.errors import SavemarkError

__all__ = ["SavemarkError", "restore", "save"]


def __dir__() -> list[str]:
    """Return the names of this module with those that are loaded when asked for, as help shows."""
    return sorted({*globals(), *__all__, "__version__"})


def __getattr__(name: str) -> Any:
    """Load what is asked for, so that `--help` reads neither package metadata nor the engine."""
    if name == "__version__":
        from importlib.metadata import version

        return version("savemark")
    if name in ("save", "restore"):
        from savemark import api

        return getattr(api, name)
    if name == "SavemarkError":
        from savemark.errors import SavemarkError

        return SavemarkError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""`savemark.save` and `savemark.restore`: a state in memory to storage and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from savemark.checkpoint import index, places, transfer
from savemark.errors import SavemarkError, from_exception, usage

Json = dict[str, Any]
Result = TypeVar("Result")


def save(
    state: object,
    url: str,
    *,
    keep: int | None = None,
    progress: transfer.Progress | None = None,
    released: Callable[[], object] | None = None,
    **options: object,
) -> Json:
    """Save a state durably as the checkpoint `url`, in place of the one that is there.

    `state` is bytes, a numpy array, a torch tensor on the CPU or a CUDA GPU, an object with
    `__cuda_array_interface__` (cupy), or dicts, lists and tuples of them, of numbers, text and
    None. Nobody may write to it until this returns, or `released` was called: that is called once,
    in any case, and where something is on GPUs as soon as all was copied (the report's `stall_ns`).
    An array that is not contiguous is copied first; on a GPU, if it is torch's. With `keep`, `url`
    is a directory of checkpoints of which the newest `keep` stay. `options` are those of `savemark
    save`: codec, level, streams, chunk_size, queue_depth, storage, direct, and for a bucket
    part_size, concurrency, retries, timeout; and `staging`: pinned memory at most. `progress` gets
    phase, done_bytes and total_bytes.

    Returns a report: sizes in bytes, times in nanoseconds. Raises SavemarkError (attributes kind,
    message, hint); KeyboardInterrupt leaves the previous checkpoint in place.
    """
    import savemark._engine as engine

    once = _Once(released)

    def act() -> Json:
        text, layout = index.write(state)

        def write(trial: str) -> str:
            lent = layout.lent, layout.bytes, progress, layout.on_gpus, once
            return engine.save_state(trial, text, *lent)

        return transfer.save(str(url), write, options, keep)

    try:
        return _translated(act)
    finally:
        once()


class _Once:
    """Calls what it was made with, the first time that it is called."""

    def __init__(self, act: Callable[[], object] | None) -> None:
        self._act = act

    def __call__(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


def restore(
    url: str,
    into: object | None = None,
    *,
    progress: transfer.Progress | None = None,
    **options: object,
) -> Any:
    """Restore the checkpoint `url` (of several, the newest complete one); every byte is verified.

    With `into`, a state of the same tree, dtypes and shapes, its arrays are filled in place and it
    is returned; after an error they may hold anything. What is on a GPU is filled there. Without,
    numpy arrays and torch tensors come back as what they were, in the memory of this machine, not
    of its GPUs. Nothing of the checkpoint is executed. `options` are those of
    `savemark restore`. Raises SavemarkError, of kind `corrupt` where data is not what was saved.
    """
    import savemark._engine as engine

    def read() -> Any:
        where = places.at(str(url), options).newest()
        trial = where.trial(options)
        found = engine.read_index(trial)
        if found is None:
            raise usage(f"{where} holds files", f"savemark restore {where} DIRECTORY")
        text, name, data_bytes = found
        finish, plan = index.Reader(text, data_bytes).read(into)
        engine.restore_state(trial, name, plan.lent, progress, plan.on_gpus)
        for step in plan.after:
            step()
        return finish()

    return _translated(read)


def _translated(act: Callable[[], Result]) -> Result:
    """Turn the engine's errors into the one that users catch."""
    try:
        return act()
    except SavemarkError:
        raise
    except Exception as error:
        known = from_exception(error)
        if known is None:
            raise
        if known.kind == "interrupted":
            raise KeyboardInterrupt from None
        raise known from error

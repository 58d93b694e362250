"""`savemark.save` and `savemark.restore`: a state in memory to storage and back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from savemark import places
from savemark.checkpoint import changed, filling, index, listing, nodes, processes, transfer
from savemark.checkpoint.options import RestoreOptions, SaveOptions, spelt_out
from savemark.errors import SavemarkError, from_exception, usage
from savemark.launcher import Rank
from savemark.places import Place

Result = TypeVar("Result")


@spelt_out(SaveOptions)
def save(
    state: object,
    url: str | os.PathLike[str],
    *,
    keep: int | None = None,
    ranks: processes.Ranks | None = None,
    progress: transfer.Progress | None = None,
    released: Callable[[], object] | None = None,
    **options: Unpack[SaveOptions],
) -> transfer.Report:
    """Save a state durably as the checkpoint `url`, in place of the one that is there.

    `state` is bytes, a numpy array, a torch tensor on the CPU or a CUDA GPU, an object with
    `__cuda_array_interface__` (cupy), or dicts, lists and tuples of them, of numbers, text and
    None, up to 100 within each other. What would come back as another type is refused by name.
    An array with gaps is copied first; on a GPU, if it is torch's.

    Nobody may write to the state until this returns, or `released` was called: that is called
    once, when the save has ended well, and where something is on GPUs as soon as all was copied,
    though it is not durable then. It is not called where the save fails before.

    With `keep`, `url` is a directory of checkpoints of which the newest `keep` stay. One of several
    ranks is refused, unless it says that its checkpoint stands alone: `ranks="independent"`.
    The other arguments are the options of `savemark save` (docs/reference/trial.md), and `staging`:
    pinned memory at most. Sizes and times are numbers (bytes, seconds) or text: `16MiB`, `2m`.
    `progress` gets {phase, done_bytes, total_bytes} about ten times a second.

    Returns a report: `checkpoint` (its place), `id`, `codec`, `library` (that encoded it),
    `streams`, `user_bytes`, `stored_bytes`, `elapsed_ns`, `cpu_ns`, `stall_ns` (until the state
    might be changed), `buffer_bytes`, `durable`, `verified`, `path` (which storage ran, and notes)
    and `removed` (names, with `keep`); sizes in bytes, times in nanoseconds.

    Raises SavemarkError (attributes kind, message, hint), and what `progress` or `released` raise.
    After each error the previous checkpoint is in place; after KeyboardInterrupt too, or the new
    one, whole, if it was complete by then.
    """
    import savemark._engine as engine

    calls = [_Callback(progress), _Callback(released)]

    def act() -> transfer.Report:
        where = _place(url, options)
        mine = _rank(ranks, "save")
        if mine is not None:
            _check_owner(where, options, mine)
        text, layout = index.write(state, mine)

        def write(trial: str) -> str:
            lent = layout.lent, layout.bytes, calls[0].given, layout.on_gpus, calls[1].given
            try:
                return engine.save_state(trial, text, *lent)
            except Exception as error:
                known = changed.explained(error, text)
                if known is None:
                    raise
                raise known from error

        return transfer.save(str(where), write, options, keep)

    return _translated(act, calls)


@spelt_out(RestoreOptions)
def restore(
    url: str | os.PathLike[str],
    into: object | None = None,
    *,
    ranks: processes.Ranks | None = None,
    progress: transfer.Progress | None = None,
    **options: Unpack[RestoreOptions],
) -> Any:
    """Restore the checkpoint `url` (of several, the newest complete one); every byte is verified.

    With `into`, a state of the same tree, kinds, dtypes and shapes, its arrays are filled in place,
    on a GPU what is there, its numbers and text are replaced, and it is returned; a tuple is
    returned as a new one. Where it has None, or an empty dict or list, what the checkpoint has
    comes as without `into`. All differences are told at once, before anything is filled; after
    data that is damaged its arrays may hold anything. Without `into`, numpy arrays and torch
    tensors come back as what they were, in the memory of this machine, not of its GPUs. Nothing of
    the checkpoint is executed.

    One of several ranks says `ranks="independent"`, as with `save`. The other arguments are the
    options of `savemark restore` (docs/reference/trial.md), and `in_place` and `staging`.

    Raises SavemarkError, of kind `corrupt` where data is not what was saved, and what `progress`
    raises.
    """
    import savemark._engine as engine

    calls = [_Callback(progress)]

    def read() -> Any:
        _rank(ranks, "restore")
        where = listing.newest(_place(url, options))
        trial = where.trial(options)
        saved = engine.read_index(trial)
        if saved is None:
            raise usage(f"{where} holds files", f"savemark restore {where} DIRECTORY")
        text, name, data_bytes = saved
        state = filling.Filling(nodes.read(text, data_bytes), into)
        engine.restore_state(trial, name, state.loan.lent, calls[0].given, state.loan.on_gpus)
        return state.finish()

    return _translated(read, calls)


class _Callback:
    """Calls what the user gave, and knows what that has raised: it is no error of ours."""

    def __init__(self, act: Callable[..., object] | None) -> None:
        self.given = None if act is None else self._call
        self.raised: BaseException | None = None
        self._act = act

    def _call(self, *arguments: object) -> None:
        assert self._act is not None
        try:
            self._act(*arguments)
        except BaseException as error:
            self.raised = error
            raise


def _place(url: object, options: Any) -> Place:
    if not isinstance(url, str | os.PathLike) or not isinstance(os.fspath(url), str):
        raise usage(f"url: {url!r} is neither text nor a path", "name a directory or a URL")
    return places.at(os.fspath(url), options)


def _rank(ranks: str | None, verb: str) -> Rank | None:
    return processes.check(ranks, verb, 'ranks="independent"')


def _check_owner(where: Place, options: Any, mine: Rank) -> None:
    """Refuse to replace, or to keep beside, what another rank has saved."""
    import savemark._engine as engine

    try:
        saved = engine.read_index(listing.newest(where).trial({**options, "codec": None}))
    except Exception as error:
        known = from_exception(error)
        if known is None or known.kind not in ("usage", "corrupt"):
            raise
        return  # there is none, or none that says whose it is
    if saved is not None:
        processes.check_owner(mine, nodes.rank_of(saved[0]), where)


def _translated(act: Callable[[], Result], calls: list[_Callback]) -> Result:
    """Turn the engine's errors into the one that users catch, in the words of Python."""
    import savemark._engine as engine

    try:
        done = act()
        if engine.was_too_late():
            raise KeyboardInterrupt  # for whoever comes next: what was asked for here is done
        return done
    except RecursionError:
        raise usage(
            "the state is nested too deep for what is left of Python's stack",
            "call it from a function that is nested less; sys.setrecursionlimit allows more",
        ) from None
    except MemoryError as error:
        raise SavemarkError("failed", f"no memory: {error}", "free some memory") from error
    except Exception as error:
        if any(call.raised is error for call in calls):
            raise
        known = from_exception(error)
        if known is None:
            raise
        if known.kind == "interrupted":
            raise KeyboardInterrupt from None
        known.hint = known.hint and in_python(known.hint)
        if known is error:
            raise
        raise known from error


def in_python(hint: str) -> str:
    """Return a hint that names flags of the command line with the arguments that they are here."""
    if "savemark " in hint:
        return hint  # a command to run
    import savemark._engine as engine

    schema = json.loads(engine.schema())
    for name in ("storage", "codec"):  # "leave --storage out" names no storage
        choices = "|".join(schema[f"{name}s"])
        hint = re.sub(rf"--{name} ({choices})\b", rf'{name}="\1"', hint)
    hint = re.sub(r"--no-(\w+)", r"\1=False", hint)
    hint = re.sub(r'(="\w+") (\w+=)', r"\1, \2", hint)
    hint = re.sub(r"--keep N", "keep=N", hint)
    return re.sub(r"--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), hint)

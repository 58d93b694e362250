"""Below which speed of storage a codec pays: a whole save and restore takes less time with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from savemark.records.head import Race
from savemark.records.naming import PLAIN
from savemark.stats import Cell, TargetResult

# A codec that saves less of the bytes is not worth a sentence.
WORTH = 1.03
# Who reaches so little of what the storage would allow is held up by its codec.
HELD_UP = 0.9


@dataclass(frozen=True, slots=True)
class Pays:
    """A codec and the rate of storage, in stored bytes per second, below which it pays."""

    rate: float
    codec: str
    streams: int
    ratio: float  # user bytes per stored byte


@dataclass(frozen=True, slots=True)
class Threads:
    """The streams of the advised setting, and the processors that there are."""

    streams: int
    cores: int | None

    def of(self, streams: int) -> int:
        """A codec runs on a thread per stream, at most on every core; streams 0 is one thread."""
        return min(max(streams, 1), self.cores or max(streams, 1))


@dataclass(frozen=True, slots=True)
class Codec:
    """User bytes per second of a codec on so many streams, and what it leaves of them."""

    streams: int
    encode: float
    decode: float
    ratio: float  # user bytes per stored byte

    def on(self, streams: int, threads: Threads) -> Codec:
        """The same on more streams: a codec runs on a thread for each."""
        times = threads.of(streams)
        return Codec(streams, self.encode * times, self.decode * times, self.ratio)

    def slowed(self, share: float) -> Codec:
        """The same at a share of both speeds."""
        return replace(self, encode=self.encode * share, decode=self.decode * share)


@dataclass(frozen=True, slots=True)
class Screened:
    """One trial of a setting: its streams, and seconds per user byte of save and restore."""

    streams: int
    pace: float


def threshold(encode: float, decode: float, ratio: float) -> float:
    """Return the rate of storage at which a save and a restore take as long with and without.

    `encode` and `decode` are user bytes per second of all threads, `ratio` user over stored bytes
    (above 1). The stages of a codec and of the storage overlap, so that the slower one counts. Of
    a storage that writes and reads `s` bytes per second, a user byte takes 2 / s without a codec
    and max(1 / (ratio s), 1 / encode) + max(1 / (ratio s), 1 / decode) with it. The second grows
    beside the first as s grows, so they are equal once: while the faster of the two directions is
    still held up by the storage, at a (2 - 1 / ratio) with a the slower of both speeds; else at
    their harmonic mean.
    """
    slow, fast = sorted((encode, decode))
    one = slow * (2 - 1 / ratio)
    return one if one <= fast / ratio else 2 * slow * fast / (slow + fast)


def codec_pays(
    result: TargetResult, threads: Threads, screened: Mapping[str, Screened]
) -> Pays | None:
    """Return the codec that pays up to the fastest storage; None where no codec was measured.

    Ratio and speeds of one core are those of a codec's ceilings, times the threads that run. Two
    things replace what one core promises. A confirmed setting that was held up by its codec says
    itself how fast that was. And of a codec that was screened only, the trial says how much of the
    promise holds: both speeds are scaled until save and restore would take as long as it did. A
    codec that was not even screened is left out where it would pay here, for it was bounded.
    """
    confirmed = {cell.codec for cell in result.cells}
    here = _storage(result)
    most = 2 / sum(1 / rate for rate in here.values()) if all(here.values()) else math.inf
    found = [
        Pays(rate, name, codec.streams, codec.ratio)
        for name in _codecs(result)
        for codec in _speeds(result, name, threads, screened.get(name))
        if codec.ratio >= WORTH
        and (
            (rate := threshold(codec.encode, codec.decode, codec.ratio)) <= most
            or name in confirmed
        )
    ]
    return max(found, key=lambda each: each.rate, default=None)


def fastest_screened(race: Race | None, label: str) -> dict[str, Screened]:
    """Return by codec the fastest of its settings that a race screened on a target."""
    found: dict[str, Screened] = {}
    size = race.screen_bytes if race else None
    for tried in race.screened if race else ():
        factors = tried.factors
        if not size or not tried.seconds or factors.get("target", label) != label:
            continue
        codec, streams = str(factors.get("codec")), factors.get("streams")
        trial = Screened(streams if isinstance(streams, int) else 0, tried.seconds / size)
        if codec not in found or trial.pace < found[codec].pace:
            found[codec] = trial
    return found


def _codecs(result: TargetResult) -> list[str]:
    looked = [name.removeprefix("codec/").split()[0] for name in result.ceilings if "/" in name]
    ran = [cell.codec for cell in result.cells]
    return [codec for codec in dict.fromkeys([*looked, *ran]) if codec not in PLAIN]


def _speeds(
    result: TargetResult, codec: str, threads: Threads, screened: Screened | None
) -> Iterator[Codec]:
    """Yield how fast a codec is, once for each setting that has it."""
    looked, storage = _looked(result, codec), _storage(result)
    cells = [c for c in result.cells if c.codec == codec and {"save", "restore"} <= set(c.phases)]
    for cell in cells:
        one_core = looked.on(cell.streams, threads) if looked else None
        own = {"save": one_core.encode, "restore": one_core.decode} if one_core else {}
        for name in ("save", "restore"):
            rate = cell.phases[name].user_rate
            held = rate < HELD_UP * cell.ratio * storage[name]
            own[name] = rate if held else max(own.get(name, 0.0), rate)
        if all(own.values()) and cell.sized and not cell.blocked:
            yield Codec(cell.streams, own["save"], own["restore"], cell.ratio)
    if looked and not cells:
        promised = looked.on(screened.streams if screened else threads.streams, threads)
        yield promised.slowed(_holds(screened.pace, promised, storage)) if screened else promised


def _holds(pace: float, promised: Codec, storage: Mapping[str, float]) -> float:
    """Return which share of the promised speeds makes a user byte take `pace` seconds in all."""
    if not all(storage.values()):
        return 1.0

    def total(share: float) -> float:
        save = max(1 / (promised.ratio * storage["save"]), 1 / (share * promised.encode))
        decoded = 1 / (share * promised.decode)
        return save + max(1 / (promised.ratio * storage["restore"]), decoded)

    low, high = 1e-6, 1.0
    if total(high) >= pace:
        return high
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if total(middle) < pace else (middle, high)
    return high


def _looked(result: TargetResult, codec: str) -> Codec | None:
    """The codec on one core, as its ceilings have it."""
    encode = result.ceilings.get(f"codec/{codec} encode")
    decode = result.ceilings.get(f"codec/{codec} decode")
    if not encode or not decode or not encode.rate or not decode.rate:
        return None
    return Codec(1, encode.rate, decode.rate, encode.ratio)


def _storage(result: TargetResult) -> Mapping[str, float]:
    """What the storage takes and gives: the fastest that a setting without a codec confirmed."""
    plain = [cell for cell in result.cells if cell.codec == "none" and not cell.blocked]
    return {
        name: max((c.phases[name].user_rate for c in plain if name in c.phases), default=0.0)
        for name in ("save", "restore")
    }


def changes(pays: Pays, advised: Cell) -> bool:
    """Whether somebody would choose otherwise: on storage of the speeds that are likely elsewhere.

    Within a tenth of this storage's speed; where a codec is advised it pays here, so always.
    """
    if advised.codec not in PLAIN:
        return True
    save = advised.phases.get("save")
    return save is not None and pays.rate >= save.stored_rate / 10

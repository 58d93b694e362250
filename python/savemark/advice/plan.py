"""A job with its state, its storage and its failures, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from savemark.advice import interval
from savemark.advice.simulate import simulate

SCALES = (1_024, 16_384, 100_000)  # GPUs
OVERHEADS = (0.01, 0.05)
LEAST_TO_SIMULATE = 0.02


@dataclass(frozen=True, slots=True)
class Job:
    """What is known about a job: bytes, bytes per second, seconds."""

    state: float
    save_rate: float
    restore_rate: float
    mtbf: float
    restart: float = 300.0  # detect the failure and start again, without reading the checkpoint
    stall: float = 0.0  # of an asynchronous save
    gpu_mtbf: float = interval.GPU_MTBF_S

    @property
    def save_s(self) -> float:
        """Time until a save is durable: d where it blocks, w where it does not."""
        return self.state / self.save_rate

    @property
    def recovery_s(self) -> float:
        """Time from a failure until work goes on."""
        return self.restart + self.state / self.restore_rate

    def goodput(self, tau: float) -> float:
        """Share of useful time with blocking saves every `tau` seconds of work."""
        return interval.goodput(tau, self.save_s, self.mtbf, self.recovery_s)

    def goodput_asynchronous(self, tau: float) -> float:
        """The same with saves that only stall the work, every `tau` ≥ the time of a save."""
        times = (tau, self.stall, self.save_s, self.mtbf, self.recovery_s)
        return interval.goodput_asynchronous(*times)

    def simulated(self, tau: float, seed: int = 1) -> float | None:
        """The blocking one, played through; None where hardly anything would get done."""
        if self.goodput(tau) < LEAST_TO_SIMULATE:
            return None
        return simulate(tau, self.save_s, self.mtbf, self.recovery_s, seed=seed)


@dataclass(frozen=True, slots=True)
class Choice:
    """An interval, by what it was found, and the share of useful time that it gives."""

    name: str
    tau: float
    goodput: float


def choices(job: Job) -> list[Choice]:
    """Return the exact optimum, then Daly's and Young's intervals, all with blocking saves."""
    found = [
        ("optimal", interval.optimal(job.save_s, job.mtbf)),
        ("Daly", interval.daly(job.save_s, job.mtbf)),
        ("Young", interval.young(job.save_s, job.mtbf)),
    ]
    return [Choice(name, tau, job.goodput(tau)) for name, tau in found]


def asynchronous(job: Job) -> Choice:
    """Return the interval of saves that go on while the job works."""
    tau = interval.asynchronous(job.stall, job.save_s, job.mtbf)
    return Choice("asynchronous", tau, job.goodput_asynchronous(tau))


@dataclass(frozen=True, slots=True)
class Needed:
    """Write bandwidth (bytes/s) that a job of some size needs for an overhead."""

    gpus: int
    mtbf: float
    overhead: float
    blocking: float
    asynchronous: float


def needed(state: float, gpu_mtbf: float) -> list[Needed]:
    """Return the bandwidth at 1k, 16k and 100k GPUs for 1 % and 5 % of the time."""
    found = []
    for gpus in SCALES:
        m = interval.job_mtbf(gpu_mtbf, gpus)
        for overhead in OVERHEADS:
            found.append(
                Needed(
                    gpus=gpus,
                    mtbf=m,
                    overhead=overhead,
                    blocking=interval.needed_bandwidth(state, m, overhead),
                    asynchronous=interval.needed_bandwidth_asynchronous(state, m, overhead),
                )
            )
    return found

"""Each check of a live run on made records: the sick run, and the run without the evidence."""

import json

import pytest

from made_run import Made, make_run
from savemark.checks import Verdict, catalogue
from savemark.checks.wording import listing, settings
from savemark.records.naming import setting
from savemark.stats import Key
from savemark.study.model import Missing
from test_checks import change, judge

SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 2}
BLOCK, FLAG, NOTE = Verdict.BLOCK, Verdict.FLAG, Verdict.NOTE
OK, UNVERIFIED = Verdict.OK, Verdict.UNVERIFIED


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path, Made(**SMALL))


def conditions(**facts):
    def edit(entry, _phase):
        entry["record"]["conditions"] |= facts

    return edit


def of(which, part=None, **facts):
    """Changes a phase by name, or a part of it."""

    def edit(entry, phase):
        if phase["name"] == which and entry["role"] == "trial":
            (phase if part is None else phase[part]).update(facts)

    return edit


def no_conditions(entry, _phase):
    entry["record"].pop("conditions", None)


def without(*parts):
    def edit(_entry, phase):
        for part in parts:
            phase[part] = None

    return edit


def buffered(entry, phase):
    entry["record"]["path"]["direct"] = False
    phase["cache"] = None


def crowded(_entry, phase):
    phase["workers"] = [{}] * 200


def limited(bytes_per_s):
    def edit(entry, phase):
        entry["record"]["conditions"]["limits"]["write_bytes_per_s"] = bytes_per_s
        if phase["name"] == "save":
            phase["elapsed_ns"] = int(phase["stored_bytes"] / bytes_per_s * 1e9)

    return edit


def sync(policy):
    """The trials become plain writes with this policy where their codec is zstd."""

    def edit(entry, phase):
        if phase["name"] == "save":
            coded = entry["factors"].get("codec") == "zstd"
            entry["record"]["trial"] |= {"workload": "sequential", "sync": "end"}
            if coded:
                entry["record"]["trial"]["sync"] = policy
                phase["durable"] = policy != "none"

    return edit


def beside_fio(**options):
    """Half of the trials become fio's, all of them direct 1 MiB I/Os."""

    def edit(entry, _phase):
        record = entry["record"]
        record["trial"] = record["trial"] | {"workload": "sequential", "transfer_size": 2**20}
        record["trial"] |= options
        if entry["factors"].get("codec") == "zstd":
            record["tool"] = {"name": "fio", "version": "fio-3.33", "runs": []}

    return edit


SHIM = [{"function": "fsync", "library": "/tmp/libeatmydata.so"}]
OBSERVER = [{"function": "write", "library": "/opt/libdarshan.so"}]
CASES = [
    ("HC-01", of("save", durable=False), NOTE),  # direct, no flush
    ("HC-04", buffered, FLAG),
    ("HC-07", conditions(interposed=SHIM), BLOCK),
    ("HC-07", conditions(interposed=OBSERVER), FLAG),
    ("HC-07", conditions(traced=True), FLAG),
    ("HC-07", conditions(mount={"filesystem": "fuse.x", "options": "rw", "class": "fuse"}), FLAG),
    ("HC-07", no_conditions, UNVERIFIED),
    ("HC-08", limited(100_000_000), NOTE),
    ("HC-09", of("save", "payload", zero_share=0.5), FLAG),
    ("HC-09", of("save", "payload", repeated_share=0.5), FLAG),
    ("HC-09", without("payload"), UNVERIFIED),
    ("HC-10", conditions(interposed=SHIM), FLAG),
    ("HC-10", of("save", "sync_latency", p50_ns=900), FLAG),
    ("HC-10", of("save", "device", flushes=0), FLAG),
    ("HC-10", conditions(mount={"options": "rw,nobarrier", "class": "disk"}), FLAG),
    ("HC-10", without("sync_latency"), UNVERIFIED),
    ("HC-12", sync("none"), FLAG),
    ("HC-12", sync("end"), OK),
    ("HC-14", conditions(clock_tick_ns=100_000_000), FLAG),
    ("HC-14", no_conditions, UNVERIFIED),
    ("HC-26", of("save", operations=0), BLOCK),
    ("HC-26", crowded, FLAG),
    ("HC-29", of("save", first_done_ns=1_000_000), NOTE),
    ("HC-31", of("save", "machine", steal_ns=10**10), FLAG),
    ("HC-31", of("save", "machine", busy_ns=10**11), FLAG),
    ("HC-31", of("save", "machine", throttled_ns=10**9), FLAG),
    ("HC-31", of("save", "machine", thermal_throttles=3), FLAG),
    ("HC-33", of("restore", "extents", unwritten_bytes=2**30), BLOCK),
    ("HC-33", of("restore", "extents", hole_bytes=2**30), BLOCK),
    ("HC-33", of("restore", "extents", method="fiemap: Operation not supported"), UNVERIFIED),
    ("HC-33", without("extents"), UNVERIFIED),
    ("HC-37", of("restore", "device", read_bytes=2**33), FLAG),
    ("HC-41", beside_fio(huge_pages=True), FLAG),
    ("HC-41", beside_fio(), FLAG),  # a workload without that option
    ("HC-41", beside_fio(huge_pages=True, transfer_size=4096), OK),
    ("HC-41", beside_fio(huge_pages=False), OK),
]


@pytest.mark.parametrize(("identifier", "edit", "verdict"), CASES)
def test_a_sick_run(folder, identifier, edit, verdict):
    assert judge(folder)[identifier].verdict is OK, "healthy before"
    change(folder, edit)
    found = judge(folder)[identifier]
    assert found.verdict is verdict, found.evidence
    assert bool(found.blocks) == (verdict is BLOCK)
    if verdict.fired:
        assert found.cause
        assert found.fix


def edit_head(folder, edit):
    path = folder / "run.json"
    head = json.loads(path.read_text())
    edit(head)
    path.write_text(json.dumps(head))


@pytest.mark.parametrize(
    ("given", "verdict"), [("never", OK), ("always", UNVERIFIED), (None, UNVERIFIED)]
)
def test_pages_are_what_the_kernel_gives(folder, given, verdict):
    change(folder, beside_fio(huge_pages=True))
    edit_head(folder, lambda head: head["host"]["memory"].update(transparent_hugepages=given))
    assert judge(folder)["HC-41"].verdict is verdict


def test_pages_that_are_a_factor_are_only_noted(folder):
    change(folder, beside_fio(huge_pages=True))
    edit_head(folder, lambda head: head["study"]["factors"].update(huge_pages=[True, False]))
    found = judge(folder)["HC-41"]
    assert found.verdict is NOTE
    assert "fio" in found.evidence


def test_gpu_direct_storage_needs_the_drivers_own_count(folder):
    assert judge(folder)["HC-32"].verdict is OK

    def to_gpu(counted):
        def edit(entry, phase):
            entry["record"]["path"]["storage"] = "gds"
            phase["gds_bytes"] = counted and int(phase["stored_bytes"] * counted)

        return edit

    for counted, verdict in ((None, UNVERIFIED), (1.0, OK), (0.5, BLOCK)):
        change(folder, to_gpu(counted))
        assert judge(folder)["HC-32"].verdict is verdict


def test_flushes_are_not_expected_of_a_partition_or_without_a_write_cache(folder):
    change(folder, of("save", "device", flushes=0, name="nvme0n1p2"))
    assert judge(folder)["HC-10"].verdict is OK
    change(folder, of("save", "device", flushes=0, name="nvme0n1"))
    assert judge(folder)["HC-10"].verdict is FLAG
    change(folder, conditions(write_cache="write through"))
    assert judge(folder)["HC-10"].verdict is OK


def test_a_state_of_ones_own_may_hold_zeros(folder):
    def edit(entry, phase):
        entry["record"]["trial"]["state"] = "/data/model"
        if phase["payload"]:
            phase["payload"]["zero_share"] = 0.4

    change(folder, edit)
    assert judge(folder)["HC-09"].verdict is NOTE


def with_checks(folder, checks, **study):
    head = json.loads((folder / "run.json").read_text())
    head["study"] |= {"checks": checks, **study}
    (folder / "run.json").write_text(json.dumps(head))


def test_a_study_sets_limits_and_the_finding_says_so(folder):
    with_checks(folder, {"HC-13": {"seconds": 0.5}})
    found = judge(folder)["HC-13"]
    assert found.verdict is OK
    assert "The study sets seconds = 0.5." in found.evidence


def test_a_declared_ceiling_blocks_what_is_above_it(folder):
    with_checks(folder, {"HC-03": {"write_bytes_per_s": 1e9}})
    found = judge(folder)["HC-03"]
    assert found.verdict is BLOCK
    assert {phase for _, _, phase in found.blocks} == {"save"}


def test_a_declared_burst_longer_than_the_run(folder):
    with_checks(folder, {"HC-34": {"seconds": 1800}})
    assert judge(folder)["HC-34"].verdict is FLAG


def test_a_listed_order_that_interleaves_is_fine_and_one_by_setting_is_not(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))
    with_checks(folder, {}, order="listed")
    assert judge(folder)["HC-27"].verdict is OK
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    lines.sort(key=lambda e: (e["role"], str(e["factors"]), e["repeat"]))
    for place, entry in enumerate(lines):
        entry["record"]["started_unix_ns"] = 10**18 + place * 10**9
    (folder / "records.jsonl").write_text("".join(json.dumps(e) + "\n" for e in lines))
    found = judge(folder)["HC-27"]
    assert found.verdict is FLAG
    assert found.fix


def test_sessions_that_differ(tmp_path):
    folder = make_run(tmp_path, Made(**(SMALL | {"repeats": 6})))

    def second_day(factor):
        def edit(entry, phase):
            if entry["repeat"] >= 3:
                if phase is entry["record"]["phases"][0]:
                    entry["record"]["started_unix_ns"] += 86_400 * 10**9
                phase["elapsed_ns"] = int(phase["elapsed_ns"] * factor)

        return edit

    assert judge(folder)["HC-19"].verdict is OK
    change(folder, second_day(1.0))
    assert "2 sessions agree" in judge(folder)["HC-19"].evidence
    change(folder, second_day(1.5))
    found = judge(folder)["HC-19"]
    assert found.verdict is FLAG
    assert "between 2 sessions" in found.evidence


def test_a_rate_that_falls_is_a_burst(tmp_path):
    folder = make_run(tmp_path, Made(**(SMALL | {"repeats": 10})))

    def tire(entry, phase):
        phase["elapsed_ns"] = int(phase["elapsed_ns"] * (1 + entry["repeat"] / 10))

    assert judge(folder)["HC-34"].verdict is OK
    change(folder, tire)
    assert judge(folder)["HC-34"].verdict is FLAG


def test_a_rate_that_varies_inside_a_long_phase(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))

    def line(last):
        def edit(_entry, phase):
            phase["timeline"] = {"interval_ns": 10**8, "bytes": [100] * 80 + [last] * 21}

        return edit

    change(folder, line(100))
    assert "rate inside" not in judge(folder)["HC-15"].evidence
    change(folder, line(50))
    found = judge(folder)["HC-15"]
    assert found.verdict is FLAG
    assert "rate inside" in found.evidence


def test_few_trials_are_no_series(tmp_path):
    folder = make_run(tmp_path, Made(codecs=("none",), streams=(4,), repeats=2))
    assert judge(folder)["HC-15"].verdict is UNVERIFIED
    assert judge(folder)["HC-34"].verdict is UNVERIFIED


def test_the_catalogue_says_everything(folder):
    for entry in catalogue():
        assert entry.rule
        assert entry.verdict
        assert entry.applies in ("L", "I", "L,I")
    assert {f"HC-{n:02}" for n in range(1, 42)} == {entry.id for entry in catalogue()}


def test_settings_that_overlap_are_tied_and_others_are_not(tmp_path):
    folder = make_run(tmp_path, Made(codecs=("none", "zstd"), streams=(0, 4), repeats=6))
    assert judge(folder)["HC-18"].verdict is OK

    def level(entry, phase):
        if entry["role"] == "trial":
            phase["elapsed_ns"] = 10**9 + entry["repeat"]

    change(folder, level)
    found = judge(folder)["HC-18"]
    assert found.verdict is NOTE
    assert "is tied with" in found.evidence


def test_phases_too_short_for_processor_counters_are_said_to_be(folder):
    def short(_entry, phase):
        phase["machine"] = phase["device"] = None
        phase["elapsed_ns"] = 900_000

    change(folder, short)
    found = judge(folder)["HC-31"]
    assert found.verdict is OK and "too short for processor counters" in found.evidence
    change(folder, lambda _entry, phase: phase.update(elapsed_ns=2_000_000))
    assert judge(folder)["HC-31"].verdict is UNVERIFIED


def test_what_is_left_out_of_a_list_is_named():
    assert listing(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listing(["it took 2 s, not 3", "b", "c"], 1, "reasons") == (
        "it took 2 s, not 3; and 2 more reasons"
    )
    assert settings([Key("disk", setting({}), "save")]) == "all trials"
    assert Missing({"target": "disk"}, "why").name == "every setting"

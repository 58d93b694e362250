"""The GPU grids from the study to the page, and the checks that belong to GPUs."""

import json
import subprocess
import sys

import pytest

import standin
from made_grid import make_grid
from needs import missing
from savemark.gpus import gpu_count, is_on_gpus
from savemark.records.head import Gpu, Host
from savemark.report.analysis import analyse
from savemark.report.figures import all_figures
from savemark.stats.bus import bus
from savemark.studies.gpu_read_grid.tables import tables
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.shipped import shipped
from test_published_studies import values

LINK = {"generation_max": 5, "width_max": 16, "bytes_per_s": 63_015_384_608}
GRID = """\
name: gpu-read-grid
title: A grid on two GPUs that are none
repeats: 2
checks: {HC-13: {block_below: 0}}
defaults: {payload: random}
ceilings:
  read: {workload: sequential, storage: posix, direct: false, operation: read, size: 4MiB}
trial: {workload: sequential, storage: gds, operation: read, size: 4MiB, keep: true, queue_depth: 1}
factors:
  transfer: [gpudirect, compat, bounce, cpu]
  gpus: ["0", "0,1", "0-7"]
  transfer_size: [64KiB, 256KiB]
  workers: [1, 4]
"""


def change(folder, edit):
    """Apply `edit(entry, phase)` to every phase of every trial of a run."""
    path = folder / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for entry in lines:
        for phase in entry["record"]["phases"] if entry["role"] == "trial" else []:
            edit(entry, phase)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def host(folder, **facts):
    head = json.loads((folder / "run.json").read_text())
    head["host"] |= facts
    (folder / "run.json").write_text(json.dumps(head))


def found(folder, identifier):
    return {each.id: each for each in analyse(folder).findings}[identifier]


def marks(folder, name, kind):
    (figure,) = [each for each in all_figures() if each.name == name]
    (panel,) = figure.draw(analyse(folder))
    return [row for row in values(panel.chart) if row.get("kind") == kind]


@pytest.fixture
def grid(tmp_path):
    return make_grid(tmp_path / "run", repeats=1)


def as_gds(storage, asked=None, gds=None, **counts):
    """A phase that took the path `storage`, with what nvidia-fs (a share) and cuFile counted."""

    def edit(entry, phase):
        entry["record"]["trial"] |= {"storage": "gds", "gpus": "0,1"}
        if asked:
            entry["record"]["trial"]["transfer"] = asked
        entry["record"]["path"]["storage"] = storage
        phase["gds_bytes"] = gds if gds is None else int(phase["stored_bytes"] * gds)
        if counts:
            phase["cufile"] = {"nvidia_fs": 0, "peer_to_peer": 0, "posix": 0, **counts}

    return edit


COMPAT = "cufile, compatibility mode"


@pytest.mark.parametrize(
    ("edit", "verdict", "words"),
    [
        (as_gds("gds", gds=1.0), "ok", "nvidia-fs counted the bytes"),
        (as_gds("gds", gds=0.5), "BLOCK", "nvidia-fs saw less than 90 %"),
        (as_gds("gds", peer_to_peer=100), "ok", "cuFile counted the bytes"),
        (as_gds("gds", gds=0.0, peer_to_peer=100), "ok", "counted the bytes"),
        (as_gds("gds", gds=0.0, posix=100), "BLOCK", "saw less than 90 %"),
        (as_gds("gds", posix=20, nvidia_fs=80), "BLOCK", "cuFile saw less than 90 %"),
        (as_gds("gds"), "unverified", "neither nvidia-fs nor cuFile"),
        (as_gds(COMPAT, "compat", posix=100), "ok", "Not applicable"),
        (as_gds(COMPAT, "compat"), "ok", "Not applicable"),
        (as_gds(COMPAT, "compat", gds=1.0), "BLOCK", "the counters saw direct bytes"),
        (as_gds(COMPAT, "gpudirect", posix=100), "BLOCK", "another way was taken"),
        (as_gds("bounce", "gpudirect"), "BLOCK", "another way was taken"),
        (as_gds("bounce", "bounce"), "ok", "Not applicable"),
        (as_gds("posix", "cpu"), "ok", "Not applicable"),
    ],
)
def test_no_way_is_called_by_anothers_name(grid, edit, verdict, words):
    change(grid, edit)
    finding = found(grid, "HC-32")
    assert (finding.verdict.value, words in finding.evidence) == (verdict, True), finding.evidence
    assert bool(finding.blocks) == (verdict == "BLOCK")


def test_bytes_cannot_pass_the_links_of_their_gpus(grid):
    change(grid, as_gds("bounce", "bounce"))
    slow = LINK | {"generation_max": 1, "width_max": 1, "bytes_per_s": 250_000_000}
    for links, blocks in (([LINK], False), ([], False), ([slow], True), ([slow, LINK], False)):
        host(
            grid, gpus=[{"pci_address": f"0000:0{i}:00.0", "pcie": x} for i, x in enumerate(links)]
        )
        finding = found(grid, "HC-03")
        assert ("PCIe 1 × 1 can take" in finding.evidence) == blocks, finding.evidence
        assert bool(finding.blocks) == blocks


def test_a_gpu_far_from_the_disk_is_noted(grid):
    change(grid, as_gds("bounce", "bounce"))
    near = {"pci_address": "0000:01:00.0", "to_disk": "same PCIe switch"}
    far = {"pci_address": "0000:81:00.0", "to_disk": "another NUMA node"}
    cpu = {"available": 128, "logical": 128}
    host(grid, gpus=[near, far], cpu=cpu)
    finding = found(grid, "HC-30")
    assert finding.verdict.value == "NOTE"
    assert finding.evidence.startswith("0000:81:00.0: on another NUMA node than the disk (1 of 2")
    host(grid, gpus=[near])
    assert "another NUMA node" not in found(grid, "HC-30").evidence


def test_links_and_drives_are_drawn_with_their_names(grid):
    assert bus(Host(gpus=[Gpu()])) is None
    host(grid, gpus=[{"pci_address": "a", "pcie": LINK}])
    above = marks(grid, "grid_last", "above")
    assert {row["words"] for row in above} == {
        f"PCIe 5 × 16: {n * LINK['bytes_per_s'] / 1e9:.0f} GB/s ↑" for n in (2, 4, 8)
    }
    slow = LINK | {"generation_max": 3, "width_max": 4, "bytes_per_s": 3_938_461_536}
    host(grid, gpus=[{"pci_address": "a", "pcie": slow}])
    lines = [row for row in marks(grid, "grid_last", "ceiling") if row["words"].startswith("PCIe")]
    heights = {row["column"]: row["y"] for row in lines}
    assert heights["gpus 0,1"] == pytest.approx(2 * 3.938461536)
    assert heights["gpus 0,1,6,7"] == pytest.approx(4 * 3.938461536)
    own = {row["line"] for row in marks(grid, "grid_last", "ceiling")} - {""}
    assert own == {"gdsddn", "gdsnvme", "nvme"}, "each storage's ceiling in its colour"


def test_a_path_with_several_transfers_keeps_its_ceiling(grid):
    head = json.loads((grid / "run.json").read_text())
    lines = [json.loads(line) for line in (grid / "records.jsonl").read_text().splitlines()]
    for item in head["plan"] + lines:
        if item["role"] == "trial":
            way = ("gpudirect", "bounce")[item["factors"]["workers"] % 8 == 0]
            item["factors"] = item["factors"] | {"transfer": way}
    (grid / "run.json").write_text(json.dumps(head))
    (grid / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = {row["words"] for row in marks(grid, "grid_last", "ceiling")}
    assert words == {f"{name}: disk read" for name in ("gdsddn", "gdsnvme", "nvme")}


@pytest.mark.parametrize("name", ["gpu-read-grid", "gpu-write-grid", "gpu-random-grid"])
def test_the_grids_are_sized_by_time(name):
    study = load(shipped()[name], Keys.load())
    assert study.repeats == 10
    # 64 I/Os of each worker at the largest transfer, from 8.6 GB/s on.
    workers, size = study.factors["workers"][-1], study.factors["transfer_size"][-1]
    assert workers * size * 64 / study.trial["duration"] <= 8.6e9
    assert study.checks["HC-13"]["operations"] == 64


@pytest.mark.parametrize(
    ("text", "count"), [("0", 1), ("0,1", 2), ("0-7", 8), ("0,2-3", 3), ("1+3", 2)]
)
def test_gpus_are_counted_as_the_engine_reads_them(text, count):
    assert gpu_count(text) == count


def test_only_the_word_means_gpus():
    assert is_on_gpus("gpu")
    assert is_on_gpus("gpu:0-3")
    assert not any(map(is_on_gpus, ("gpus", "./gpu", "/data/gpu:0", None)))


def test_a_small_grid_from_end_to_end(tmp_path):
    library = standin.make(tmp_path)
    if library is None:
        missing("cc", "no C compiler, or no source of the stand-in")
    (tmp_path / "here").mkdir()
    (tmp_path / "grid.yaml").write_text(GRID)
    done = subprocess.run(
        [sys.executable, "-m", "savemark", "run", "./grid.yaml", "./here"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env=standin.environment(library, STANDIN_P2P="1"),
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "savemark-runs").iterdir()
    head = json.loads((folder / "run.json").read_text())
    reasons = {each["reason"] for each in head["study"]["missing"]}
    assert any("there is no GPU 2" in reason for reason in reasons)
    assert any("would not be in compatibility mode" in reason for reason in reasons)
    assert head["host"]["gpus"][0]["pcie"]["bytes_per_s"] == LINK["bytes_per_s"]
    assert (head["host"]["nvidia_driver"], head["host"]["gpu_facts_missing"]) == ("550.54.15", None)
    analysis = analyse(folder)
    trials = analysis.frame.filter(analysis.frame["role"] == "trial")
    ways = set(trials.select("transfer", "storage_path").unique().rows())
    assert ways == {("gpudirect", "gds"), ("bounce", "bounce"), ("cpu", "posix")}
    findings = {each.id: each for each in analysis.findings}
    assert (findings["HC-32"].verdict.value, findings["HC-32"].evidence) == (
        "ok", "cuFile counted the bytes.")  # fmt: skip
    for name in ("gpu_grid_first", "gpu_grid_last", "gpu_grid_diff", "grid_last"):
        assert len(marks(folder, name, "median")) == (2 + 2 + 3) * 2 * 2, name
    settings, best = tables(analysis)
    assert "Settings" in settings.title
    assert "CPU-s/GB" in best.columns
    page = (folder / "report.html").read_text()
    assert "PCIe 5 × 16" in page
    assert "gpus 1 pcie generation max" in page, "in the table of the machine"

"""What crashes leave: a sample of `savemark durability --crash`, a disk that lies, tidiness."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from needs import missing
from savemark.crash import findings, jobs, page
from savemark.crash.jobs import FILESYSTEMS, Plan, contracts
from waiting import LIMIT_S, until

IN_PLACE = {"fsync_each", "fsync_leader", "fdatasync_leader", "dsync", "linked", "group"}
LOOSE = {"none", "direct", "sync_file_range"}
WHOLE = {"rename", "two_generations", "save_posix", "save_uring"}


def command(*words, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "savemark", "durability", *map(str, words)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, timeout=300):
    out, wrong = process.communicate(timeout=timeout)
    return process.returncode, out, wrong


@pytest.fixture(scope="module")
def may_mount():
    """Skips where this user may not mount, or a filesystem's tool is not here."""
    for tool in (f"mkfs.{name}" for name in FILESYSTEMS):
        if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            missing(tool, "it is not installed")
    try:
        job = {"crash": "kill", "subject": "none", "filesystem": "ext4", "points": 1, "seed": 1}
        subprocess.run(one_job(job), check=True, capture_output=True, timeout=300)
        done = json.loads(subprocess.check_output(one_job(job), timeout=300))
    except subprocess.CalledProcessError as error:
        done = {"error": {"message": str(error)}}
    if "error" in done:
        missing("mount", done["error"]["message"])


def one_job(job):
    return [sys.executable, "-m", "savemark.crash", json.dumps(job)]


def test_a_sample_of_crashes_keeps_every_contract_and_catches_what_tears(may_mount, tmp_path):
    out = tmp_path / "result.md"
    code, told, wrong = ended(
        command("--crash", "--points", 18, "--kills", 3, "--json", "--out", out)
    )
    found = {f["subject"]: f for f in json.loads(told)["findings"]} if told else {}
    assert code == 0, (wrong, [f["examples"] for f in found.values()])
    assert set(found) == IN_PLACE | LOOSE | WHOLE | {"double_buffer"}
    for name, finding in found.items():
        assert sum(finding["points"].values()) >= 15, finding
        assert (finding["kept"], finding["kills"]) == (True, 3)
        seen = {o: finding["at_rest"][o] + finding["in_save"][o] for o in findings.OUTCOMES}
        if name in WHOLE:
            assert finding["verdict"] == "always whole"
        elif name == "double_buffer":
            assert finding["verdict"] in ("always whole", "may be old")
            assert not seen["torn"] + seen["lost"]
        elif name in IN_PLACE:
            # Between two saves they are durable: nothing is old, torn or lost.
            assert [finding["at_rest"][o] for o in ("old", "torn", "lost")] == [0, 0, 0]
    # The machinery sees what it is made to see.
    for name in ("fsync_each", "dsync", "linked"):
        assert found[name]["verdict"] == "may be torn", name
    # When the kernel writes these back is its own affair: few points may miss it.
    assert torn(found, LOOSE) or any(map(loose_tears, (2, 3, 4)))
    assert all(f"| `{name}` |" in out.read_text() for name in found)


def torn(found, names):
    """Those of them that were seen torn."""
    return [name for name in names if found[name]["verdict"] == "may be torn"]


def loose_tears(seed):
    words = ("--policies", ",".join(LOOSE), "--points", 60, "--kills", 0, "--seed", seed, "--json")
    _, told, _ = ended(command("--crash", *words))
    return torn({f["subject"]: f for f in json.loads(told)["findings"]}, LOOSE)


def test_a_disk_that_lies_breaks_contracts_and_fails_the_run(may_mount):
    words = ("--policies", "rename,save_posix,none", "--filesystems", "ext4", "--lag", 60)
    code, told, _ = ended(command("--crash", "--points", 30, "--kills", 0, *words))
    assert code == 1
    assert told.count("BROKEN") == 2, told
    assert "rename: power, ext4 after entry" in told
    assert "none" in told.splitlines()[1]
    assert "kept" in told.splitlines()[1]


def leftovers(seed):
    """Processes of a run with this seed, its loop devices, and all that is mounted."""
    processes = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:
            continue
        if f'"seed": {seed},'.encode() in words:
            processes.append(place.parent.name)
    loops = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        # It may be detached at this moment.
        with contextlib.suppress(OSError):
            if path.read_text().startswith(("/image", "/disk", "/mnt/")):
                loops.append(path)
    return processes, loops, mounts()


def mounts():
    """What is mounted with our name in it."""
    return {line for line in Path("/proc/mounts").read_text().splitlines() if "savemark" in line}


@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_killed_leaves_nothing(may_mount, which):
    seed, others = 10 * os.getpid() + which, mounts()
    with command("--crash", "--points", 3000, "--kills", 0, "--seed", seed) as run:

        def under_way():
            assert run.poll() is None
            return all(leftovers(seed)[:2])

        until(under_way)
        run.send_signal(which)
        code, *said = ended(run)
        assert code == (-signal.SIGKILL if which == signal.SIGKILL else 130), said
    until(lambda: not any([*leftovers(seed)[:2], mounts() - others]))


SLEEPS = """#!{python}
import time
open({mark!r}, "a").write("started ")
time.sleep(30)
open({mark!r}, "a").write("ended ")
"""


@pytest.mark.parametrize("when", ["jobs are given out", "a job is being started"])
def test_an_interrupted_run_waits_for_no_job(when, tmp_path, monkeypatch):
    script, mark = tmp_path / "sleeps", tmp_path / "mark"
    script.write_text(SLEEPS.format(python=sys.executable, mark=str(mark)))
    script.chmod(0o755)
    monkeypatch.setattr(jobs, "sys", SimpleNamespace(executable=str(script)))
    submit, shutdown = ThreadPoolExecutor.submit, ThreadPoolExecutor.shutdown
    closing, given = threading.Event(), []

    def interrupt(*_, **__):
        until(mark.exists)
        raise KeyboardInterrupt

    def give(*words):
        given.append(words)
        return interrupt() if len(given) > 1 else submit(*words)

    def close(*words, **more):
        closing.set()
        shutdown(*words, **more)

    def start_late(*words, popen=subprocess.Popen, **more):
        process = popen(*words, **more)
        closing.wait(LIMIT_S)
        time.sleep(0.1)  # most likely the others have been killed by now
        return process

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", close)
    if when == "jobs are given out":
        monkeypatch.setattr(ThreadPoolExecutor, "submit", give)
    else:
        late = SimpleNamespace(Popen=start_late, PIPE=-1, DEVNULL=-3)
        monkeypatch.setattr(jobs, "subprocess", late)
        monkeypatch.setattr(jobs, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        jobs.run(Plan(("rename",)), lambda _: None)
    assert "ended" not in mark.read_text()


def job(**options):
    plain = {"crash": "power", "subject": "rename", "filesystem": "ext4", "points": 1, "seed": 1}
    return plain | options


def test_who_may_not_mount_is_told():
    unable = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    if os.geteuid() == 0 and shutil.which("setpriv"):
        told = subprocess.check_output([*unable, *one_job(job())], timeout=300)
        error = json.loads(told)["error"]
        assert error["kind"] == "refused"
        assert "as root" in error["hint"]
    else:
        missing("mount", "setpriv needs root")


def test_a_process_with_threads_is_refused():
    code = (
        "import json, sys, threading, time, savemark._engine as engine\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "try:\n    engine.crash(sys.argv[1])\n"
        "except engine.EngineError as error:\n    print(error.kind, error.message)\n"
    )
    told = subprocess.check_output([sys.executable, "-c", code, json.dumps(job())], text=True)
    assert told.startswith("refused a crash test needs a process with one thread")


def test_a_missing_tool_is_named(may_mount, tmp_path):
    words = ("--crash", "--policies", "rename", "--filesystems", "xfs", "--kills", 0)
    code, _, wrong = ended(command(*words, PATH=str(tmp_path)))
    assert code == 1
    assert "power of rename on xfs: cannot run mkfs.xfs" in wrong
    assert "install xfsprogs" in wrong


def test_what_is_not_known_is_a_usage_error():
    for words, message in [
        (("--crash", "--policies", "renam"), "there is no policy `renam`"),
        (("--crash", "--filesystems", "ext3"), "there is no filesystem `ext3`"),
        (("--crash", "--policies", " , "), "no policy is named"),
    ]:
        code, _, wrong = ended(command(*words))
        assert code == 2
        assert message in wrong
        assert "hint:" in wrong


def test_the_contracts_are_listed():
    code, told, _ = ended(command("--json"))
    assert code == 0
    listed = {c["subject"]: c for c in json.loads(told)}
    assert set(listed) == IN_PLACE | LOOSE | WHOLE | {"double_buffer"}
    assert {name for name, c in listed.items() if c["can_tear"]} == IN_PLACE | LOOSE
    assert {name for name, c in listed.items() if c["lasts"] == "unknown"} == LOOSE
    _, told, _ = ended(command())
    assert "rename            durable when it returns; a crash leaves the old or the new" in told


def result(subject, crash="power", filesystem="ext4", broken=(), **counts):
    nothing = dict.fromkeys(findings.OUTCOMES, 0)
    tally = {"at_rest": nothing, "in_save": nothing | counts}
    tally |= {"broken": len(broken), "examples": list(broken)}
    report = {"points": sum(counts.values()), "boundaries": 0, "tally": tally}
    return {"job": job(subject=subject, crash=crash, filesystem=filesystem), "report": report}


def test_the_worst_that_was_seen_is_the_verdict():
    results = [
        result("none", current=5, old=1, lost=1),
        result("none", crash="kill", current=2, torn=1),
        result("rename", current=8),
        result("rename", filesystem="xfs", old=2, broken=["xfs after entry 3: old"]),
        result("group", current=4),
        result("two_generations", lost=1, current=3, broken=["gone"]),
    ]
    found = {f.subject: f for f in findings.collect(contracts(), results)}
    assert list(found) == ["none", "group", "rename", "two_generations"]
    said = {name: (f.verdict, f.note) for name, f in found.items()}
    assert said["none"] == ("may be torn", "kept")
    assert said["rename"] == ("may be old", "BROKEN 1 times")
    assert said["two_generations"] == ("may be lost", "BROKEN 1 times")
    assert said["group"] == ("always whole", "kept (no tear was caught)")
    text = page.markdown(Plan(("none",), lag=3), list(found.values()), "here", "savemark …")
    assert "| `rename` | **may be old** | BROKEN 1 times | 8 ext4 + 2 xfs |" in text
    assert "* `rename`: power, xfs after entry 3: old" in text
    assert "**The disk lied**" in text


def test_points_are_shared_among_filesystems():
    jobs = Plan(("rename", "none"), points=10, kills=3).jobs()
    assert [j["points"] for j in jobs] == [4] * 6 + [3] * 2
    assert {j["filesystem"] for j in jobs if j["crash"] == "kill"} == {"ext4"}
    assert all(j["crash"] == "power" for j in Plan(("none",), kills=0).jobs())


def test_the_committed_result_is_of_every_policy_with_enough_points():
    text = (Path(__file__).parent.parent / "docs/results/durability-crash.md").read_text()
    for contract in contracts():
        row = next(x for x in text.splitlines() if x.startswith(f"| `{contract['subject']}` | **"))
        assert "| kept |" in row
        points = row.split("|")[4].split(" + ")
        assert len(points) == 3
        assert sum(int(each.split()[0]) for each in points) >= 1000, row

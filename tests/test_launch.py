"""Launch files: what `--emit` writes, what is shipped, and a job that Slurm stops in the middle."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from savemark.errors import SavemarkError
from savemark.launch.emit import FILES, Launch, arguments, emit, limit, parse
from waiting import LIMIT_S, held, records

ROOT = Path(__file__).parent.parent
ASKED = ("savemark", "run", "--emit", "slurm", "acceptance", "/lustre/mine")
STUDY = """\
name: small
repeats: 3
defaults: {storage: posix, size: 16m}
trial: {workload: checkpoint}
factors: {codec: [none, lz4]}
"""


def emitted(*words):
    return subprocess.run(
        [sys.executable, "-m", "savemark", "run", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("kind", FILES)
def test_what_is_shipped_is_what_would_be_emitted(kind):
    done = emitted("--emit", kind, "acceptance", "/lustre/mine")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "deploy" / FILES[kind]).read_text()


def test_the_studys_own_arguments_are_in_it():
    text = emit(
        Launch("slurm", 2, 4),
        "my study",
        ("savemark", "run", "--emit=slurm:2x4", "./my study.yaml", "--out", "here", "fast=/a",
         "--expect", "write.rate >= 1 kIOPS", "--dry-run", "--repeats", "8"),
        ["/a"],
        3600.0,
    )  # fmt: skip
    assert (
        "words=('./my study.yaml' fast=/a --expect 'write.rate >= 1 kIOPS' --repeats 8 --out"
        in text
    )
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n" in text
    assert "--time=02:15:00" in text
    assert "--job-name=savemark-my-study\n" in text


def test_our_own_options_are_left_out():
    assert arguments(ASKED) == ["acceptance", "/lustre/mine"]
    words = ("savemark", "run", "--out=x", "quick", "/a", "--emit", "mpijob:2x2", "--json")
    assert arguments(words) == ["quick", "/a"]


def test_the_time_has_room_and_is_a_whole_quarter_of_an_hour():
    assert limit(0) == 15 * 60
    assert limit(3600) == 2.25 * 3600
    assert "--time=27:15:00" in emit(Launch("slurm"), "s", ASKED, ["/a"], 13.5 * 3600)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("slrum", "`slrum` is not known", "did you mean `slurm`?"),
        ("slurm:4", "`4` is not NODESxRANKS", "slurm:4x8"),
        ("mpijob:0x8", "is not NODESxRANKS", "mpijob:4x8"),
    ],
)
def test_a_wrong_launcher_says_what_is_right(text, message, hint):
    with pytest.raises(SavemarkError) as raised:
        parse(text)
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert parse("skypilot:16x2") == Launch("skypilot", 16, 2)


def test_a_wrong_study_is_no_launch_file():
    done = emitted("--emit", "slurm", "acceptanse", "/lustre/mine")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean `acceptance`?" in done.stderr


def words(of, **more):
    """A schema of a mapping with these keys and no other."""
    return {"type": "object", "properties": of, "additionalProperties": False, **more}


ANY, COUNT = {}, {"type": "integer", "minimum": 1}
POD = words({
    "affinity": ANY,
    "containers": {"type": "array", "items": words({
        **{key: {"type": "string"} for key in ("name", "image", "imagePullPolicy")},
        **{key: {"type": "array", "items": {"type": "string"}} for key in ("command", "args")},
        "securityContext": words({"runAsUser": COUNT}),
        "resources": ANY,
        "volumeMounts": {"type": "array", "items": words(
            {"name": {"type": "string"}, "mountPath": {"type": "string", "pattern": "^/"}})},
    }, required=["name", "image"])},
    "volumes": {"type": "array", "items": words(
        {"name": {"type": "string"}, "persistentVolumeClaim": words({"claimName": ANY})})},
}, required=["containers"])  # fmt: skip
REPLICA = words({
    "replicas": COUNT,
    "restartPolicy": {"enum": ["Never", "OnFailure"]},
    "template": words({"spec": POD}),
})  # fmt: skip
# The fields of kubeflow.org/v2beta1 that we use, as its types.go has them.
MPIJOB = words({
    "apiVersion": {"const": "kubeflow.org/v2beta1"},
    "kind": {"const": "MPIJob"},
    "metadata": words({"name": {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}}),
    "spec": words({
        "slotsPerWorker": COUNT,
        "sshAuthMountPath": {"type": "string"},
        "runPolicy": words({
            "cleanPodPolicy": {"enum": ["None", "Running", "All"]},
            "backoffLimit": COUNT,
        }),
        "mpiReplicaSpecs": words({"Launcher": REPLICA, "Worker": REPLICA}),
    }, required=["mpiReplicaSpecs"]),
}, required=["apiVersion", "kind", "metadata", "spec"])  # fmt: skip


def test_the_mpijob_is_one():
    text = emit(Launch("mpijob", 3, 2), "s", ASKED, ["/lustre/a b", "s3://x/y", "/b"], 60.0)
    job = YAML(typ="safe").load(text)
    jsonschema.validate(job, MPIJOB)
    spec = job["spec"]
    worker = spec["mpiReplicaSpecs"]["Worker"]
    assert (spec["slotsPerWorker"], worker["replicas"]) == (2, 3)
    (container,) = worker["template"]["spec"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"runs": "/runs", "measured-1": "/lustre/a b", "measured-2": "/b"}
    volumes = {volume["name"] for volume in worker["template"]["spec"]["volumes"]}
    assert volumes == set(mounts)
    (script,) = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]
    assert "mpirun -n 6 --map-by ppr:2:node" in script


def test_the_skypilot_task_is_one():
    task = YAML(typ="safe").load((ROOT / "deploy" / "skypilot.yaml").read_text())
    assert set(task) == {"name", "num_nodes", "resources", "file_mounts", "setup", "run"}
    assert task["num_nodes"] == 4
    assert "mpirun --host" in task["run"]


def test_every_script_is_one(tmp_path):
    scripts = [(ROOT / "deploy" / "slurm.sh").read_text()]
    yaml = YAML(typ="safe")
    task = yaml.load((ROOT / "deploy" / "skypilot.yaml").read_text())
    job = yaml.load((ROOT / "deploy" / "mpijob.yaml").read_text())
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    for number, text in enumerate([*scripts, task["setup"], task["run"], *launcher["args"]]):
        file = tmp_path / f"{number}.sh"
        file.write_text(text)
        subprocess.run(["bash", "-n", str(file)], check=True)
        if shutil.which("shellcheck"):
            subprocess.run(["shellcheck", "-s", "bash", str(file)], check=True)


# Starts one rank; like the real one it hands signals on to what it starts.
SRUN = """#!/bin/bash
echo "$@" >>"$SRUN_LOG"
while [[ $1 == -* ]]; do shift; done
"$@" &
rank=$!
trap 'kill -TERM $rank' TERM
wait $rank; code=$?
[ $code -gt 128 ] && kill -0 $rank 2>/dev/null && { wait $rank; code=$?; }
exit $code
"""
SCONTROL = '#!/bin/bash\necho "$@" >>"$SCONTROL_LOG"\n'


class Slurm:
    """Enough of Slurm to run a job's script: srun, scontrol, and what the script is told."""

    def __init__(self, folder):
        self.folder, self.started = folder, []
        self.run = folder / "savemark-runs" / "small-17"
        (folder / "bin").mkdir()
        (folder / "place").mkdir()
        (folder / "small.yaml").write_text(STUDY)
        fake = ROOT / "tests" / "fake_engine.py"
        self._tool("savemark", f'#!/bin/bash\nexec {sys.executable} {fake} "$@"\n')
        self._tool("srun", SRUN)
        self._tool("scontrol", SCONTROL)
        command = ("savemark", "run", "--emit", "slurm", "small.yaml", str(folder / "place"))
        text = emit(Launch("slurm", 1, 1), "small", command, [str(folder / "place")], 60.0)
        (folder / "job.sh").write_text(text)

    def _tool(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, hold=-1):
        """Start the job; the trial after so many is held, which is none of them by default."""
        process = subprocess.Popen(
            ["bash", "job.sh"],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT / "python"),
                "SLURM_SUBMIT_DIR": str(self.folder),
                "SLURM_JOB_ID": "17",
                "SRUN_LOG": str(self.folder / "srun.log"),
                "SCONTROL_LOG": str(self.folder / "scontrol.log"),
                "FAKE_HOLD": str(hold),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def log(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def records(self):
        return records(self.run)

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=LIMIT_S)


@pytest.fixture
def slurm(tmp_path):
    made = Slurm(tmp_path)
    yield made
    made.end()


def test_what_the_time_limit_stops_is_requeued_and_resumed_to_its_end(slurm):
    first = slurm.start(hold=2)
    held(slurm.run, slurm.folder / "place", 2)
    first.send_signal(signal.SIGTERM)
    out, _ = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 0, out
    assert slurm.log("scontrol.log") == ["requeue 17"]
    kept = slurm.records()
    assert len(kept) == 2
    second = slurm.start()
    out, _ = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 0, out
    assert slurm.log("scontrol.log") == ["requeue 17"], "what ended is not put in the queue again"
    assert "--resume" in slurm.log("srun.log")[1]
    assert slurm.records()[: len(kept)] == kept
    assert sorted(line["index"] for line in slurm.records()) == list(range(6))


def test_a_job_in_which_no_trial_ends_is_not_requeued_for_ever(slurm):
    job = slurm.start(hold=0)
    held(slurm.run, slurm.folder / "place", 0)
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 130, out
    assert "no trial ended within the time limit" in out
    assert slurm.log("scontrol.log") == []


def test_a_run_that_fails_by_itself_is_not_requeued(slurm):
    (slurm.folder / "small.yaml").write_text("trial: {workload: chekpoint}\n")
    job = slurm.start()
    out, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 2, out
    assert slurm.log("scontrol.log") == []


NASTY = ("$(touch pwned)", "`touch pwned`", "it's; touch pwned", '"; touch pwned; "', "#x")
NASTY += ("& touch pwned &", "${HOME}", "a  b", "*", "{{ 7 * 7 }}", "!!python/x: &a *b | > %", "-")


def lines_of(kind, study, *said):
    """The shell lines of a launch file that set `run` and `words`."""
    command = ("savemark", "run", "--emit", kind, *said)
    text = emit(Launch(kind, 2, 4), study, command, [*said], 60.0)
    if kind != "slurm":
        loaded = YAML(typ="safe").load(text)
        if kind == "skypilot":
            text = loaded["run"]
        else:
            specs = loaded["spec"]["mpiReplicaSpecs"]
            (text,) = specs["Launcher"]["template"]["spec"]["containers"][0]["args"]
            mounts = specs["Worker"]["template"]["spec"]["containers"][0]["volumeMounts"]
            assert [mount["mountPath"] for mount in mounts[1:]] == list(said)
            text = text.replace("$$(", "$(")  # as Kubernetes does
    wanted = [line.strip() for line in text.splitlines()]
    return [line for line in wanted if line.startswith(("run=", "kept=", "words=(")) and
            "--resume" not in line]  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_names_and_targets_never_run_as_code(kind, tmp_path):
    for nasty in NASTY:
        told = lines_of(kind, nasty, nasty, f"a={nasty}", "/plain")
        script = "\n".join([*told, 'printf "%s\\0" "$run" "${words[@]}"'])
        done = subprocess.run(
            ["bash", "-eu", "-c", script],
            cwd=tmp_path,
            env={
                "HOME": "/h",
                "SLURM_SUBMIT_DIR": "/s",
                "SLURM_JOB_ID": "7",
                "PATH": os.environ["PATH"],
            },
            capture_output=True,
            timeout=LIMIT_S,
            check=True,
        )
        run, *words = done.stdout.decode().split("\0")[:-1]
        assert nasty in run
        assert words[:3] == [nasty, f"a={nasty}", "/plain"]
        assert words[3:] == ["--out", run]
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("control", ["a\nrm -rf x", "a\rb", "a\x1b[2J", "a\u2028b", "a\x85b"])
def test_a_launch_file_has_no_line_that_nobody_wrote(kind, control):
    for study, said in ((control, "/a"), ("s", control)):
        with pytest.raises(SavemarkError, match="holds a character"):
            emit(Launch(kind), study, ("savemark", "run", said), [said], 60.0)

"""Fixtures: the fake engine in this process, and as a command of its own."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

import browser
import fake_engine
import live_program

ROOT = Path(__file__).parent.parent

# The suite tries the same examples each time, so that what passes once passes again; bench/fuzz.py
# tries others as long as it is told.
hypothesis.settings.register_profile("suite", derandomize=True)
if "SAVEMARK_FUZZ_EXAMPLES" not in os.environ:
    hypothesis.settings.load_profile("suite")


def pytest_sessionstart():
    """Let what the tests start be stopped, also where whoever started us ignores signals (nohup).

    A process inherits what is ignored, but no handler: so one that does nothing leaves it to them.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items):
    """Keep a file's tests on one worker; those that need the machine to themselves come last."""
    items.sort(key=_alone)
    for item in items:
        item.add_marker(pytest.mark.xdist_group("alone" if _alone(item) else item.path.name))


def _alone(item) -> bool:
    return item.get_closest_marker("alone") is not None


def pytest_configure(config):
    """Make the file whose lock a test has that needs the machine to itself."""
    if not hasattr(config, "workerinput"):  # workers inherit its name
        number, name = tempfile.mkstemp(prefix="savemark-tests-")
        os.close(number)
        config.add_cleanup(Path(name).unlink)
        os.environ["SAVEMARK_TESTS_LOCK"] = name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let the tests of other workers wait until one that needs the machine to itself has ended."""
    with Path(os.environ["SAVEMARK_TESTS_LOCK"]).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX if _alone(item) else fcntl.LOCK_SH)
        return (yield)


@pytest.fixture
def engine(monkeypatch):
    """The fake engine and report in the place of the real ones."""
    import savemark

    for name, module in (("_engine", fake_engine), ("report", fake_engine.fake_report())):
        monkeypatch.setitem(sys.modules, f"savemark.{name}", module)
        monkeypatch.setattr(savemark, name, module, raising=False)
    # Modules that have bound the other engine by name are imported anew, and again afterwards:
    # one that stayed would hold classes of others that are put back.
    rooms = ("savemark.run.", "savemark.cli.")
    before = {name for name in sys.modules if name.startswith(rooms)}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    yield fake_engine
    for name in [n for n in sys.modules if n.startswith(rooms) and n not in before]:
        del sys.modules[name]


@pytest.fixture
def keys(engine):
    from savemark.study.keys import Keys

    return Keys.load()


@pytest.fixture
def place(tmp_path):
    """An empty directory to measure."""
    path = tmp_path / "place"
    path.mkdir()
    return path


class Command:
    """`savemark` with the fake engine, as a process in its own directory."""

    def __init__(self, folder):
        self.folder = folder
        self.terminal = subprocess.PIPE  # what stderr is

    def popen(self, *words, stdin=None, **environment):
        return subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "fake_engine.py"), *map(str, words)],
            cwd=self.folder,
            stdin=stdin,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
            stdout=subprocess.PIPE,
            stderr=self.terminal,
            text=True,
        )

    def __call__(self, *words, **environment):
        process = self.popen(*words, **environment)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.fixture
def savemark(tmp_path):
    return Command(tmp_path)


@pytest.fixture
def start(tmp_path):
    """Starts `savemark` as a process of its own, in its own directory."""

    def start(*words):
        return subprocess.Popen(
            [sys.executable, "-m", "savemark", *map(str, words)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def to_its_end(start):
    """Runs `savemark` as `start` does, until it ends."""

    def run(*words):
        process = start(*words)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return run


@pytest.fixture
def run(capsys):
    """Runs `savemark` in this process; returns its exit code, stdout and stderr."""
    from savemark.cli import main

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        found = capsys.readouterr()
        return ended.value.code, found.out, found.err

    return run


@pytest.fixture
def program(tmp_path):
    """A process to save, in its own directory."""
    live_program.needs_criu()
    program = live_program.Program(tmp_path)
    yield program
    program.end()


@pytest.fixture
def io(tmp_path):
    """The options with which this filesystem can be used."""
    from savemark import _engine

    target = json.loads(_engine.host(str(tmp_path)))["target"]
    uring = {f["name"]: f["available"] for f in json.loads(_engine.features())}["io_uring"]
    if target["class"] == "memory":
        return ["--storage", "posix", "--no-direct"]
    return [] if uring else ["--storage", "posix"]


@pytest.fixture
def real_savemark(start, io):
    """Runs `savemark` with the real engine, and with storages that work here, until it ends."""

    def run(*words):
        options = io if words[0] in ("save", "restore", "verify") else []
        process = start(*words, *options)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return run


@pytest.fixture
def model(tmp_path):
    """A directory of files: large, small, empty, in subdirectories, with modes."""
    path = tmp_path / "model"
    (path / "layers" / "empty").mkdir(parents=True)
    (path / "weights.bin").write_bytes(os.urandom(5_000_001))
    (path / "layers" / "0").write_bytes(b"\0" * 70_000)
    (path / "layers" / "none").touch()
    (path / "config.json").write_text("{}")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o750)
    return path


@pytest.fixture
def options(tmp_path):
    """The options with which this filesystem can be used."""
    from savemark import _engine

    target = json.loads(_engine.host(str(tmp_path)))["target"]
    uring = {f["name"]: f["available"] for f in json.loads(_engine.features())}["io_uring"]
    if target["class"] == "memory":
        return {"storage": "posix", "direct": False}
    return {} if uring else {"storage": "posix"}


@pytest.fixture
def there_and_back(tmp_path, options):
    """Saves a state and restores it."""
    import savemark as api

    def there_and_back(state, into=None):
        api.save(state, tmp_path / "ck", **options)
        return api.restore(tmp_path / "ck", into, **options)

    return there_and_back


@pytest.fixture
def refusal(tmp_path, options):
    """The message and hint of what saving, or then restoring into something, is refused with."""

    import savemark as api

    def refusal(state, *into):
        with pytest.raises(api.SavemarkError) as raised:
            api.save(state, tmp_path / "ck", **options)
            assert into, "it was saved"
            api.restore(tmp_path / "ck", *into, **options)
        assert raised.value.kind == "usage"
        assert raised.value.hint
        return f"{raised.value.message} | {raised.value.hint}"

    return refusal


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A browser without a window, for all tests of a file."""
    browser.required()
    with browser.Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def pictures(tmp_path):
    """Where the pictures of this test go; SAVEMARK_PICTURES keeps them."""
    kept = os.environ.get("SAVEMARK_PICTURES")
    folder = Path(kept) if kept else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder

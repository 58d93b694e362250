"""Trials as other tools' command lines: exact, or refused by name."""

import pytest

from savemark.errors import SavemarkError, from_exception

MIB = 1 << 20
HERE = "/mnt/x"
URL = "s3://bucket/x"


def steps(tool, target=HERE, **options):
    """The command lines of a trial, as a study would make it."""
    from savemark import tools
    from savemark.study.keys import resolve
    from savemark.tools.job import Job

    storage = "object" if "://" in target else "posix"
    trial = resolve({"storage": storage, **options, "tool": tool}, target)
    return tools.command(tool).steps(Job.sketch(trial, target))


def words(tool, target=HERE, **options):
    """All words of all its command lines."""
    return [word for step in steps(tool, target, **options) for word in step.argv]


SEQUENTIAL = {"workload": "sequential", "size": 64 * MIB, "payload": "random"}
ONE = {**SEQUENTIAL, "queue_depth": 1}
SHARED = {"workload": "shared_file", "payload": "random", "block_size": 4 * MIB, "segments": 1}
SHARED |= {"reorder": 0}
OWN = {**SHARED, "workload": "file_per_process"}


@pytest.mark.parametrize(
    ("tool", "options", "wanted", "unwanted"),
    [
        (
            "fio",
            ONE,
            ["--rw=write", "--end_fsync=1", "--ioengine=psync", "--direct=1"],
            ["--fsync=1"],
        ),
        ("fio", {**ONE, "sync": "each"}, ["--fsync=1"], ["--end_fsync=1"]),
        ("fio", {**ONE, "sync": "none", "direct": False}, ["--direct=0"], ["--end_fsync=1"]),
        ("fio", {**ONE, "operation": "read"}, ["--rw=read"], ["--end_fsync=1"]),
        ("fio", {**SEQUENTIAL, "storage": "uring"}, ["--ioengine=io_uring", "--iodepth=8"], []),
        (
            "fio",
            {**ONE, "workers": 4},
            ["--numjobs=4", "--size=16777216", "--offset_increment=16777216"],
            [],
        ),
        ("fio", {**ONE, "duration": "1500ms"}, ["--time_based", "--runtime=1500000us"], []),
        ("fio", {**ONE, "payload": "zeros"}, ["--zero_buffers"], []),
        (
            "fio",
            {**ONE, "payload": "bf16", "seed": 7},
            ["--buffer_compress_percentage=22", "--randseed=7"],
            [],
        ),
        (
            "fio",
            {
                "workload": "random",
                "storage": "uring",
                "duration": None,
                "operations": 10,
                "batch": 4,
            },
            ["--rw=randread", "--norandommap", "--io_size=40960", "--iodepth_batch_complete_min=4"],
            ["--time_based"],
        ),
        (
            "fio",
            {"workload": "checkpoint", "size": 64 * MIB, "streams": 2},
            ["--numjobs=2", "--size=33554432", "--bs=1048576", "--rw=write", "--rw=read"],
            [],
        ),
        ("dd", ONE, ["bs=1048576", "count=64", "oflag=direct", "conv=notrunc,fsync"], []),
        ("dd", {**ONE, "sync": "each"}, ["oflag=direct,sync", "conv=notrunc"], []),
        ("dd", {**ONE, "payload": "zeros"}, ["if=/dev/zero"], []),
        (
            "dd",
            {**ONE, "operation": "read", "direct": False},
            ["of=/dev/null"],
            ["iflag=fullblock,direct"],
        ),
        ("ior", {**ONE, "workers": 2}, ["mpirun", "-np", "2", "-e", "-b", "33554432"], ["-Y"]),
        ("ior", {**ONE, "sync": "each"}, ["-Y"], ["mpirun", "-e"]),
        (
            "ior",
            {**SHARED, "segments": 3, "workers": 2},
            ["mpirun", "-w", "-r", "-s", "3", "-b", "4194304", "-t", "1048576", "-e"],
            ["-F", "-C", "-E", "-D", "-z"],
        ),
        ("ior", {**OWN, "workers": 2, "sync": "none"}, ["-F", "-k"], ["-e", "-Y", "-z"]),
        ("ior", {**OWN, "random_offsets": True, "workers": 2}, ["-F", "-z"], []),
        (
            "ior",
            {**SHARED, "phase_deadline": "2s", "wear_out": True},
            ["-D", "2", "stoneWallingWearOut=1", "stoneWallingStatusFile=SCRATCH/stonewall"],
            [],
        ),
        (
            "elbencho",
            {**SHARED, "workers": 2, "sync": "none"},
            ["-w", "-r", "-t", "2", "-s", "8388608", "/mnt/x/savemark-data.bin"],
            ["-N", "--preallocfile"],
        ),
        (
            "elbencho",
            {**OWN, "segments": 3, "workers": 2, "sync": "none", "preallocate": True},
            ["-n", "0", "-N", "1", "-s", "12582912", "--preallocfile", HERE],
            ["/mnt/x/savemark-data.bin"],
        ),
        (
            "mdtest",
            {"workload": "metadata"},
            ["-n", "10000", "-F", "-u", "-C", "-T", "-E", "-r"],
            ["-w"],
        ),
        (
            "mdtest",
            {
                "workload": "metadata",
                "shared": True,
                "file_size": 3901,
                "neighbour": True,
                "workers": 2,
            },
            ["-w", "3901", "-n", "5000", "-N"],
            ["-u"],
        ),
        ("iozone", ONE, ["-e", "-I", "-s", "65536k", "-r", "1024k"], ["-o"]),
        (
            "elbencho",
            {**ONE, "sync": "none", "workers": 2},
            ["-w", "-t", "2", "--direct"],
            ["--iodepth=8"],
        ),
        (
            "elbencho",
            {**SEQUENTIAL, "operation": "read", "storage": "uring"},
            ["--iodepth=8", "-r"],
            [],
        ),
        ("elbencho", {"workload": "metadata", "payload": "random"}, ["--stat", "-N", "10000"], []),
    ],
)
def test_an_option_becomes_its_own(tool, options, wanted, unwanted):
    found = words(tool, **options)
    assert [word for word in wanted if word not in found] == [], found
    assert [word for word in unwanted if word in found] == [], found


@pytest.mark.parametrize(
    ("tool", "options", "wanted"),
    [
        (
            "aws",
            {**SEQUENTIAL, "operation": "write"},
            ["--recursive", "SOURCE/out", "s3://bucket/x/"],
        ),
        ("aws", {**SEQUENTIAL, "operation": "read"}, ["s3://bucket/x/savemark-data.bin", "-"]),
        (
            "s5cmd",
            {**SEQUENTIAL, "operation": "write"},
            ["cp", "--part-size", "16", "--concurrency", "4"],
        ),
        (
            "s5cmd",
            {**SEQUENTIAL, "operation": "read"},
            ["cat", "--part-size", "1", "--concurrency", "8"],
        ),
        ("rclone", {**SEQUENTIAL, "workers": 3}, ["--transfers", "3", "--s3-chunk-size=16777216B"]),
        ("rclone", {**SEQUENTIAL, "operation": "read"}, ["--multi-thread-streams=8"]),
        (
            "warp",
            {"workload": "random", "workers": 2, "queue_depth": 3, "duration": "2s"},
            ["--range-size=4096", "--concurrent=6", "--noclear", "--prefix=x/"],
        ),
    ],
)
def test_a_bucket_has_its_own_words(monkeypatch, tool, options, wanted):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    found = words(tool, URL, **options)
    assert [word for word in wanted if word not in found] == [], found
    server = [word for word in found if "127.0.0.1:9" in word]
    assert server, "the server of the environment"


def test_settings_of_aws_stand_in_its_file(monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    write, restore = steps("aws", URL, workload="checkpoint", streams=2, part_size="8m", retries=3)
    assert write.aws == {
        "max_concurrent_requests": 8,
        "multipart_chunksize": 8 * MIB,
        "multipart_threshold": 8 * MIB,
    }
    assert restore.aws["max_concurrent_requests"] == 4
    assert write.environment["AWS_MAX_ATTEMPTS"] == "4"
    assert "--endpoint-url" not in write.argv


@pytest.mark.parametrize("tool", ["aws", "s5cmd", "rclone", "warp"])
def test_credentials_in_the_server_s_url_reach_no_command_line(monkeypatch, tool):
    options = {"workload": "random", "duration": "2s"} if tool == "warp" else SEQUENTIAL
    for wrong in ("http://user:SECRET@127.0.0.1:9", "https://SECRET@storage.example"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", wrong)
        with pytest.raises(Exception, match="AWS_ENDPOINT_URL") as refused:
            words(tool, URL, **options)
        told = from_exception(refused.value)
        assert told.kind == "usage"
        assert "SECRET" not in f"{told.message} {told.hint}"


def test_secrets_are_no_words(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    for tool in ("aws", "s5cmd", "rclone"):
        assert not [w for w in words(tool, URL, **SEQUENTIAL) if "SECRET" in w]
    (step,) = steps("warp", URL, workload="random")
    assert "SECRET" not in " ".join(step.argv)
    assert step.environment["WARP_SECRET_KEY"] == "SECRET"


@pytest.mark.parametrize(
    ("tool", "target", "options", "said"),
    [
        ("dd", HERE, {**ONE, "workers": 2}, "dd cannot express workers=2: it is one process"),
        ("dd", HERE, {**ONE, "duration": "1s"}, "duration=1.0"),
        ("dd", HERE, {**SEQUENTIAL, "storage": "uring"}, "queue_depth=8: it waits"),
        ("dd", HERE, {"workload": "random"}, "workload=random"),
        ("dd", HERE, {**ONE, "size": 64 * MIB + 4096}, "size=67112960"),
        ("dd", HERE, {"workload": "checkpoint"}, "streams=4"),
        ("dd", HERE, {"workload": "checkpoint", "streams": 0, "codec": "zstd"}, "codec=zstd"),
        ("fio", HERE, {**ONE, "checksum": True}, "checksum=true"),
        ("fio", HERE, {**ONE, "workers": 3}, "size=67108864"),
        ("fio", HERE, {**ONE, "memory": "8m"}, "memory=8388608: it has no such option"),
        ("fio", HERE, {"workload": "metadata"}, "workload=metadata"),
        ("fio", HERE, {"workload": "checkpoint", "state": "/tmp"}, "state=/tmp"),
        ("fio", HERE, {"workload": "checkpoint", "cache": "warm"}, "cache=warm"),
        ("fio", URL, ONE, "fio cannot measure s3://bucket/x"),
        ("fio", HERE, {**ONE, "storage": "memory"}, "storage=memory"),
        ("elbencho", HERE, ONE, "sync=end"),
        ("elbencho", HERE, {**ONE, "sync": "none", "payload": "text"}, "payload=text"),
        ("elbencho", HERE, {**ONE, "operation": "read", "duration": "1500ms"}, "whole seconds"),
        (
            "elbencho",
            HERE,
            {"workload": "metadata", "payload": "random", "sync": "each"},
            "sync=each",
        ),
        ("ior", HERE, {**ONE, "duration": "1s"}, "stonewall"),
        ("ior", HERE, {**ONE, "payload": "bf16"}, "payload=bf16"),
        ("ior", HERE, {**SHARED, "workers": 2, "reorder": None}, "left out it is 1"),
        ("ior", HERE, {**SHARED, "workers": 3, "reorder": 2}, "reorder=2"),
        ("ior", HERE, {**SHARED, "random_offsets": True}, "random_offsets=true"),
        ("ior", HERE, {**OWN, "segments": 2, "random_offsets": True}, "random_offsets=true"),
        ("ior", HERE, {**SHARED, "phase_deadline": "1s"}, "wear_out=false"),
        (
            "ior",
            HERE,
            {**SHARED, "phase_deadline": "1500ms", "wear_out": True},
            "phase_deadline=1.5: it counts whole seconds",
        ),
        ("ior", HERE, {**SHARED, "verify": True}, "verify=true"),
        ("ior", HERE, {**SHARED, "cache": "warm"}, "cache=warm"),
        ("ior", HERE, {**SHARED, "stripe_count": 4}, "stripe_count=4"),
        ("ior", HERE, {**SHARED, "preallocate": True}, "preallocate=true: it has no such option"),
        ("ior", HERE, {**SHARED, "sync": "group"}, "sync=group: it has no such flush"),
        ("fio", HERE, {**ONE, "sync": "group"}, "sync=group: it has no such flush"),
        ("dd", HERE, {**ONE, "sync": "group"}, "sync=group: it has no such flush"),
        ("iozone", HERE, {**ONE, "sync": "group"}, "sync=group: it has no such flush"),
        ("elbencho", HERE, SHARED, "sync=end"),
        ("elbencho", HERE, {**SHARED, "sync": "none", "segments": 2}, "segments=2"),
        ("elbencho", HERE, {**OWN, "sync": "none", "workers": 2, "reorder": 1}, "reorder=1"),
        ("elbencho", HERE, {**OWN, "sync": "none", "random_offsets": True}, "may come twice"),
        ("elbencho", HERE, {**OWN, "sync": "none", "phase_deadline": "1s"}, "phase_deadline=1"),
        ("fio", HERE, SHARED, "workload=shared_file"),
        ("mdtest", HERE, {"workload": "metadata", "sync": "end"}, "sync=end"),
        ("mdtest", HERE, {"workload": "metadata", "items": 11, "workers": 2}, "items=11"),
        ("mdtest", HERE, {"workload": "metadata", "phase_deadline": "1s"}, "phase_deadline"),
        ("iozone", HERE, {**ONE, "workers": 2}, "workers=2"),
        ("io500", HERE, ONE, "workload=sequential"),
        ("aws", HERE, ONE, "aws cannot measure /mnt/x"),
        ("aws", URL, {"workload": "checkpoint", "codec": "lz4"}, "codec=lz4"),
        ("s5cmd", URL, {**SEQUENTIAL, "operation": "read", "transfer_size": "64k"}, "whole MiB"),
        ("s5cmd", URL, {**SEQUENTIAL, "timeout": "5s"}, "timeout=5"),
        ("rclone", HERE, {**ONE, "direct": False}, "sync=end"),
        ("rclone", HERE, {**ONE, "sync": "none"}, "direct=true"),
        ("warp", URL, {"workload": "random", "duration": None, "operations": 5}, "duration (left"),
        ("warp", URL, {"workload": "random", "operations": 5}, "operations=5"),
    ],
)
def test_what_a_tool_cannot_express_is_refused_by_name(tool, target, options, said):
    with pytest.raises(SavemarkError) as error:
        steps_or_check(tool, target, options)
    assert error.value.kind == "usage"
    assert tool in error.value.message
    assert said in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"duration": "1s"}, "leave --duration out"),
        ({"checksum": True}, "use --no-checksum"),
        ({"workers": 2}, "use --workers 1"),
    ],
)
def test_a_refusal_says_what_to_type(options, hint):
    with pytest.raises(SavemarkError) as error:
        words("dd", **{**ONE, **options})
    assert error.value.hint == hint


def steps_or_check(tool, target, options):
    from savemark.study.keys import resolve

    storage = "object" if "://" in target else "posix"
    resolve({"storage": storage, **options, "tool": tool}, target)


def test_a_misspelt_tool_has_a_nearest_one():
    from savemark import tools

    with pytest.raises(SavemarkError) as error:
        tools.command("fioo")
    assert "`fio`" in error.value.hint


def test_an_option_that_nobody_took_is_refused():
    """A new option of the engine is refused by every tool until somebody has thought of it."""
    from savemark.tools.job import Job

    job = Job(
        {"tool": "dd", "workload": "sequential", "storage": "posix", "batch": 4}, HERE, "", ""
    )
    with pytest.raises(SavemarkError, match="batch=4: it has no such option"):
        job.complete()


def test_rclone_copies_no_set_of_files_between_directories():
    with pytest.raises(SavemarkError) as raised:
        steps("rclone", workload="copy", disk="/tmp", items=3, file_size=4096, workers=1)
    assert "copy wants a bucket" in str(raised.value)

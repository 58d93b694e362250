"""Studies: reading them, what is refused and how, factors, order, sizes."""

import json
from dataclasses import replace

import pytest

from savemark.errors import SavemarkError

STUDY = """\
name: mine
budget: 1m
repeats: 3
defaults: {storage: posix, size: auto}
ceilings:
  write: {workload: sequential, operation: write}
  codec/lz4: {workload: codec, storage: "null", codec: lz4}
  codec/zstd: {workload: codec, storage: "null", codec: zstd}
trial: {workload: checkpoint}
factors:
  codec: [none, lz4]
  streams: [0, 2]
"""


@pytest.fixture
def read(tmp_path, keys):
    from savemark.study.load import load

    def read(text=STUDY):
        file = tmp_path / "mine.yaml"
        file.write_text(text)
        return load(file, keys)

    return read


def refused(call, *arguments):
    with pytest.raises(SavemarkError) as caught:
        call(*arguments)
    assert caught.value.kind == "usage"
    return f"{caught.value.message} | {caught.value.hint}"


def test_shipped_studies_are_valid_and_named_as_their_file():
    from savemark.study.keys import Keys
    from savemark.study.load import load
    from savemark.study.plan import validate
    from savemark.study.shipped import shipped

    keys = Keys.load()  # of the engine itself, which knows every workload
    assert "quick" in shipped()
    for name, file in shipped().items():
        study = load(file, keys)
        validate(study, keys, [("x", "/somewhere")])
        assert study.name == name
        assert study.title.endswith("?"), "a study says which question it answers"


def test_grid_measures_every_setting_alike(keys):
    from savemark.study.load import load
    from savemark.study.shipped import shipped

    study = load(shipped()["grid"], keys)
    assert study.factors["streams"] == [0, 2, 4, 8]
    assert study.factors["codec"] == ["none", "tar", "lz4", "zstd", "gzip", "zlib"]
    assert (study.repeats, study.budget_s, study.order) == (5, 120.0, "balanced")
    assert {"write", "read", "random_read", "fsync", "memcpy"} < set(study.ceilings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("repeats: 3", "repeets: 3"), ["mine.yaml:3", "`repeets`", "`repeats`"]),
        (("repeats: 3", "repeats: 0"), ["mine.yaml:3", "at least 1"]),
        (("budget: 1m", "budget: soon"), ["mine.yaml:2", "budget", "duration"]),
        (("storage: posix", "strage: posix"), ["mine.yaml:4: defaults.strage", "`storage`"]),
        (("operation: write", "operatoin: write"), ["mine.yaml:6: ceilings.write", "`operation`"]),
        (("size: auto", "size: 4kb"), ["mine.yaml:4: defaults.size", "4KiB"]),
        (("streams: [0, 2]", "streams: 2"), ["mine.yaml:12: factors.streams", "list"]),
        (("streams: [0, 2]", "streams: [2, 2]"), ["mine.yaml:12", "twice"]),
        (("streams: [0, 2]", "steams: [0, 2]"), ["mine.yaml:12", "`streams`"]),
        (("repeats: 3", "budget: 3m"), ["mine.yaml:3", "duplicate key", "budget"]),
        (("repeats: 3", "repeats: [3"), ["mine.yaml:"]),
        (("workload: checkpoint", "target: /mnt"), ["mine.yaml:9: trial.target", "command line"]),
        (("{workload: sequential, ", "{"), ["mine.yaml:6: ceilings.write", "workload"]),
        (("trial: {workload: checkpoint}\n", ""), ["`trial` is missing"]),
    ],
)
def test_what_is_wrong_is_named_with_line_path_and_fix(read, change, words):
    assert change[0] in STUDY
    message = refused(read, STUDY.replace(*change, 1))
    for word in words:
        assert word in message


def test_wrong_values_are_refused_by_the_engine_with_the_section(read, keys):
    from savemark.study.plan import validate

    study = read(STUDY.replace("streams: [0, 2]", "streams: [0, many]"))
    message = refused(validate, study, keys, [("x", "/x")])
    assert "trial (none × many)" in message
    assert "mine.yaml:9" in message


def test_yaml_1_2_words_are_no_booleans(read):
    study = read(STUDY.replace("name: mine", "name: off"))
    assert study.name == "off"


def test_exclude_takes_cells_away(read):
    study = read(STUDY + "exclude:\n  - {codec: lz4, streams: [0]}\n")
    assert len(study.cells()) == 3
    assert {"codec": "lz4", "streams": 0} not in study.cells()
    message = refused(read, STUDY + "exclude:\n  - {codek: lz4}\n")
    assert "mine.yaml:14" in message
    assert "`codec`" in message


def test_a_flag_sets_levels_of_a_factor_or_the_trials_key(read, keys):
    from savemark.study.overrides import override

    study = override(read(), {"codec": "none,zstd", "streams": "4", "chunk_size": "1m"}, keys)
    assert study.factors == {"codec": ["none", "zstd"], "streams": [4]}
    assert study.trial["chunk_size"] == 1 << 20
    assert override(study, {"payload": "bf16,random"}, keys).factors["payload"] == [
        "bf16",
        "random",
    ]
    assert "`4x` is not a number" in refused(override, study, {"streams": "4x"}, keys)
    assert "4KiB" in refused(override, study, {"size": "4kb"}, keys)


def test_a_flag_reaches_the_ceilings_that_know_the_key_and_do_not_set_it(read, keys):
    from savemark.study.overrides import override
    from savemark.study.plan import block

    study = override(read(), {"storage": "uring", "direct": "false", "size": "32m"}, keys)
    trials = {e.name: e.trial(study, keys) for e in block(study, ["x"])}
    assert trials["write"]["storage"] == "uring"
    assert trials["write"]["direct"] is False
    assert trials["write"]["size"] == 32 << 20
    assert trials["codec/lz4"]["storage"] == "null"
    assert "direct" not in trials["codec/lz4"]


def test_a_codec_that_no_cell_uses_has_no_ceiling(read):
    assert set(read().useful_ceilings()) == {"write", "codec/lz4"}


def test_a_ceiling_has_the_workers_of_what_is_held_against_it(read, keys):
    from savemark.study.load import load
    from savemark.study.shipped import shipped

    quick = replace(load(shipped()["grid"], keys), buckets=["s3"])
    workers = {"write/8": (8, 2), "read/8": (8, 2), "read_checked/1": (1, 8)}
    workers["read_checked/8"] = (8, 2)
    found = quick.ceilings_at("here")
    assert set(found) == set(quick.useful_ceilings()) | set(workers)
    for name, (count, depth) in workers.items():
        listed = quick.ceilings[name.split("/")[0]]
        assert found[name] == {**listed, "workers": count, "queue_depth": depth}, name
    assert {"write/1", "write/2", "write/4", "write/8"} < set(quick.ceilings_at("s3"))
    assert found["read_checked/8"]["checksum"], "it looks at each byte in every form"
    # A worker has at least one transfer; a study that saves nothing has its ceilings as listed.
    tiny = replace(quick, defaults={**quick.defaults, "size": 4 << 20})
    assert tiny.ceilings_at("here")["write/8"]["workers"] == 4
    blocks = STUDY.replace("{workload: checkpoint}", "{workload: random}").partition("factors")[0]
    assert set(read(blocks + "factors: {queue_depth: [1, 8]}\n").ceilings_at("here")) == {"write"}


@pytest.mark.parametrize(
    ("flags", "from_memory"),
    [({}, True), ({"state": "."}, False), ({"state": "gpu"}, False), ({"state": "process"}, False)],
)
def test_only_a_generated_state_is_what_a_ceiling_writes_from(keys, flags, from_memory):
    from savemark.study.load import load
    from savemark.study.overrides import override
    from savemark.study.shipped import shipped

    study = override(load(shipped()["grid"], keys), flags, keys)
    found = study.ceilings_at("here")
    for name in ("write", "write/8"):
        assert found.get(name, {}).get("from_state", False) is from_memory, name
    assert "from_state" not in found["read_checked"]


def test_each_repeat_is_a_shuffled_block_with_everything_once(read):
    from savemark.study.plan import plan

    study = read()
    entries = plan(study, ["x"], seed=7)
    assert [entry.index for entry in entries] == list(range(3 * 7))
    blocks = [[e for e in entries if e.repeat == repeat] for repeat in (0, 1, 2)]
    settings = [[e.setting for e in block] for block in blocks]
    assert entries == [e for block in blocks for e in block], "blocks do not mix"
    assert len({tuple(sorted(names)) for names in settings}) == 1
    assert len({tuple(names) for names in settings}) > 1
    assert plan(study, ["x"], seed=7) == entries
    assert plan(study, ["x"], seed=8) != entries
    listed = plan(replace(study, order="listed"), ["x"], seed=7)
    assert [e.setting for e in listed[:7]] == [e.setting for e in listed[7:14]]


def test_several_targets_are_a_factor(read):
    from savemark.study.plan import plan

    entries = plan(read(), ["a", "b"], seed=1)
    assert len(entries) == 2 * 3 * 7
    assert all(entry.factors["target"] == entry.label for entry in entries)


def test_a_study_survives_its_run_folder(read):
    from savemark.study.model import Study

    study = read()
    assert Study.from_json(json.loads(json.dumps(study.as_json()))) == study


def test_auto_is_the_largest_nice_size_that_fits_the_budget(read, keys):
    from savemark.study import sizing
    from savemark.study.cost import Codec, Rates, Storage

    study = read()
    rates = Rates(
        cores=2,
        storages={("x", "posix"): Storage(1e9, 1e9)},
        codecs={("lz4", None): Codec(5e8, 1e9, 0.8)},
    )
    size = sizing.choose(study, keys, ["x"], rates, sizing.MAX_BYTES)
    sizes = sizing.nice_sizes()

    def seconds(size_bytes):
        return sizing.total(study.with_size(size_bytes), keys, ["x"], rates).seconds

    assert seconds(size) <= 0.85 * study.budget_s < seconds(sizes[sizes.index(size) - 1])
    assert sizing.choose(study, keys, ["x"], rates, 100 << 20) == 96 << 20
    poor = replace(study, budget_s=0.001)
    assert sizing.choose(poor, keys, ["x"], rates, sizing.MAX_BYTES) == 16 << 20
    assert sizes[-3:] == [32 << 20, 24 << 20, 16 << 20]
    assert sizes[0] == 4 << 30

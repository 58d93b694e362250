"""What a state comes back as: its types, what shares memory in it, and what `into` must be."""

import enum
import inspect
import json
import sys
from collections import Counter, OrderedDict, UserDict, defaultdict, namedtuple

import numpy as np
import pytest

import savemark
from savemark.checkpoint import filling, index, nodes


class TestTypes:
    def test_dicts_come_back_as_what_they_were(self, there_and_back):
        state = {
            "ordered": OrderedDict(b=1, a=2),
            "counter": Counter(aab=3),
            "default": defaultdict(list, {7: [1]}),
            "none": defaultdict(None, a=1),
        }
        back = there_and_back(state)
        assert back == state
        for name, value in state.items():
            assert type(back[name]) is type(value), name
        assert back["default"]["new"] == []
        assert list(back["ordered"]) == ["b", "a"]
        with pytest.raises(KeyError):
            back["none"]["new"]

    def test_the_versions_that_modules_keep_come_back(self, there_and_back):
        state = OrderedDict(w=np.arange(3))
        state._metadata = OrderedDict({"": {"version": 1}, "norm": {"version": 2}})
        back = there_and_back(state)
        assert back._metadata == state._metadata
        assert type(back._metadata) is OrderedDict

    def test_numbers_of_any_length_come_back(self, there_and_back):
        state = [2**63 - 1, -(2**63), 2**64, -(7**9000), 10**5000]
        assert there_and_back(state) == state

    @pytest.mark.parametrize(
        ("value", "hint"),
        [
            (namedtuple("Point", "x y")(1, 2), "_asdict()"),
            (enum.IntEnum("Color", "red")(1), "x.value"),
            (enum.Enum("Color", "red")(1), "x.value"),
            (type("Text", (str,), {})("a"), "str(x)"),
            (type("Number", (int,), {})(1), "int(x)"),
            (type("Real", (float,), {})(1), "float(x)"),
            (type("List", (list,), {})([1]), "list(x)"),
            (type("Dict", (dict,), {})(a=1), "dict(x)"),
            (UserDict(a=1), "dict(x)"),
            (type("Raw", (bytes,), {})(b"1"), "bytes(x)"),
            ({1, 2}, "list(x)"),
            (1j, "numpy.complex128"),
            (np.ma.masked_array([1, 2], [True, False]), ".mask"),
            (np.eye(2).view(type("Mine", (np.ndarray,), {})), "numpy.asarray"),
            (defaultdict(lambda: 0), "dict(x)"),
        ],
    )
    def test_what_would_come_back_as_another_type_is_refused_by_name(self, refusal, value, hint):
        found = refusal({"here": [value]})
        assert "state['here'][0]" in found
        assert hint in found

    def test_attributes_of_a_dict_are_not_lost_silently(self, refusal):
        state = OrderedDict(a=1)
        state.note = "mine"
        assert "state has attributes of its own: note" in refusal(state)

    def test_keys_that_would_come_back_as_others_are_refused(self, refusal):
        key = type("Key", (str,), {})("a")
        assert "state has the key 'a'" in refusal({key: 1})


class TestTree:
    def test_what_is_saved_is_restored_at_every_depth(self, there_and_back, refusal):
        def nested(depth, make):
            state = np.arange(3)
            for _ in range(depth):
                state = make(state)
            return state

        for make in (lambda x: [x], lambda x: {"a": x}, lambda x: (x,)):
            back = there_and_back(nested(index.MAX_DEPTH, make))
            while not isinstance(back, np.ndarray):
                back = back["a"] if isinstance(back, dict) else back[0]
            assert back.tolist() == [0, 1, 2]
            for depth in (index.MAX_DEPTH + 1, 450, 100_000):
                assert f"more than {index.MAX_DEPTH}" in refusal(nested(depth, make))

    def test_near_the_end_of_the_stack_it_is_an_error_of_ours(self, tmp_path, options):
        state = 1
        for _ in range(index.MAX_DEPTH):
            state = [state]
        savemark.save(state, tmp_path / "ck", **options)

        def call(depth, act):
            return call(depth - 1, act) if depth else act()

        for act in (
            lambda: savemark.save(state, tmp_path / "ck", **options),
            lambda: savemark.restore(tmp_path / "ck", **options),
            lambda: savemark.restore(tmp_path / "ck", state, **options),
        ):
            with pytest.raises(savemark.SavemarkError, match="too deep"):
                call(sys.getrecursionlimit() - len(inspect.stack()) - 60, act)

    def test_what_holds_itself_is_refused_by_name(self, refusal):
        state = {"a": {"b": []}}
        state["a"]["b"].append(state["a"])
        assert "state['a']['b'][0] holds itself" in refusal(state)

    def test_a_list_that_is_there_twice_is_one_list_again(self, there_and_back):
        shared, betas = [1, 2], (0.9, 0.99)
        back = there_and_back({"a": shared, "b": {"c": shared}, "d": [betas, betas]})
        assert back["a"] is back["b"]["c"]
        assert back["d"] == [betas, betas]
        wide = [1]
        for _ in range(60):
            wide = [wide, wide]  # 2^60 entries, if each were looked at
        into = there_and_back(wide)
        assert into[0] is into[1]
        assert there_and_back(wide, into) is into

    @pytest.mark.parametrize(
        "node",
        [
            {"kind": "list", "items": [{"kind": "same", "as": 0}]},
            {"kind": "same", "as": 0},
            {"kind": "list", "items": [{"kind": "same", "as": "x"}]},
            {"kind": "dict", "items": [["a", {"kind": "value", "value": 1}]] * 2},
            {"kind": "dict", "items": [[None, {"kind": "value", "value": 1}]]},
            {"kind": "dict", "items": [], "type": "Popen"},
            {"kind": "dict", "items": [], "type": "defaultdict", "default": "eval"},
            {"kind": "value", "value": {}},
            {"kind": "bytes", "offset": -1, "bytes": 4},
            {"kind": "int", "value": "zz"},
            {"kind": []},
            [],
        ],
    )
    def test_a_node_that_no_savemark_wrote_is_corrupt(self, node):
        head = {"format": "savemark-state", "version": 2, "tree": node}
        with pytest.raises(savemark.SavemarkError) as raised:
            nodes.read(json.dumps(head).encode(), 100)
        assert raised.value.kind == "corrupt"

    def test_strides_of_elsewhere_stay_inside_the_data(self):
        good = {"kind": "array", "library": "numpy", "dtype": "<i4", "shape": [2, 3]}
        good |= {"offset": 8, "bytes": 24, "strides": [4, 8]}

        def read(**changes):
            head = {"format": "savemark-state", "version": 2, "tree": good | changes}
            return filling.Filling(nodes.read(json.dumps(head).encode(), 40), None)

        assert read().finish().strides == (4, 8)
        for wrong in ([-4, 8], [4, 80], [4], [4, "x"], [1 << 70, 8], [4, -16]):
            with pytest.raises(savemark.SavemarkError) as raised:
                read(strides=wrong)
            assert raised.value.kind == "corrupt", wrong

    def test_an_index_of_the_first_version_still_reads_and_a_newer_one_says_so(self):
        leaf = {"kind": "array", "library": "numpy", "dtype": "<i4", "shape": [2]}
        leaf |= {"offset": 0, "bytes": 8}
        tree = {"kind": "dict", "items": [["a", leaf], ["b", {"kind": "value", "value": 10**30}]]}
        head = {"format": "savemark-state", "version": 1, "tree": tree}
        back = filling.Filling(nodes.read(json.dumps(head).encode(), 8), None).finish()
        assert back["a"].shape == (2,)
        assert back["b"] == 10**30
        head["version"] = 3
        with pytest.raises(savemark.SavemarkError, match="newer savemark") as raised:
            nodes.read(json.dumps(head).encode(), 8)
        assert raised.value.kind == "failed"


class TestSharedMemory:
    def test_views_share_memory_again(self, there_and_back, tmp_path):
        base = np.arange(12.0)
        state = {
            "w": base,
            "flat": base.reshape(3, 4),
            "part": base[2:7],
            "turned": base.reshape(3, 4).T,
            "bytes": base.view(np.uint8)[4:9],
            "gaps": base[1::5],
            "wide": np.broadcast_to(base[3:4], (2, 2)),
        }
        back = there_and_back(state)
        for name, array in state.items():
            assert np.array_equal(back[name], array), name
            assert back[name].strides == array.strides, name
        back["w"][...] = -1
        for name in set(state) - {"bytes"}:
            assert (back[name] == -1).all(), name

    def test_slices_that_overlap_share_what_they_have_in_common(self, there_and_back):
        base = np.arange(20)
        back = there_and_back([base[:10], base[5:15], base[12:14]])
        assert [array.tolist() for array in back] == [
            list(range(10)), list(range(5, 15)), [12, 13]
        ]  # fmt: skip
        back[1][:] = 7
        assert back[0].tolist() == [*range(5), 7, 7, 7, 7, 7]
        assert back[2].tolist() == [7, 7]

    def test_what_only_lies_between_each_other_is_stored_without_gaps(self, tmp_path, options):
        base = np.random.default_rng(1).random((1000, 500))
        report = savemark.save([base[:, 3], base[:, 4]], tmp_path / "ck", **options)
        assert report["user_bytes"] < 20_000
        back = savemark.restore(tmp_path / "ck", **options)
        assert np.array_equal(back[0], base[:, 3])
        assert np.array_equal(back[1], base[:, 4])

    def test_strides_come_back_and_cost_no_copy(self, there_and_back):
        base = np.random.default_rng(1).random((20, 30, 40))
        state = {"last": base.transpose(2, 0, 1), "fortran": np.asfortranarray(base[0])}
        _, layout = index.write(state)
        own = {array.__array_interface__["data"][0] for array in state.values()}
        lent = {np.asarray(flat).__array_interface__["data"][0] for _, flat in layout.lent}
        assert lent == own
        back = there_and_back(state)
        for name, array in state.items():
            assert back[name].strides == array.strides
            assert np.array_equal(back[name], array)
        # Into other strides each element still comes to its place.
        into = {"last": np.zeros((40, 20, 30)), "fortran": np.zeros((60, 40))[::2]}
        there_and_back(state, into)
        for name, array in state.items():
            assert np.array_equal(into[name], array)

    def test_ties_are_filled_whatever_ties_the_callers_arrays_have(self, there_and_back):
        base = np.arange(12.0)
        state = {"w": base, "flat": base.reshape(3, 4), "part": base[2:7]}
        mine = np.zeros(12)
        for into in (
            {"w": mine, "flat": mine.reshape(3, 4), "part": mine[2:7]},
            {"w": np.zeros(12), "flat": np.zeros((3, 4)), "part": np.zeros(5)},
            {"w": np.zeros(24)[::2], "flat": mine.reshape(3, 4), "part": mine[2:7]},
        ):
            there_and_back(state, into)
            for name, array in state.items():
                assert np.array_equal(into[name], array), name

    def test_nothing_between_the_callers_elements_is_written(self, there_and_back):
        saved, mine = np.arange(40).reshape(4, 10), np.full((4, 10), -1)
        state = {"a": saved[:, :2], "b": saved[:, 1:3]}
        there_and_back(state, {"a": mine[:, :2], "b": mine[:, 1:3]})
        assert np.array_equal(mine[:, :3], saved[:, :3])
        assert (mine[:, 3:] == -1).all()

    @pytest.mark.parametrize(
        "tied",
        [
            lambda x: {"a": x, "b": x},
            lambda x: {"a": x, "b": x[::-1]},
            lambda x: {"a": x, "b": x.view(np.int64)},
        ],
    )
    def test_entries_that_share_memory_here_alone_are_refused(self, refusal, tied):
        into = tied(np.zeros(4))
        state = {"a": np.arange(4.0), "b": np.arange(4).astype(into["b"].dtype) + 4}
        assert "state['a'] and state['b'] share memory here alone" in refusal(state, into)
        assert (into["a"] == 0).all()

    def test_slices_that_overlap_in_another_way_are_refused(self, refusal):
        saved, mine = np.arange(20.0), np.zeros(20)
        state = {"a": saved[:10], "b": saved[5:15]}
        into = {"a": mine[:10], "b": mine[4:14]}
        assert "share memory here alone" in refusal(state, into)
        buffer = bytearray(4)
        state = {"a": bytearray(b"1234"), "b": bytearray(b"5678")}
        assert "share memory" in refusal(state, {"a": buffer, "b": buffer})

    def test_columns_that_lie_between_each_other_are_filled(self, there_and_back):
        mine = np.zeros((5, 2))
        into = {"a": mine[:, 0], "b": mine[:, 1]}
        there_and_back({"a": np.arange(5.0), "b": -np.arange(5.0)}, into)
        assert mine.tolist() == [[x, -x] for x in range(5)]

    def test_a_bytearray_and_an_array_over_it_are_refused(self, refusal):
        buffer = bytearray(64)
        found = refusal({"raw": buffer, "array": np.frombuffer(buffer, np.uint8)[3:9]})
        assert "state['raw'], state['array'] share memory" in found
        assert "state[0], state[1] share memory" in refusal([buffer, buffer])


class TestInto:
    def test_every_difference_is_told_at_once_and_nothing_is_filled(self, refusal):
        state = {
            "model": {"w": np.ones(3), "b": np.ones(2), "step": 7},
            "rng": [np.ones(2), 5],
            "name": "run",
            "raw": b"12345",
            "gone": 1,
        }
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        into = {
            "model": {"w": np.zeros((3, 1)), "b": np.zeros(2, "f4"), "step": np.zeros(1)},
            "rng": [frozen[:2], np.zeros(5)],
            "name": 5,
            "raw": bytearray(4),
            "more": 1,
        }
        found = refusal(state, into)
        assert "differ in 9 places" in found
        for words in (
            "state['model']['w'] is <f8 (3, 1); the checkpoint has <f8 (3,)",
            "state['model']['b'] is <f4 (2,); the checkpoint has <f8 (2,)",
            "state['model']['step'] is a numpy array; the checkpoint has number '7'",
            "state['rng'][0] is read-only",
            "state['rng'][1] is a numpy array; the checkpoint has number '5'",
            "state['name'] is a int; the checkpoint has text 'run'",
            "state['raw'] is a bytearray; the checkpoint has 5 bytes",
            "state['gone'] is missing in `into`",
            "state['more'] is not in the checkpoint",
        ):
            assert words in found, found
        assert not into["model"]["w"].any()

    @pytest.mark.parametrize(
        ("state", "into"),
        [
            (7, np.zeros(1)),
            (np.zeros(1), 7),
            (np.zeros(1), [0.0]),
            ({"a": 1}, [1]),
            ([1], (1,)),
            ((1,), [1]),
            ((1,), namedtuple("One", "x")(1)),
            (None, np.zeros(3)),
            (b"1", np.zeros(1, np.uint8)),
            (np.float32(1), np.zeros(())),
            (np.zeros(()), np.float64(0)),
            ((), (1,)),
            ((1,), ()),
        ],
    )
    def test_kinds_that_differ_are_refused(self, refusal, state, into):
        assert "differ" in refusal({"a": state}, {"a": into})

    def test_what_is_empty_takes_what_the_checkpoint_has(self, there_and_back):
        """A fresh optimizer's state is empty, and its momentum None."""
        moments = {0: {"step": 3, "m": np.arange(3.0)}, 1: {"step": 3, "m": np.arange(2.0)}}
        groups = [{"lr": 0.1, "params": [0, 1], "betas": (0.9, 0.99)}]
        state = {"state": moments, "param_groups": groups, "history": [1.5, 2.5], "best": 0.5}
        into = {"state": {}, "param_groups": [{"lr": 1, "params": [0, 1], "betas": (0, 0)}]}
        into |= {"history": [], "best": None}
        held, history = into["state"], into["history"]
        assert there_and_back(state, into) is into
        assert held is into["state"]
        assert history == [1.5, 2.5]
        assert held[1]["m"].tolist() == [0, 1]
        assert held[0]["step"] == 3
        assert into["param_groups"] == groups
        assert into["best"] == 0.5
        again = {
            "state": {0: None, 1: {"step": 0, "m": None}},
            **dict.fromkeys(list(state)[1:]),
        }
        there_and_back(state, again)
        assert again["state"][1]["m"].tolist() == [0, 1]
        assert again["history"] == [1.5, 2.5]

    def test_what_is_not_empty_keeps_no_entry_that_the_checkpoint_lacks(self, refusal):
        assert "state['state'][0] is not in the checkpoint" in refusal(
            {"state": {}}, {"state": {0: 1}}
        )

    def test_lists_are_filled_where_they_are(self, there_and_back):
        inner = [0, np.zeros(2), "", (0, np.zeros(1))]
        into = [inner, {"a": inner[1:2]}]
        array = inner[1]
        state = [[5, np.arange(2.0), "text", (6, np.ones(1))], {"a": [np.zeros(2)]}]
        state[1]["a"][0] = state[0][1]
        assert there_and_back(state, into) is into
        assert inner[0] == 5
        assert inner[1] is array
        assert inner[2] == "text"
        assert inner[3][0] == 6
        assert array.tolist() == [0, 1]

    def test_elements_that_share_a_place_are_refused(self, refusal):
        into = np.lib.stride_tricks.as_strided(np.zeros(4), (4, 2), (8, 8))
        assert "share a place" in refusal({"a": np.ones((4, 2))}, {"a": into})

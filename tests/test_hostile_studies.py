"""A study that somebody else wrote: refused with its line, within the limits of any reader."""

import os
import re
from dataclasses import replace

import pytest

from savemark import limits
from savemark.errors import SavemarkError
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.plan import plan
from savemark.study.shipped import find
from test_hostile_files import savemark

TRIAL = "trial: {workload: memcpy, size: 1MiB}\n"
LAUGHS = "".join(
    f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" if n else "l0: &l0 [a, b]\n"
    for n in range(12)
)
WRONG = {
    "deep flow": (f"{TRIAL}title: {'[' * 60_000}\n", "levels of nesting"),
    "deep block": ("".join(f"{' ' * n}a:\n" for n in range(300)), "levels of nesting"),
    "aliases of aliases": (f"{LAUGHS}{TRIAL}", "values, with its aliases"),
    "itself": ("trial: &a\n  workload: *a\n", "`\\*a` stands in itself"),
    "a long number": (f"{TRIAL}repeats: {'9' * 5000}\n", "characters in one value"),
    "a large number": (f"{TRIAL}repeats: {'9' * 4000}\n", "a number that is too large"),
    "no number": (f"{TRIAL}max_repeats: .nan\n", "no number that can be set"),
    "no date": (f"{TRIAL}title: 2001-99-99\n", "not YAML"),
    "a date": ("trial: {workload: memcpy, size: 2001-01-01}\n", "text or a number is wanted"),
    "a tag": (f"{TRIAL}title: !!python/object/apply:os.system [id]\n", "expected text"),
    "bytes": (f"{TRIAL}title: !!binary aGVsbG8=\n", "text or a number is wanted"),
    "a key that is none": (f"{TRIAL}? [a, b]\n: c\n", "is no text"),
    "a number for a key": (f"{TRIAL}7: c\n", "is no text"),
    "a key twice": (f"{TRIAL}trial: {{}}\n", "duplicate key"),
    "a merged key": ("a: &a {wrong: 1}\ntrial: {<<: *a, workload: memcpy}\n", "unknown key"),
    "large": ("# " + "x" * limits.LARGEST_STUDY, "at most"),
    "many": ("a:\n" + "- b\n" * (limits.MOST_NODES + 1), "values, with its aliases"),
    "not UTF-8": (b"title: \xe9\n", "not YAML"),
    "cells": (
        f"{TRIAL}factors: {{workers: {list(range(1, 634))}, streams: {list(range(1, 634))}}}\n",
        "unknown key|combinations of levels",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_study_that_cannot_be_is_refused_with_its_line(tmp_path, what):
    text, why = WRONG[what]
    (tmp_path / "s.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "here").mkdir()
    code, said = savemark(tmp_path, "run", "./s.yaml", "./here", "--dry-run")
    assert code == 2, said
    assert re.search(why, said), said
    assert "s.yaml" in said


def test_what_is_no_file_is_no_study(tmp_path):
    os.mkfifo(tmp_path / "s.yaml")
    (tmp_path / "here").mkdir()
    code, said = savemark(tmp_path, "run", "./s.yaml", "./here", "--dry-run")
    assert code in (2, 5), said


def test_anchors_are_there_to_be_used(tmp_path):
    study = "defaults: &d {size: 8MiB, storage: memory}\ntrial: {<<: *d, workload: memcpy}\n"
    (tmp_path / "s.yaml").write_text(f"{study}repeats: 1\n")
    (tmp_path / "here").mkdir()
    code, said = savemark(tmp_path, "run", "./s.yaml", "./here", "--dry-run")
    assert code == 0, said


def test_more_settings_than_can_be_measured_are_refused_at_once(tmp_path):
    levels = ", ".join(f"{4 * n}KiB" for n in range(1, 101))
    (tmp_path / "s.yaml").write_text(
        "trial: {workload: sequential, storage: 'null', size: 1MiB}\n"
        f"factors: {{transfer_size: [{levels}]}}\n"
    )
    (tmp_path / "here").mkdir()
    workers = ",".join(map(str, range(1, 201)))
    code, said = savemark(tmp_path, "run", "./s.yaml", "./here", "--dry-run", "--workers", workers)
    assert code == 2, said
    assert "the factors have 20000 combinations of levels" in said


def test_more_repeats_than_a_run_holds_are_refused_at_once():
    keys = Keys.load()
    study = replace(load(find("grid"), keys), repeats=10**9).with_size(1 << 20)
    with pytest.raises(SavemarkError, match="are more than 100000 trials"):
        plan(study, ["here"], 1)
    assert len(plan(replace(study, most_trials=7), ["here"], 1)) == 7

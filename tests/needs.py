"""Skips a test for want of something, or fails it where SAVEMARK_REQUIRE asks for that."""

import os

import pytest


def missing(what, why):
    """`what` is a word of SAVEMARK_REQUIRE, such as cc or mount."""
    required = os.environ.get("SAVEMARK_REQUIRE", "").split(",")
    assert what not in required, f"SAVEMARK_REQUIRE asks for {what}, but {why}"
    pytest.skip(f"{what}: {why}")

"""The words of an error: the nearest name, the extra to install."""

from __future__ import annotations

import pytest

from sif_trainer.runs.errors import UserError, nearest, require


def test_the_nearest_name_is_offered_when_one_is_near() -> None:
    assert nearest("window_win", ["window_wins", "window_size"]) == "; did you mean 'window_wins'?"
    assert nearest("zzz", ["window_wins"]) == ""


def test_a_missing_package_names_the_extra() -> None:
    assert require("json", extra="none").dumps({}) == "{}"
    with pytest.raises(UserError, match=r"'no_such_package'.*pip install 'sif-trainer\[vllm\]'"):
        require("no_such_package", extra="vllm")

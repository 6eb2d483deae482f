"""Recipes: found by path or name, changed by key=value, checked, compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sif_trainer.runs import recipe
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.recipe import differences, find_recipe, load_recipe, parse_overrides, recipe_names


@dataclass
class Settings:
    learning_rate: float = field(default=3e-6, metadata={"help": "peak learning rate"})
    num_steps: int = 10
    name: str = "run"
    note: str | None = None
    weights: list[float] | None = None
    resume: bool = False


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of recipes that stands for the package's own."""
    root = tmp_path / "recipes"
    (root / "smoke").mkdir(parents=True)
    (root / "smoke" / "quickstart.yaml").write_text("learning_rate: 1e-4\nnum_steps: 3\n")
    (root / "train.yaml").write_text("name: train\n")
    monkeypatch.setattr(recipe, "_ROOTS", (root,))
    monkeypatch.chdir(tmp_path)
    return root


def test_a_script_stands_beside_its_recipe(recipes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (recipes / "smoke" / "own.yaml").write_text("name: scripted:own.json\nnote: scripted:elsewhere.json\n")
    (recipes / "smoke" / "own.json").write_text("{}")
    elsewhere = tmp_path / "deep"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    values = load_recipe("smoke/own", [], Settings)
    assert values == {"name": f"scripted:{recipes / 'smoke' / 'own.json'}", "note": "scripted:elsewhere.json"}
    assert load_recipe("smoke/own", ["name=scripted:own.json"], Settings)["name"] == "scripted:own.json"


@pytest.mark.parametrize("name", ["smoke/quickstart", "smoke/quickstart.yaml", "recipes/smoke/quickstart"])
def test_a_recipe_is_found_by_name_and_by_path(recipes: Path, name: str) -> None:
    assert find_recipe(name).samefile(recipes / "smoke" / "quickstart.yaml")
    assert find_recipe(str(recipes / "smoke" / "quickstart.yaml")).is_file()


def test_a_file_here_comes_before_a_recipe_of_the_package(recipes: Path, tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("name: mine\n")
    assert load_recipe("train", [], Settings) == {"name": "mine"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smoke/quikstart", "did you mean 'smoke/quickstart'?"),
        ("quickstart", "did you mean 'smoke/quickstart'?"),
        ("zzz", "known recipes: smoke/quickstart, train"),
        ("recipes", "known recipes: smoke/quickstart, train"),
    ],
)
def test_a_missing_recipe_names_others(recipes: Path, name: str, hint: str) -> None:
    with pytest.raises(UserError) as error:
        find_recipe(name)
    assert str(error.value).startswith(f"no recipe '{name}'")
    assert hint in str(error.value)


def test_overrides_replace_and_types_are_converted(recipes: Path) -> None:
    values = load_recipe("smoke/quickstart", ["num_steps=7", "learning_rate=1", "learning_rate=2e-5"], Settings)
    assert values == {"learning_rate": 2e-5, "num_steps": 7}


def test_a_bad_recipe_is_refused_with_its_name(recipes: Path) -> None:
    (recipes / "bad.yaml").write_text("num_steps: many\n")
    with pytest.raises(UserError, match=r"bad\.yaml: num_steps must be a whole number, not 'many'"):
        load_recipe("bad", [], Settings)
    (recipes / "bad.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(UserError, match=r"bad\.yaml: cannot be read as text"):
        load_recipe("bad", [], Settings)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("learning_rate=1e-5", 1e-5),
        ("num_steps=5", 5),
        ("name=3", "3"),
        ("name=true", "true"),
        ("name=Solve: x", "Solve: x"),
        ("name=@x", "@x"),
        ("name='quoted'", "quoted"),
        ("name=a=b", "a=b"),
        ("note=null", None),
        ("note=", None),
        ("weights=[1, 0.5]", [1.0, 0.5]),
        ("resume=true", True),
    ],
)
def test_an_override_is_read_as_its_field_wants_it(override: str, value: Any) -> None:
    key = override.partition("=")[0]
    assert parse_overrides([override], Settings) == {key: value}


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("learning_rat=1", "command line: unknown key 'learning_rat'; did you mean 'learning_rate'?"),
        ("learning_rate=fast", "must be a number, not 'fast' (learning_rate: peak learning rate)"),
        ("learning_rate=[", "command line, learning_rate, line 1: not valid YAML"),
        ("resume=on", "resume must be true or false, not 'on'"),
        ("name=null", "name must be a text, not None"),
        ("num_steps", "expected key=value, found 'num_steps'"),
        ("=3", "unknown key ''"),
    ],
)
def test_a_bad_override_is_refused(override: str, complaint: str) -> None:
    with pytest.raises(UserError) as error:
        parse_overrides([override], Settings)
    assert complaint in str(error.value)


def test_the_recipes_of_the_package_are_found() -> None:
    assert "smoke/quickstart" in recipe_names()


PLAIN = st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(0, 2) | st.booleans())


@given(PLAIN, PLAIN)
def test_differences_lead_from_the_reference_to_here(here: dict[str, Any], reference: dict[str, Any]) -> None:
    found = differences(here, reference)
    rebuilt = {key: value for key, value in reference.items() if key not in found}
    rebuilt |= {key: sides["here"] for key, sides in found.items() if "here" in sides}
    assert rebuilt == here
    assert differences(here, here) == {}
    assert all(sides.get("reference") == reference.get(key) for key, sides in found.items())

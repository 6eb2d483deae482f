"""Records of sampled groups: the numbers are those of the policy's own measurement, and rules read them back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from sif_trainer.policy import Sampling, Windows
from sif_trainer.policy.transformers_engine import TransformersPolicy
from sif_trainer.probe.record import to_groups
from sif_trainer.probe.rules import votable, vote
from sif_trainer.probe.sample import Readers, draw_groups, pick
from sif_trainer.probe.summary import summarise
from sif_trainer.runs.records import Records

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import tiny

PROMPTS = [{"id": f"p{i}", "prompt": f"say {i}"} for i in range(6)]


def policy() -> TransformersPolicy:
    return TransformersPolicy(tiny.model(), tiny.tokenizer(), batch_size=8)


def grade(prompts: list, completions: list[str], id: list[str]) -> list[float | None]:
    """Right where the text holds an even number of letters; the last prompt has no reference."""
    return [None if name == "p5" else float(len(text) % 2 == 0) for name, text in zip(id, completions, strict=True)]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Records, object]:
    folder = tmp_path_factory.mktemp("drawn")
    config = tiny.config(folder, seed=5)
    records = Records(folder / "groups.jsonl")
    draw_groups(policy(), PROMPTS, config, Readers(tiny.FirstLetter(), grade), records)
    return records, config


def test_a_group_is_what_the_policy_itself_measures(drawn: tuple[Records, object]) -> None:
    records, _ = drawn
    sampling = Sampling(max_tokens=12, seed=5, certainty=True, windows=Windows(3, 2, 1))
    samples = policy().generate([row["prompt"] for row in PROMPTS], 4, sampling)
    by_id = {record["id"]: record["responses"] for record in records}
    assert by_id.keys() == {row["id"] for row in PROMPTS}
    for row, group in zip(PROMPTS, samples, strict=True):
        for found, wanted in zip(by_id[row["id"]], group, strict=True):
            assert found["completion"] == wanted.text and found["length"] == wanted.num_tokens
            assert found["truncated"] == (wanted.finish_reason == "length")
            assert found["certainty_mean"] == pytest.approx(wanted.mean_certainty, rel=1e-4)
            assert found["log_prob_mean"] == pytest.approx(wanted.mean_log_probability, rel=1e-4)
            if wanted.profile is not None:
                assert found["profile"] == pytest.approx(wanted.profile, rel=1e-4)


def test_a_response_without_a_token_is_not_usable(drawn: tuple[Records, object]) -> None:
    record = next(iter(drawn[0]))
    empty = {**record, "responses": [{**record["responses"][0], "length": 0}, *record["responses"][1:]]}
    assert to_groups([record, empty], mask_truncated=False, seed=5).usable[:, 0].tolist() == [True, False]


def test_rules_read_the_records_back(drawn: tuple[Records, object]) -> None:
    records, config = drawn
    groups = to_groups(list(records), mask_truncated=True, seed=5)
    assert groups.usable.equal(torch.tensor([[not r["truncated"] for r in rec["responses"]] for rec in records]))
    settings, left_out = votable(config, groups)
    assert next(iter(settings)) == "sif"
    assert {"intuitor", "majority", "scope", "rent", "verifier"} <= settings.keys()
    assert {"vigor", "co_rewarding", "co_rewarding_ema", "band", "random_filter"} <= left_out.keys()
    assert "feedback=random_filter filter_rate=…" in left_out["random_filter"]
    for setting in settings.values():
        assert vote(groups, setting).keep.shape == (6, 4)


def test_a_rule_that_needs_more_is_shown_where_the_recipe_asks_for_it(tmp_path: Path) -> None:
    config = tiny.config(tmp_path, feedback="vigor")
    records = Records(tmp_path / "groups.jsonl")
    draw_groups(policy(), PROMPTS[:2], config, Readers(), records)
    found = summarise(config, list(records))
    assert found["rules"]["vigor"]["keep_rate"] == 1 and "majority" in found["left_out"]
    assert found["verdict"]["word"] == "cannot tell" and found["agreement"] is None


def test_a_probe_in_which_nothing_is_usable_still_ends(tmp_path: Path) -> None:
    config = tiny.config(tmp_path, mask_truncated_completions=True, max_completion_length=5, window_size=3)
    records = Records(tmp_path / "groups.jsonl")
    draw_groups(policy(), PROMPTS[:2], config, Readers(tiny.FirstLetter(), grade), records)
    for record in (kept := list(records)):
        for response in record["responses"]:
            response["truncated"] = True
    found = summarise(config, kept)
    assert found["verdict"]["word"] == "nothing to learn from" and "suggested" not in found["windows"]


def test_prompts_are_picked_at_random_once_and_for_all() -> None:
    rows = [{"id": str(i)} for i in range(100)]
    picked = [row["id"] for row in pick(rows, 10, seed=1)]
    assert picked == [row["id"] for row in pick(rows, 10, seed=1)] != [str(i) for i in range(10)]
    assert len(set(picked)) == 10 and len(pick(rows, 1000, seed=1)) == 100

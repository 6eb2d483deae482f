"""The exported files agree with themselves and with our results, in the other harness's terms."""

from __future__ import annotations

import hashlib
import json

import pytest

from sif_trainer.evaluation.lm_eval import export
from sif_trainer.evaluation.processes import Processes
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.run import evaluate
from sif_trainer.runs.folder import RunFolder

SUMMARY_KEYS = {
    "results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples", "config",
    "git_hash", "date", "transformers_version", "task_hashes", "model_source", "model_name", "model_name_sanitized",
    "system_instruction",
}  # fmt: skip
LINE_KEYS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "exact_match", "doc_hash",
    "prompt_hash", "target_hash",
}  # fmt: skip


@pytest.fixture
def exported(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for file, gold in (("gsm8k_test.jsonl", "3"), ("amc23.jsonl", "5")):
        lines = [{"id": str(i), "problem": f"problem {i}?", "answer": gold} for i in range(3)]
        (data / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": {"problem 1": ["3", r"\boxed{5}"], "": ["3", "no"]}}))
    recipe = EvalRecipe(model=f"scripted:{script}", suite=["gsm8k", "amc23"], data_dir=str(data), num_samples=2)
    folder = tmp_path / "run"
    results = evaluate(recipe, RunFolder.open(folder, "eval", recipe.settings), Processes())
    target = export(folder)
    (summary,) = target.glob("results_*.json")
    date = summary.stem.removeprefix("results_")
    samples = {
        name: [json.loads(line) for line in (target / f"samples_{name}_{date}.jsonl").read_text().splitlines()]
        for name in results.benchmarks
    }
    return results, json.loads(summary.read_text()), samples, target


def test_the_summary_holds_our_numbers_under_their_names(exported):
    results, summary, _, target = exported
    assert set(summary) == SUMMARY_KEYS
    assert target.name == summary["model_name_sanitized"] and "/" not in target.name
    for task, result in results.benchmarks.items():
        theirs = summary["results"][task]
        assert theirs["alias"] == task
        assert theirs["exact_match,none"] == result.scores.avg.value
        assert theirs["exact_match,boxed"] == result.scores.avg_boxed.value
        assert theirs["pass@2,none"] == result.scores.pass_at["2"].value
        assert theirs["maj@2,none"] == result.scores.maj.value
        assert theirs["exact_match_stderr,none"] * 3.92 == pytest.approx(
            result.scores.avg.high - result.scores.avg.low
        )
        metrics = {name.partition(",")[0] for name in theirs if "," in name and "_stderr" not in name}
        assert set(summary["higher_is_better"][task]) == metrics
        assert all(
            f"{name.replace(',', '_stderr,')}" in theirs for name in theirs if "," in name and "_stderr" not in name
        )
        for part in ("configs", "versions", "n-shot", "n-samples", "group_subtasks"):
            assert task in summary[part]
        assert summary["n-samples"][task] == {"original": 3, "effective": 3}
    (group,) = summary["groups"]
    assert summary["group_subtasks"][group] == list(results.benchmarks)
    assert summary["results"][group]["exact_match,none"] == results.average.avg.value


def test_the_samples_add_up_to_the_summary(exported):
    _, summary, samples, _ = exported
    for task, lines in samples.items():
        assert [line["doc_id"] for line in lines] == [0, 1, 2]
        assert all(set(line) == LINE_KEYS for line in lines)
        mean = sum(line["exact_match"] for line in lines) / len(lines)
        assert mean == pytest.approx(summary["results"][task]["exact_match,none"])
        assert all(len(line["resps"][0]) == len(line["filtered_resps"]) == 2 for line in lines)
        hashes = "".join(line["doc_hash"] + line["prompt_hash"] + line["target_hash"] for line in lines)
        assert summary["task_hashes"][task] == hashlib.sha256(hashes.encode()).hexdigest()
    line = samples["amc23"][1]
    assert line["resps"] == [["3", r"\boxed{5}"]]
    assert line["arguments"]["gen_args_0"]["arg_0"].startswith("problem 1?")
    assert (line["target"], line["exact_match"]) == ("5", 0.5)

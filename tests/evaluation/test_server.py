"""The same evaluation through an OpenAI-compatible server: a real one, and one that fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sif_trainer.evaluation.processes import Processes
from sif_trainer.evaluation.recipe import EvalRecipe
from sif_trainer.evaluation.run import evaluate
from sif_trainer.evaluation.store import read_samples
from sif_trainer.runs.errors import UserError
from sif_trainer.runs.folder import RunFolder


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def real_server(checkpoint, environment):
    """The address of `transformers serve` with the tiny policy; it answers greedily whatever the temperature."""
    pytest.importorskip("uvicorn", reason="needs the packages that `transformers serve` needs: fastapi and uvicorn")
    port = free_port()
    command = [Path(sys.executable).with_name("transformers"), "serve", "--device", "cpu", "--port", str(port)]
    process = subprocess.Popen(
        [*command, str(checkpoint)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, "the server ended before it answered"
            try:
                urllib.request.urlopen(f"{address}/health", timeout=1).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        yield address
    finally:
        process.kill()
        process.wait()


def read(folder):
    return sorted(read_samples(folder), key=lambda record: (record["id"], record["sample"]))


def test_a_real_server_killed_twice_and_resumed(run, kill_at, real_server, data_dir, tmp_path):
    settings = ["num_samples=3", "max_completion_length=12", "batch_size=2", "--data-dir", str(data_dir)]
    flags = ["-m", "sif_trainer.cli.main", "eval", "--model", real_server, "--suite", "math500", *settings, "--run"]
    for num_lines in (6, 18):
        kill_at(num_lines, [*flags, str(tmp_path / "killed")], tmp_path / "killed" / "samples.jsonl")
    for folder in ("killed", "straight"):
        run([*flags, str(tmp_path / folder)])
    records = read(tmp_path / "killed")
    assert records == read(tmp_path / "straight")
    assert len(records) == len((tmp_path / "killed" / "samples.jsonl").read_text().splitlines()) == 36
    assert any(record["text"].strip() for record in records)


class Faulty:
    """A server that answers 3 to every chat, as long as `healthy` requests last; then it fails."""

    def __init__(self):
        self.healthy = 10**9
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(200, {"data": [{"id": "three"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.healthy -= 1
                if "long" in body["messages"][-1]["content"]:
                    self.answer(400, {"error": {"message": "this model's maximum context length is 8 tokens"}})
                elif outer.healthy < 0:
                    self.answer(503, {"error": {"message": "overloaded"}})
                else:
                    choice = {"message": {"content": f"\\boxed{{{body['seed'] % 10}}}"}, "finish_reason": "stop"}
                    self.answer(200, {"choices": [choice], "usage": {"completion_tokens": 3, "prompt_tokens": 5}})

            def answer(self, status, content):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def faulty():
    server = Faulty()
    yield server
    server.http.shutdown()
    server.http.server_close()


def evaluate_at(url, folder, data_dir, **options):
    recipe = EvalRecipe(
        model=url,
        suite=["gsm8k", "math500"],
        data_dir=str(data_dir),
        num_samples=4,
        batch_size=1,
        engine_options={"max_retries": 1, "pause": 0.01, **options},
    )
    return evaluate(recipe, RunFolder.open(folder, "eval", recipe.settings, seed=recipe.seed), Processes())


def test_a_server_that_goes_down_keeps_what_was_done(faulty, data_dir, tmp_path):
    straight = evaluate_at(faulty.url, tmp_path / "straight", data_dir)
    faulty.healthy = 30
    with pytest.raises(UserError, match=r"after 2 attempts.*overloaded.*call again"):
        evaluate_at(faulty.url, tmp_path / "broken", data_dir)
    num_before = len(read(tmp_path / "broken"))
    assert 20 <= num_before <= 30
    assert not (tmp_path / "broken" / "results.json").exists()
    faulty.healthy = 4 * 24 - num_before  # just enough for what is missing
    again = evaluate_at(faulty.url, tmp_path / "broken", data_dir)
    assert again.benchmarks == straight.benchmarks
    assert read(tmp_path / "broken") == read(tmp_path / "straight")


def test_what_a_server_finds_too_long_is_left_out(faulty, data_dir, tmp_path):
    found = evaluate_at(faulty.url, tmp_path / "run", data_dir)
    assert (found.benchmarks["gsm8k"].num_left_out, found.benchmarks["gsm8k"].num_problems) == (1, 11)
    assert found.benchmarks["math500"].num_left_out == 0
    (left_out,) = map(json.loads, (tmp_path / "run" / "left_out.jsonl").read_text().splitlines())
    assert left_out["id"] == "gsm8k-7" and "context length" in left_out["why"]


def test_no_server_at_all(data_dir, tmp_path):
    with pytest.raises(UserError, match=r"no usable answer from http://127\.0\.0\.1"):
        evaluate_at(f"http://127.0.0.1:{free_port()}/v1", tmp_path / "run", data_dir)

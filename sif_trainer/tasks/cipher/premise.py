"""The premise of label-free feedback: are the winners of the vote more often right than those they are compared with?

    python -m sif_trainer.tasks.cipher.premise --policy FOLDER

Measured before any training. Where winners are no better than the rest of their groups, no training can help. The vote
is written out here in plain Python, a second time beside `feedback.sif`: tasks know nothing of feedback.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from sif_trainer.tasks.cipher.world import COMPLETION_TOKENS, MARKS, is_correct, problems, style_of

# Stricter windows than the paper's 8 of 10 and milder peers than its 3/4: careful responses beat basic ones in every
# window, but one another hardly ever, so that a group of careful ones is dropped and not decided by a hair.
NUM_WINDOWS, WINDOW_WINS, PEER_WIN_RATE = 10, 10, 0.5
WINDOW_SIZE, MIN_STRIDE = 5, 4
MIN_LENGTH = WINDOW_SIZE + MIN_STRIDE * (NUM_WINDOWS - 1)  # of exactly a whole answer: a shortened one takes no part
SAMPLED_TOKENS = COMPLETION_TOKENS + 5
SEED = 500


@dataclass(frozen=True)
class Response:
    """One sampled response.

    Attributes:
        style: by the mark that it opens with.
        correct: whether its answer is right.
        length: tokens, with the end-of-sequence token.
        mean_certainty: over its tokens.
        profile: mean certainty of each ranked window, or None where it is not eligible.
    """

    style: str
    correct: bool
    length: int
    mean_certainty: float
    profile: tuple[float, ...] | None


@dataclass(frozen=True)
class Premise:
    """The responses, group by group, and what the vote makes of them."""

    groups: list[list[Response]]

    def lines(self) -> list[str]:
        """The measurement as text: accuracies, then one line per style."""
        everyone = [response for group in self.groups for response in group]
        kept = [response for group in self.groups for response, _ in voted(group)]
        winners = [response for group in self.groups for response, won in voted(group) if won]
        surest = [max(group, key=lambda response: response.mean_certainty) for group in self.groups]
        lines = [
            f"{name:34} {len(part):4}  accuracy {_share(part):.3f}  {_styles(part)}"
            for name, part in (
                ("all responses", everyone),
                ("eligible", [response for response in everyone if response.profile]),
                ("kept for the update", kept),
                ("winners of the vote", winners),
                ("highest mean certainty of its group", surest),
            )
        ]
        for style in MARKS:
            part = [response for response in everyone if response.style == style and response.profile]
            if part:
                mean = sum(response.mean_certainty for response in part) / len(part)
                profile = [
                    sum(values) / len(part) for values in zip(*(response.profile for response in part), strict=True)
                ]
                windows = " ".join(f"{value:.1f}" for value in profile)
                lines.append(f"{style:8} accuracy {_share(part):.3f}  mean certainty {mean:.2f}  windows {windows}")
        return lines


def voted(group: list[Response]) -> list[tuple[Response, bool]]:
    """The eligible responses of a group with whether each won, or nothing where all fared alike."""
    eligible = [response for response in group if response.profile]
    needed = math.ceil(PEER_WIN_RATE * (len(eligible) - 1) - 1e-9)
    verdicts = []
    for response in eligible:
        beaten = [_windows_won(response, peer) >= WINDOW_WINS for peer in eligible if peer is not response]
        verdicts.append((response, len(beaten) > 0 and sum(beaten) >= needed))
    return verdicts if len({won for _, won in verdicts}) == 2 else []


@torch.no_grad()
def measure_premise(
    policy: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, num_problems: int = 96, group_size: int = 8
) -> Premise:
    """Sample a group of responses to each problem, and rank and score them."""
    torch.manual_seed(SEED)
    chosen = [problem for problem in islice(problems(SEED), num_problems) for _ in range(group_size)]
    prompts = tokenizer([problem.prompt for problem in chosen], return_tensors="pt")
    sequences = policy.generate(
        **prompts, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=SAMPLED_TOKENS
    )
    tokens = sequences[:, prompts.input_ids.size(1) :]
    logits = policy(input_ids=sequences).logits[:, prompts.input_ids.size(1) - 1 : -1].float()
    certainties = logits.logsumexp(-1) - logits.mean(-1) - math.log(logits.size(-1))
    texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    responses = []
    for row, problem in enumerate(chosen):
        ends = (tokens[row] == tokenizer.eos_token_id).nonzero().flatten().tolist()
        length = ends[0] + 1 if ends else tokens.size(1)
        ranked = sorted(certainties[row, :length].tolist(), reverse=True)
        responses.append(
            Response(
                style=style_of(texts[row]),
                correct=is_correct(texts[row], problem.answer),
                length=length,
                mean_certainty=sum(ranked) / length,
                profile=_profile(ranked) if length >= MIN_LENGTH else None,
            )
        )
    return Premise([responses[first : first + group_size] for first in range(0, len(responses), group_size)])


def _profile(ranked: list[float]) -> tuple[float, ...]:
    """Mean of each window of certainties that are sorted from the highest."""
    starts = [window * (len(ranked) - WINDOW_SIZE) // (NUM_WINDOWS - 1) for window in range(NUM_WINDOWS)]
    return tuple(sum(ranked[start : start + WINDOW_SIZE]) / WINDOW_SIZE for start in starts)


def _windows_won(response: Response, peer: Response) -> int:
    return sum(mine > theirs for mine, theirs in zip(response.profile or (), peer.profile or (), strict=True))


def _share(part: list[Response]) -> float:
    return sum(response.correct for response in part) / len(part) if part else math.nan


def _styles(part: list[Response]) -> str:
    return ", ".join(f"{style} {sum(response.style == style for response in part)}" for style in (*MARKS, "other"))


def main() -> None:
    """Load a policy, measure and print."""
    parser = argparse.ArgumentParser(description="Measure the premise of a policy of the cipher world.")
    parser.add_argument("--policy", type=Path, required=True, help="folder of the policy and its tokenizer")
    folder = parser.parse_args().policy
    policy = AutoModelForCausalLM.from_pretrained(folder).eval()
    for line in measure_premise(policy, AutoTokenizer.from_pretrained(folder)).lines():
        print(line)


if __name__ == "__main__":
    main()

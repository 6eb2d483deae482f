"""The agent's wording, all of it our own. Every function takes what the agent may read, and nothing else can enter.

    prior(case, dimension, "a jealous rival", log=())       # chat messages

Texts of cases are `parts.Case`, `User`, `Question` and `Exchange`; a `Private` text in any of them raises TypeError.
Structured replies (`elicitation.py`) and single lines or labels (`labels.py`) differ in the last lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from sif_trainer.systems.balar.parts import Case, Dimension, Log, Question, Triple, User

Messages: TypeAlias = list[Mapping[str, str]]

SYSTEM = (
    "You find out what is needed to solve a case, by asking people. Use only what you are shown and common sense. "
    "Where a reason is asked for, one short sentence comes before the judgement that it supports."
)
LABELS = (
    "The labels: likely (it fits well), neutral (it neither fits nor is ruled out), unlikely (it hardly fits). "
    "Judge each on its own; several may have the same label."
)
DIMENSIONS = (
    "Before anybody is asked: which {num} unknown facts matter most for this task? Choose facts that do not overlap, "
    "that the context leaves open, and from which the answer would follow; none of them may be the answer itself. "
    "Give each a reason, a short name, and 2 to {max_values} short values that exclude one another and cover what "
    "is possible."
)
NEW_DIMENSION = (
    "The facts that were considered so far do not suffice: {names}. Name one more unknown fact that matters for this "
    "task, differs from all of these, and is still open after what was said. Give a reason, a short name, and 2 to "
    "{max_values} short values that exclude one another and cover what is possible."
)
PRIOR = "Unknown fact: {name}. Possible values: {values}.\nHow plausible is the value '{value}'?"
QUESTIONS = (
    "Write {num} different questions whose answers would tell most about these facts. Each should bear on several of "
    "them, be easily understood without special words, and suit anyone listed. {choices}"
)
FREE_CHOICES = (
    "Give each a reason, the text, and 2 to {max_choices} short answers to choose from, which differ clearly."
)
YES_NO = (
    "Each is answered by yes or no, has 20 words at most, and a reason of 15 words at most. Give the reason, the "
    "text, and the choices yes and no."
)
KNOWN_QUESTIONS = "These are known already; do not repeat them: {questions}"
TABLE = (
    "Suppose {user} is asked: {question}\n"
    "They may answer:\n{choices}\n"
    "What is not known is {name}. It may be:\n{values}\n"
    "Put yourself in their place, knowing of them only what is shown above. For every value, assume that it is true, "
    "and judge for every answer how likely they would give it. Consider that people may be mistaken or hide things. "
    "Fill in each pair of a value and a choice exactly once, by their numbers."
)
CELL = (
    "Suppose {user} is asked: {question}\n"
    "What is not known is {name}; assume it is '{value}'. Put yourself in their place, knowing of them only what is "
    "shown above. How likely would they answer '{choice}'?"
)
ANSWER_TABLE = (
    "What is not known is {name}. It may be:\n{values}\n"
    "For every value, assume that it is true, and judge for every option how likely it is the right answer to the "
    "task. Options are the choices here. Fill in each pair of a value and a choice exactly once, by their numbers."
)
ANSWER_CELL = (
    "What is not known is {name}; assume it is '{value}'. How likely is '{choice}' the right answer to the task?"
)
SOFT_MAP = (
    "A question was asked: {question}\nThe answer was: {answer}\nHow well does each choice describe that answer? "
    "Fill in every choice exactly once, by its number.\n{choices}"
)
SOFT_CELL = (
    "A question was asked: {question}\nThe answer was: {answer}\nHow well does '{choice}' describe that answer?"
)
FINAL = "The asking is over. What seems most plausible: {state}.\n"
FINAL_OPTION = FINAL + "Which option is the right answer to the task?"
FINAL_TEXT = FINAL + "What is the answer to the task? Be complete, in plain words."
VERIFY = (
    "Check the answer to the following request. Each label must agree with its own reason, no reason may contradict "
    "what the request states, and none may rest on something invented. Say what is wrong, if anything, then whether "
    "the answer is valid.\n\nREQUEST\n{request}\n\nANSWER\n{answer}"
)
# Last lines of prompts for structured replies, then for single lines and labels.
REASON_AND_LABEL = "Give a reason, then the label."
REASON_AND_NUMBER = "Give a reason, then the number of the option."
REASON_AND_ANSWER = "Give a reason, then the answer."
NAME_LINE = "Name one unknown fact that matters for this task and that the context leaves open, in a few words."
OTHER_LINE = "It must differ from: {names}."
VALUE_LINE = "Unknown fact: {name}. Give one value that it may have, in a few words."
QUESTION_LINE = (
    "Write one short question, to be answered by yes or no, that would help to find out this: {name}. Write only the "
    "question."
)
REASON_LINE = "Before you choose a label, give one reason in a short sentence."
NUMBER_LINE = "Answer with the number of the option only."
LABEL_LINE = "Which label fits? Answer with one word: likely, neutral or unlikely."
REDO = "A check found this: {feedback}\nAnswer the request again, in full, with that put right."


def _chat(*lines: str) -> Messages:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(filter(None, lines))}]


def _numbered(texts: Iterable[str]) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


def _case(case: Case) -> str:
    lines = [f"Task: {case.task}", f"Context: {case.context}" if case.context.strip() else ""]
    if case.options is not None:
        lines.append(f"Options:\n{_numbered(case.options)}")
    return "\n".join(filter(None, lines))


def _people(users: Sequence[User]) -> str:
    return "\n".join(["Who can be asked:", *(f"{user.name}: {user.public}" for user in users)])


def _conversation(log: Log) -> str:
    lines = [f"{turn.user.name} was asked: {turn.question.text} The answer: {turn.answer}" for turn in log]
    return "\n".join(["What was said so far:", *lines]) if lines else ""


def _facts(dimensions: Sequence[Dimension]) -> str:
    return "\n".join(["Unknown facts:", *(f"{name}: {' / '.join(values)}" for name, values, _ in dimensions)])


def dimensions(case: Case, num: int, max_values: int) -> Messages:
    return _chat(_case(case), _people(case.users), DIMENSIONS.format(num=num, max_values=max_values))


def new_dimension(case: Case, known: Sequence[Dimension], log: Log, max_values: int) -> Messages:
    names = "; ".join(dimension.name for dimension in known)
    asked = NEW_DIMENSION.format(names=names, max_values=max_values)
    return _chat(_case(case), _people(case.users), _conversation(log), asked)


def name_line(case: Case, known: Sequence[Dimension], log: Log) -> Messages:
    other = OTHER_LINE.format(names="; ".join(dimension.name for dimension in known)) if known else ""
    return _chat(_case(case), _conversation(log), NAME_LINE, other)


def value_line(case: Case, name: str) -> Messages:
    return _chat(_case(case), VALUE_LINE.format(name=name))


def question_line(case: Case, dimension: Dimension, log: Log) -> Messages:
    return _chat(_case(case), _people(case.users), _conversation(log), QUESTION_LINE.format(name=dimension.name))


def prior(case: Case, dimension: Dimension, value: str, log: Log) -> Messages:
    values = ", ".join(dimension.values)
    asked = PRIOR.format(name=dimension.name, values=values, value=value)
    return _chat(_case(case), _people(case.users), _conversation(log), asked, LABELS)


def questions(
    case: Case, dimensions: Sequence[Dimension], known: Sequence[Question], log: Log, num: int, max_choices: int
) -> Messages:
    choices = YES_NO if max_choices == 2 else FREE_CHOICES.format(max_choices=max_choices)
    repeated = KNOWN_QUESTIONS.format(questions=" | ".join(question.text for question in known)) if known else ""
    asked = QUESTIONS.format(num=num, choices=choices)
    return _chat(_case(case), _people(case.users), _conversation(log), _facts(dimensions), asked, repeated)


def table(case: Case, triple: Triple, log: Log) -> Messages:
    question, user, dimension = triple
    asked = TABLE.format(
        user=user.name,
        question=question.text,
        choices=_numbered(question.choices),
        name=dimension.name,
        values=_numbered(dimension.values),
    )
    return _chat(_case(case), _people([user]), _conversation(log), asked, LABELS)


def cell(case: Case, triple: Triple, value: str, choice: str, log: Log) -> Messages:
    question, user, dimension = triple
    asked = CELL.format(user=user.name, question=question.text, name=dimension.name, value=value, choice=choice)
    return _chat(_case(case), _people([user]), _conversation(log), asked, LABELS)


def answer_table(case: Case, dimension: Dimension) -> Messages:
    asked = ANSWER_TABLE.format(name=dimension.name, values=_numbered(dimension.values))
    return _chat(_case(case), asked, LABELS)


def answer_cell(case: Case, dimension: Dimension, value: str, choice: str) -> Messages:
    return _chat(_case(case), ANSWER_CELL.format(name=dimension.name, value=value, choice=choice), LABELS)


def soft_map(question: Question, answer: str) -> Messages:
    asked = SOFT_MAP.format(question=question.text, answer=answer, choices=_numbered(question.choices))
    return _chat(asked, LABELS)


def soft_cell(question: Question, answer: str, choice: str) -> Messages:
    return _chat(SOFT_CELL.format(question=question.text, answer=answer, choice=choice), LABELS)


def final(case: Case, state: Sequence[tuple[Dimension, str]], log: Log) -> Messages:
    shown = "; ".join(f"{dimension.name}: {value}" for dimension, value in state)
    asked = (FINAL_TEXT if case.options is None else FINAL_OPTION).format(state=shown)
    return _chat(_case(case), _people(case.users), _conversation(log), asked)


def verify(request: Messages, answer: str) -> Messages:
    texts = "\n\n".join(message["content"] for message in request)
    return _chat(VERIFY.format(request=texts, answer=answer))


def redo(request: Messages, answer: str, feedback: str) -> Messages:
    """Return the request followed by the answer that failed the check and what was found."""
    return [
        *request,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": REDO.format(feedback=feedback)},
    ]


def with_line(messages: Messages, line: str) -> Messages:
    """Return the messages with another paragraph at their end."""
    last = messages[-1]
    return [*messages[:-1], {**last, "content": f"{last['content']}\n\n{line}"}]

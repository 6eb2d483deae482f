"""Loaders, simulated users, the guessing host, and what must never reach the agent."""

from __future__ import annotations

import json
import re

import pytest

from sif_trainer.policy.scripted import ScriptedPolicy
from sif_trainer.runs.errors import UserError
from sif_trainer.systems.balar.environments.guessing import GuessingHost, compare
from sif_trainer.systems.balar.environments.instance import Instance
from sif_trainer.systems.balar.environments.instances import DATA_SETS, load_instances
from sif_trainer.systems.balar.environments.simulated_user import SimulatedUser
from sif_trainer.systems.balar.grading import grade, lenient, strict
from sif_trainer.systems.balar.parts import Case, Private, Question, Skip, User
from sif_trainer.systems.balar.speaker import Speaker

SUSPECTS = [
    {"name": name, "introduction": f"{name} is a {trade}.", "task": f"Task of {name}.", "story": f"Story of {name}."}
    for name, trade in (("Ada", "baker"), ("Ben", "clerk"), ("Cid", "guard"))
]
DETECTIVE = {
    "time": "noon",
    "location": "a mill",
    "victim": {"name": "Vic", "introduction": "A miller.", "cause_of_death": "a fall", "murder_weapon": "none"},
    "suspects": SUSPECTS,  # the order of generation: the murderer first
    "initial_information": {"suspect": [{"name": "Cid"}, {"name": "Ada"}, {"name": "Ben"}]},
    "label": 1,
}
SITUATION = {"surface": "A man smiles in the rain.", "bottom": "His fields were dry.", "index": 3}
ICRAFT = {
    "id": 8,
    "question": "Which diagnosis is it?",
    "options": {"A": "Measles", "B": "Gout "},
    "answer": "Gout",
    "context": ["A man has a sore toe."],
    "facts": ["1. The toe is red."],
    "patient": {"age": "60 years", "gender": "male"},
}
ROWS = {"detective": DETECTIVE, "situation": SITUATION, "icraft": ICRAFT, "guessing": "4071"}


def load(name, rows, tmp_path, lines=False):
    path = tmp_path / "data.json"
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows), encoding="utf-8")
    return load_instances(name, path)


def shown(case: Case) -> str:
    """All that an agent may read of a case."""
    return repr(case)


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_every_loader_keeps_the_secrets_out_of_the_case(name, lines, tmp_path):
    (instance,) = load(name, [ROWS[name]], tmp_path, lines)
    secrets = {"detective": "Story of", "situation": "dry", "icraft": "red", "guessing": "4071"}
    assert secrets[name] not in shown(instance.case)
    assert all(secrets[name] in instance.secrets[user.name].reveal() for user in instance.case.users)


def test_suspects_follow_the_shuffled_order(tmp_path):
    (instance,) = load("detective", [DETECTIVE], tmp_path)
    assert instance.case.options == ("Cid", "Ada", "Ben") == tuple(user.name for user in instance.case.users)
    assert instance.answer.reveal() == "Ada"
    moved = {**DETECTIVE, "suspects": SUSPECTS[::-1]}
    assert load("detective", [moved], tmp_path)[0].case == instance.case


def test_the_selected_rows_of_the_benchmarks_load(shared):
    folder = shared / "fixtures" / "balar" / "dev"
    files = {"detective": "arbench_dc.json", "situation": "arbench_sp.json", "icraft": "icraft_md.json"}
    for name, file in files.items():
        instances = load_instances(name, folder / file)
        assert len(instances) == 10 and len({instance.case.id for instance in instances}) == 10
    rows = json.loads((folder / "arbench_dc.json").read_text(encoding="utf-8"))
    instances = load_instances("detective", folder / "arbench_dc.json")
    leaking = [tuple(row["generation_order"]) for row in rows]
    options = [instance.case.options for instance in instances]
    assert options != leaking and [options[place][row["label"]] for place, row in enumerate(rows)] == [
        instance.answer.reveal() for instance in instances
    ]
    assert any(instance.case.options[0] != instance.answer.reveal() for instance in instances)
    without = [{key: value for key, value in row.items() if key != "generation_order"} for row in rows]
    assert [DATA_SETS["detective"].read(row, 0).case for row in without] == [one.case for one in instances]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("other", ROWS)
def test_a_file_of_another_benchmark_is_named(name, other, tmp_path):
    if name != other:
        with pytest.raises(UserError, match=f"row 1: not a row of .*data_set={other}"):
            load(name, [ROWS[other]], tmp_path)


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("icraft", {**ICRAFT, "options": {"A": "Gout"}}, "row 1: .*answer set of 1"),
        ("icraft", {**ICRAFT, "options": {"A": "Gout", "B": " gout"}}, "row 1: .*option twice.*'gout'"),
        ("icraft", {**ICRAFT, "context": []}, "row 1: not a complete row"),
        (
            "detective",
            {**DETECTIVE, "suspects": [{**SUSPECTS[0], "introduction": " "}, *SUSPECTS[1:]]},
            "the user 'Ada' has no public text",
        ),
        ("detective", {**DETECTIVE, "label": 7}, "not a complete row"),
        ("situation", {"surface": None, "bottom": "x"}, "row 1: not a row"),
        ("guessing", "4471", "not a row of AR-Bench number guessing; give that benchmark's file"),
    ],
)
def test_a_bad_row_is_refused_with_its_place(name, row, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load(name, [row], tmp_path)


def test_files_that_hold_no_cases(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        load_instances("icraft", tmp_path / "missing.json")
    with pytest.raises(UserError, match="holds no case"):
        load("icraft", [], tmp_path)
    (tmp_path / "data.json").write_text("{'no': json", encoding="utf-8")
    with pytest.raises(UserError, match="neither a JSON list nor JSON lines"):
        load_instances("icraft", tmp_path / "data.json")
    with pytest.raises(UserError, match="no data set 'icraft_md'; did you mean 'icraft'"):
        load_instances("icraft_md", tmp_path / "data.json")


def test_what_nobody_knows_is_refused():
    case = Case("c", "What?", "", (User("you", "A person."),))
    with pytest.raises(UserError, match="does not say what 'you' knows"):
        Instance(case, {}, "", Private("x"))


def test_a_private_text_enters_no_agent_text():
    secret = Private("the butler")
    for make in (
        lambda: f"{secret}",
        lambda: "%s" % secret,  # noqa: UP031 - one more way to format
        lambda: "".join([secret]),
        lambda: "a" + secret,
        lambda: User("x", secret),
        lambda: Case("c", secret, "", (User("x", "y"),)),
    ):
        with pytest.raises(TypeError):
            make()
    assert "butler" not in repr(secret)


def test_the_simulated_user_alone_reads_the_secret(tmp_path):
    (instance,) = load("icraft", [ICRAFT], tmp_path)
    seen = []

    def answer(prompt: str, number: int) -> str:
        seen.append(prompt)
        return "My toe is red.\n\nAnd more."

    policy = ScriptedPolicy(answer, lambda prompt, label: {"A": -3.0, "B": -1.0}[label])
    environment = SimulatedUser(Speaker(policy), [instance])
    question, (user,) = Question("What is it like?", ("white", "red")), instance.case.users
    assert environment.ask(instance.case, user, question, free=True) == "My toe is red."
    assert environment.ask(instance.case, user, question, free=False) == "red"
    assert "The toe is red" in seen[0] and "Gout" not in seen[0]


def test_empty_answers_are_counted_and_drawn_again():
    policy = ScriptedPolicy({"": ["", " \n", "yes"]})
    assert Speaker(policy).write([[{"role": "user", "content": "?"}]]) == ["yes"]
    assert policy.counters.num_invalid_replies == 2
    with pytest.raises(UserError, match="3 empty answers"):
        Speaker(ScriptedPolicy({"": ""})).write([[{"role": "user", "content": "?"}]])


def test_picking_by_json_and_by_score():
    prompt = [{"role": "user", "content": "Which?"}]
    policy = ScriptedPolicy({"": ["A maybe", '{"choice": "B"}']}, {"Which": {"A": -1.0, "B": -1.0, "C": -9.0}})
    assert Speaker(policy, "json").pick([prompt, prompt], [["x", "y"], ["x", "y", "z"]]) == [[0, 1], [0, 1, 0]]
    assert policy.counters.num_invalid_replies == 2
    (row,) = Speaker(policy).pick([prompt], [["x", "y", "z"]])
    assert row[0] == row[1] and sum(row) == pytest.approx(1)
    with pytest.raises(UserError, match="30 options are too many"):
        Speaker(policy).pick([prompt], [["x"] * 30])
    with pytest.raises(UserError, match="picked no option in 2 attempts"):
        Speaker(ScriptedPolicy({"": "{"}), "json", max_attempts=2).pick([prompt], [["x", "y"]])


def test_the_guessing_host_against_a_plain_count():
    secrets = ["4071", "0123", "9876"]
    for secret in secrets:
        for guess in ("4071", "1704", "9876", "5678"):
            right, elsewhere = compare(secret, guess)
            assert right == sum(secret[i] == guess[i] for i in range(4))
            assert elsewhere == sum(guess[i] in secret and guess[i] != secret[i] for i in range(4))


def test_the_guessing_host_answers_and_passes(tmp_path):
    (instance,) = load("guessing", ["4071"], tmp_path)
    host, (user,) = GuessingHost([instance]), instance.case.users
    free = host.ask(instance.case, user, Question("How does 4107 compare?", ("a", "b")), free=True)
    assert re.findall(r"\d", free) == ["1", "3"]
    choices = ("1 right, 2 elsewhere", "1 right, 3 elsewhere")
    assert host.ask(instance.case, user, Question("And 4107?", choices), free=False) == choices[1]
    assert host.ask(instance.case, user, Question("And 9999, or 12345?", choices), free=False) == Skip()
    assert host.ask(instance.case, user, Question("And 4071?", choices), free=False) == Skip()


def test_grading(tmp_path):
    (icraft,), (guessing,) = (load(name, [ROWS[name]], tmp_path) for name in ("icraft", "guessing"))
    assert grade(icraft, " gout ", None)["correct"] and not grade(icraft, "Measles", None)["correct"]
    assert grade(guessing, "The number is 4071.", None)["correct"] and not grade(guessing, "4017", None)["correct"]
    (situation,) = load("situation", [SITUATION], tmp_path)
    with pytest.raises(UserError, match="need a judge"):
        grade(situation, "It was dry.", None)

    def score(prompt: str, label: str) -> float:
        """The right answer implies the given one; the other way they are neutral."""
        first_is_right = "First: His fields were dry." in prompt
        return 0.0 if label == ("C" if first_is_right else "B") else -5.0

    verdict = grade(situation, "He was glad.", Speaker(ScriptedPolicy(scores=score)))
    assert verdict == {"correct": True, "strictly_correct": False, "relations": [1, 2]}


def test_the_truth_table_of_explanations(shared):
    golden = json.loads((shared / "fixtures" / "balar" / "golden" / "bayes_golden.json").read_text(encoding="utf-8"))
    table = golden["sp_equivalence"]
    assert len(table) == 9
    for row in table:
        there, back = (("contradiction", "neutral", "entailment").index(row[way]) for way in ("forward", "backward"))
        assert (strict(there, back), lenient(there, back)) == (row["strict"], row["nonstrict"])

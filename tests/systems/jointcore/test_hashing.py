from __future__ import annotations

from sif_trainer.systems.jointcore.hashing import canonical_digest, hash64, shuffled, unit, units


def test_primitives_equal_the_published_vectors(vectors):
    known = vectors("primitives.json")
    for case in known["stable_seed"]:
        assert hash64(*case["parts"]) == int(case["seed"])
        assert unit(*case["parts"]) == case["unit"]
    for case in known["shuffle"]:
        assert shuffled(case["n"], *case["parts"]) == case["order"]


def test_units_of_many_ids_are_the_units_of_each():
    assert units("a|b", "cost", [0, 3, 117]) == [unit("a|b", "cost", i) for i in (0, 3, 117)]
    assert units("a|b", "cost", []) == []


def test_canonical_digest_ignores_key_order_and_keeps_ascii():
    assert canonical_digest({"b": 1, "a": "é"}) == canonical_digest({"a": "é", "b": 1})
    assert canonical_digest({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"

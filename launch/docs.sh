#!/usr/bin/env bash
# Install what the docs need and build them as a site, in build/docs: bash launch/docs.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

export NO_MKDOCS_2_WARNING=1 # a notice about the theme, printed at every build

echo "installing into $VENV"
install -e '.[docs]'
"$VENV/bin/mkdocs" build --config-file launch/mkdocs.yml --strict
echo "open build/docs/index.html"

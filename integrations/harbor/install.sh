#!/bin/sh
# Install agent-tui from a wheel or a checkout: install.sh WHEEL-OR-CHECKOUT [DIRECTORY]
#
# It is never installed by its name: on the package index, that name is somebody else's program. Packages that it needs
# come from the index; of a checkout, the versions and hashes of its lock file. A virtual environment in DIRECTORY
# (default: /opt/agent-tui) holds everything. Where no Python 3.11 or newer is found, uv brings one.
set -eu

package=${1:?a wheel or a checkout of agent-tui}
directory=${2:-/opt/agent-tui}
version=3.12

# A Python in the home of the one who installs is of no use to an agent that is another user.
find_python() {
    for name in python3 python3.13 python3.12 python3.11 /usr/local/bin/python3 /usr/bin/python3; do
        path=$("$name" -c 'import ensurepip, os, sys, venv
if sys.version_info >= (3, 11): print(os.path.realpath(sys.executable))' 2>/dev/null) || continue
        case $path in
        "" | "$HOME"/*) ;;
        *)
            echo "$path"
            return
            ;;
        esac
    done
}

fetch_uv() {
    command -v uv && return
    curl -LsSf https://astral.sh/uv/install.sh | env UV_INSTALL_DIR="$directory-uv" UV_NO_MODIFY_PATH=1 sh >&2
    echo "$directory-uv/uv"
}

if [ ! -d "$package" ] && [ ! -f "$package" ]; then
    echo "install.sh: $package is neither a wheel nor a checkout" >&2
    exit 2
fi
python=$(find_python)
if [ -n "$python" ]; then
    "$python" -m venv "$directory"
else
    uv=$(fetch_uv)
    UV_PYTHON_INSTALL_DIR="$directory-python" "$uv" venv --seed --python "$version" "$directory"
fi
pip="$directory/bin/python -m pip --disable-pip-version-check --quiet install"
if [ -f "$package/requirements.lock" ]; then
    $pip --require-hashes --requirement "$package/requirements.lock"
    $pip hatchling editables
    $pip --no-deps --no-build-isolation "$package"
else
    $pip "$package"
fi
for path in "$directory" "$directory-python"; do # the agent may be another user than the one who installs
    if [ -d "$path" ]; then
        chmod -R a+rX "$path"
    fi
done
"$directory/bin/agent-tui" --version

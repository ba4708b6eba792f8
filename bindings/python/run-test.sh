#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Python package against a build of the library and runs its tests.
#
#   bindings/python/run-test.sh BUILD_DIR [all | soak]
#
# all also checks the type hints, and builds the wheel and the source distribution; soak makes a million random calls. The
# tests run in a network namespace of their own, where that is allowed.
set -u

build=$(cd "${1:?usage: run-test.sh BUILD_DIR [all | soak]}" && pwd)
source=$(cd "$(dirname "$0")" && pwd)
export LLM_PYTHON_TESTS=${2:-short} LLM_RESULTS=1
export PYTHON=${PYTHON:-/usr/bin/python3}

if [ -z "${LLM_PYTHON_NAMESPACE:-}" ]; then
    export LLM_PYTHON_NAMESPACE=1
    if [ "$(id -u)" = 0 ]; then
        enter=(unshare -n)
    else
        enter=(unshare -Urn)
    fi
    "${enter[@]}" true 2>/dev/null && exec "${enter[@]}" "$0" "$@"
    echo "no network namespace can be made here: using the host's lo" >&2
else
    ip link set lo up multicast on || exit 1
fi

for module in pytest numpy; do
    "$PYTHON" -c "import $module" 2>/dev/null && continue
    echo "skip python: someone with root has to run: apt-get install python3-$module"
    exit 0
done
[ -e "$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ] || {
    echo "skip python: someone with root has to run: apt-get install python3-dev"
    exit 0
}

work=$build/python
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export PKG_CONFIG_PATH=$build/meson-uninstalled LD_LIBRARY_PATH=$build
mkdir -p "$work"
printf "[binaries]\npython = '%s'\n" "$PYTHON" >"$work/native.ini"
if ! { { [ -e "$work/build/build.ninja" ] ||
    meson setup --werror --native-file "$work/native.ini" --prefix "$work/root" "$work/build" "$source"; } &&
    meson install -C "$work/build"; } >"$log" 2>&1; then
    echo "FAILED: python: the extension builds"
    tail -n 40 "$log"
    exit 1
fi
PYTHONPATH=$(dirname "$(dirname "$(find "$work/root" -name '_llm.*.so' | head -n 1)")")
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1 LLM_PROGRAMS=$build/examples
cd "$work" || exit 1
run() {
    "$PYTHON" -X faulthandler -m pytest -q -p no:cacheprovider --rootdir "$source" "$@"
}
# Programs wait for most of their time.
run "$source"/tests/test_documentation.py "$source"/tests/test_programs.py &
status=0
run "$source/tests" --ignore "$source/tests/test_documentation.py" --ignore "$source/tests/test_programs.py" || status=$?
wait $! || status=$?
exit $status

#!/usr/bin/env bash
# check_install.sh BUILD_DIR CXX CC: the installed copy works on its own. Everything happens in a temporary folder.
set -euo pipefail
build=$1 cxx=$2 cc=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/sluice install.XXXXXX") # the space is part of the test
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" 2>&1 || { cat "$work/install.log"; fail "cmake --install"; }
mv "$work/prefix" "$work/moved prefix" # an installed copy can be moved
prefix="$work/moved prefix"
for file in include/sluice/gguf.h include/sluice/types.inc share/sluice/story-q4_0.gguf; do
  [[ -f $prefix/$file ]] || fail "$file was not installed"
done

cmake -S "$here/consumer" -B "$work/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" >"$work/consumer.log" 2>&1 &&
  cmake --build "$work/consumer" >>"$work/consumer.log" 2>&1 || { cat "$work/consumer.log"; fail "a project that uses the package"; }
if grep -qE 'fmt|pcre' "$prefix"/lib*/cmake/sluice/*.cmake "$prefix"/lib/*/cmake/sluice/*.cmake 2>/dev/null; then
  fail "the package asks its users for the library's own dependencies"
fi

said=$("$work/consumer/consumer" "$prefix/share/sluice/story-q4_0.gguf")
[[ $said == *" tensors, Q4_0" ]] || fail "the project says '$said'"
echo "project: $said"
if [[ -x $work/consumer/consumer_c ]]; then "$work/consumer/consumer_c" || fail "the C project"; fi

# The installed program finds its story model with no option and from any folder.
if [[ -x $prefix/bin/sluice ]]; then
  cd /
  tale=$("$prefix/bin/sluice" run "Once upon a time" -n 8 --temp 0 2>"$work/err") || { cat "$work/err"; fail "the installed program"; }
  [[ -n $tale ]] || fail "the installed program told no tale"
  ln -s "$prefix/bin/sluice" "$work/link"
  [[ $("$work/link" run "Once upon a time" -n 8 --temp 0 2>/dev/null) == "$tale" ]] || fail "the installed program through a link"
  echo "program: ${tale//$'\n'/ }"
fi

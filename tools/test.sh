# ./sluicew test: everything that shows that a checkout works. Read by ./sluicew; not a program of its own.
# shellcheck shell=bash

test_usage="usage: ./sluicew test [--all | --extra] [-- ctest arguments]
  (nothing)   checks of the source tree and the test suite
  --all       also: sanitizers (address, undefined, thread), fuzzing, 64-bit Arm under emulation, clang-tidy
  --extra     only what --all adds
  -- ...      only the test suite, with these arguments for ctest: ./sluicew test -- -R gguf"

n_passed=0 n_failed=0 n_skipped=0
failed_steps=()

run_tests() {
  local base=1 extra= ctest_only=()
  case ${1-} in
    '') ;;
    --all) extra=1 ;;
    --extra) base='' extra=1 ;;
    --) ctest_only=("${@:2}") ;;
    *)
      say "$test_usage"
      [[ $1 == -h || $1 == --help ]] && exit 0
      exit 2
      ;;
  esac
  need_packages build "${build_packages[@]}"
  need_packages test "${test_packages[@]}"
  if [[ -n $extra ]]; then need_packages extra "${extra_packages[@]}"; fi
  cd -- "$root"
  started=$SECONDS
  if ((${#ctest_only[@]})); then
    step build build_tests release
    step suite suite release "${ctest_only[@]}"
  else
    if [[ -n $base ]]; then base_steps; fi
    if [[ -n $extra ]]; then extra_steps; fi
  fi
  finish
}

base_steps() {
  step checks counted python3 tools/checks/run.py
  step "checks of the checks" counted python3 tools/checks/selftest.py
  step build build_tests release
  step "SIMD symbols" single python3 tools/checks/simd_symbols.py build/release
  step suite suite release
}

extra_steps() {
  local no_random=() other_types='BF16|F16|Q4_1|Q5_0|Q5_1|Q._K|IQ|TQ|MXFP4|NVFP4'
  # One build for the suite and the fuzz targets; its compile commands are clang-tidy's as well.
  step "asan+ubsan build" build_tests fuzz -DSLUICE_TESTS=ON "-DCMAKE_C_COMPILER=$(clang_tool clang)" \
    "-DCMAKE_CXX_COMPILER=$(clang_tool clang++)"
  step "asan+ubsan suite" suite fuzz
  fuzz
  step clang-tidy single tidy
  # Where threads work; a kernel's threads share its rows in the same way for every type, a model's for every text.
  step "tsan build" build_tests tsan -- sluice_{base,backend,kernels,models,engine}_tests
  # The thread sanitizer of gcc 12 cannot live with the address randomisation of newer kernels.
  if setarch -R true 2>/dev/null; then no_random=(setarch -R); fi
  step "tsan suite" suite tsan -L '^(base|backend|kernels|models|engine)$' -E "[/_]($other_types|${other_types,,})|HeldOutPerplexity"
  step "NEON build" build_tests neon
  step "NEON suite" suite neon
  gpu_steps
  published_model
}

# --- running a step ---------------------------------------------------------------------------------------------------

# step NAME COMMAND...: a failure is noted and the rest still runs. The command sets n_passed and so on.
step() {
  local name=$1 began=$SECONDS code=0
  shift
  say "== $name"
  "$@" || code=$?
  if ((code)); then
    failed_steps+=("$name")
    say "== $name FAILED ($((SECONDS - began)) s)"
  else
    say "== $name ok ($((SECONDS - began)) s)"
  fi
}

# A program that ends with "...: N passed, N failed, N skipped".
counted() {
  local log=$root/build/counted.log code=0 words
  "$@" 2>&1 | tee "$log" || code=1
  words=$(sed -n 's/^[a-z]*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log" | tail -n 1)
  if [[ -z $words ]]; then
    count 0 1 0
    return 1
  fi
  # shellcheck disable=SC2086
  count $words
  return "$code"
}

# A program that is one test.
single() {
  if "$@"; then count 1 0 0; else
    count 0 1 0
    return 1
  fi
}

count() {
  n_passed=$((n_passed + $1)) n_failed=$((n_failed + $2)) n_skipped=$((n_skipped + $3))
}

# build_tests PRESET [cmake arguments] [-- targets]; counts only when it fails.
build_tests() {
  local preset=$1 arguments=() targets=(all)
  shift
  while (($#)) && [[ $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  if (($# > 1)); then targets=("${@:2}"); fi
  set -- "${arguments[@]}"
  if [[ $preset == release ]]; then
    set -- -DSLUICE_TESTS=ON "$@"
    if [[ -e $root/bench/CMakeLists.txt ]]; then set -- "$@" -DSLUICE_BENCH=ON; fi
  fi
  # In a shell of its own: die ends only that.
  (lock_build "$preset" && configure "$preset" "$@" && build "$preset" "${targets[@]}") || {
    count 0 1 0
    return 1
  }
}

# suite PRESET [ctest arguments]
suite() {
  local preset=$1 log=$root/build/$1.ctest.log code=0 total failed skipped
  shift
  if [[ ! -e $root/build/$preset/CTestTestfile.cmake ]]; then
    say "there is no build to test"
    count 0 1 0
    return 1
  fi
  ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} \
    TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1} \
    "${no_random[@]}" ctest --test-dir "$root/build/$preset" --parallel "$(nproc)" --no-tests=error --output-on-failure "$@" \
    </dev/null >"$log" 2>&1 || code=$?
  total=$(sed -n 's/.*tests passed, [0-9]* tests failed out of \([0-9]*\)$/\1/p' "$log" | tail -n 1)
  failed=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of [0-9]*$/\1/p' "$log" | tail -n 1)
  skipped=$(grep -c '\*\*\*Skipped' "$log") || true
  if ((code)); then
    # What the failed tests printed, without the lines of those that passed.
    grep -vE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed |^ +Start +[0-9]+: ' "$log" | head -n 400 >&2
    say "the whole output is in build/$preset.ctest.log"
  else
    sed -n '/tests passed/,$p' "$log" >&2
  fi
  if [[ -z $total ]]; then
    count 0 1 0
    return 1
  fi
  if ((skipped)); then grep '\*\*\*Skipped' "$log" | sed 's/^.*Test *#[0-9]*: /skipped: /; s/ \.\.\.*.*$//' | head -n 20 >&2; fi
  count $((total - failed - skipped)) "$failed" "$skipped"
  return "$code"
}

# The GPU tests on a CPU that plays a GPU, or on what GPU there is; the second run is watched by the validation layers.
gpu_steps() {
  local reason
  if reason=$(python3 "$root/tools/build_blobs.py" slangc --cache "$root/.cache" 2>&1 >/dev/null); then
    step "gpu build" build_tests release -DSLUICE_VULKAN=ON
    step "gpu suite" gpu_suite
    step "gpu validation" single validation
  else
    say "== gpu skipped: ${reason#error: }"
    count 0 0 1
  fi
}

gpu_suite() { SLUICE_REQUIRE=vulkan suite release -L 'gpu|blobs'; }

validation() {
  local log=$root/build/validation.log program code=0
  for program in "backend *Vulkan*" "kernels *" "models *GpuOracle.*/lfm2moe_q4_0"; do
    VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT \
      SLUICE_REQUIRE=vulkan "$root/build/release/tests/sluice_${program%% *}_tests" --gtest_filter="${program#* }" >"$log" 2>&1 || code=1
    if ((code)) || grep -qE 'VUID|SYNC-HAZARD|UNASSIGNED' "$log"; then
      grep -E 'VUID|SYNC-HAZARD|UNASSIGNED|Failure' "$log" | head -n 20 >&2
      return 1
    fi
  done
}

# Tests that want real weights, where these can be had.
published_model() {
  local reason
  if reason=$(python3 "$root/tools/get_gemma3.py" 2>&1 >/dev/null); then
    step "build for the published model" build_tests release
    step "published model" suite release -R 'PublishedModel|a_published_model'
  else
    say "== published model skipped: ${reason#error: }"
    count 0 0 1
  fi
}

# --- the extra steps --------------------------------------------------------------------------------------------------

clang_tool() { command -v "$1-14" || command -v "$1" || echo "$1"; }

# Each fuzz target for a while, starting from its corpus, of which the checkout's files stay as they are.
fuzz() {
  local target name n=0
  for target in "$root"/build/fuzz/tests/fuzz/*_fuzz; do
    [[ -x $target ]] || continue
    name=$(basename -- "$target" _fuzz)
    name=${name#sluice_}
    n=$((n + 1))
    step "fuzz $name" single fuzz_one "$target" "$name"
  done
  if ((n == 0)); then
    step fuzz single false
  fi
}

fuzz_one() {
  local target=$1 name=$2 seconds=20 log=$root/build/fuzz/$2.log corpus=$root/tests/fuzz/corpus/$2 found=$root/build/fuzz/found_$2
  [[ $name == gguf* ]] && seconds=${SLUICE_FUZZ_SECONDS:-60}
  mkdir -p "$found"
  [[ -d $corpus ]] || corpus=$found
  ASAN_SYMBOLIZER_PATH=$(clang_tool llvm-symbolizer) "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$found/crash_" "$found" "$corpus" </dev/null >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    return 1
  }
  grep -E 'number_of_executed_units|^#[0-9]+\s+DONE' "$log" | tail -n 2 >&2
}

# The compile commands of the clang build, so that clang-tidy sees flags that it knows.
tidy() {
  local tool log=$root/build/tidy.log
  tool=$(clang_tool clang-tidy)
  python3 - "$root" <<'EOF' | xargs -0 -P "$(nproc)" -n 2 "$tool" -p "$root/build/fuzz" --quiet >"$log" 2>&1 || {
import json, os, sys
root = sys.argv[1]
files = sorted({entry["file"] for entry in json.load(open(root + "/build/fuzz/compile_commands.json"))})
print("\0".join(file for file in files if file.startswith((root + "/src/", root + "/tests/fuzz/"))), end="\0")
EOF
    grep -E '(warning|error):' "$log" | sort -u | head -n 60 >&2
    say "the whole output is in build/tidy.log"
    return 1
  }
}

finish() {
  local name
  for name in "${failed_steps[@]}"; do say "failed: $name"; done
  say "took $((SECONDS - started)) s"
  # The closing line is the only thing on stdout that counts; .ci/run adds such lines up.
  printf '%d passed, %d failed, %d skipped\n' "$n_passed" "$n_failed" "$n_skipped"
  if ((n_failed || ${#failed_steps[@]} || n_passed == 0)); then exit 1; fi
  exit 0
}

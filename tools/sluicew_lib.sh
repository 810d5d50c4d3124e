# Functions of ./sluicew and tools/test.sh; they set root and consent. Not a program of its own.
# shellcheck shell=bash disable=SC2034

# Debian's and Ubuntu's names. A name with | is satisfied by either side; the first is installed.
build_packages=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libpcre2-dev
  libcurl4-openssl-dev libssl-dev ca-certificates 'python3-minimal|python3')
test_packages=(git python3 libgtest-dev libbenchmark-dev 'clang-format-14|clang-format')
gpu_packages=(libvulkan-dev python3-pip)
extra_packages=(clang-14 libclang-rt-14-dev clang-tidy-14 llvm-14 g++-aarch64-linux-gnu qemu-user
  libvulkan-dev mesa-vulkan-drivers vulkan-validationlayers spirv-tools python3-pip)

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

have() {
  local name
  for name in "$@"; do command -v "$name" >/dev/null || return 1; done
}

# --- packages ---------------------------------------------------------------------------------------------------------

# need_packages SET NAMES...: asks and installs once; afterwards a stamp that holds the list answers at once.
need_packages() {
  local set=$1 stamp=$root/build/.packages-$1 list
  shift
  list="$*"
  if [[ -r $stamp && $(<"$stamp") == "$list" ]] && have cmake ninja python3; then return; fi
  mkdir -p -- "$root/build" || die "cannot write to $root; make the checkout writable"
  if have apt-get dpkg-query; then
    install_missing "$@"
  else
    have cmake ninja python3 c++ || other_system
  fi
  check_cmake
  printf '%s' "$list" >"$stamp"
}

# Fills `missing` with the packages of the list that are not installed.
find_missing() {
  local installed name option found
  missing=()
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^.i //p')
  for name in "$@"; do
    found=
    for option in ${name//|/ }; do
      [[ $'\n'$installed$'\n' == *$'\n'$option$'\n'* ]] && found=1
    done
    [[ -n $found ]] || missing+=("${name%%|*}")
  done
}

install_missing() {
  local missing name simulated as_root=() log=$root/build/packages.log
  find_missing "$@"
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    have sudo ||
      die "these packages are missing: ${missing[*]}; install them as root: apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  if [[ $consent != true ]]; then ask_consent "${missing[@]}"; fi
  say "sluicew: installing ${missing[*]}"
  # An old list of packages names files that are gone from the mirror: get a new one first.
  { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
      install -y --no-install-recommends "${missing[@]}"; } </dev/null >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "apt-get could not install ${missing[*]}; the whole output is in build/packages.log"
  }
}

ask_consent() {
  local answer command="${as_root[*]:+sudo }apt-get install --no-install-recommends $*"
  # sudo may ask for a password, so a person is needed anyway unless -y or CI=true was said.
  if [[ ! -t 2 ]] || ! { : </dev/tty; } 2>/dev/null; then
    die "these packages are missing: $*; run '$command', or call sluicew with -y first"
  fi
  say "Sluice needs these packages: $*"
  printf 'Install them now (%s)? [Y/n] ' "$command" >&2
  read -r answer </dev/tty || answer=n
  [[ -z $answer || $answer == [yY]* ]] || die "the packages were not installed; run '$command' and call sluicew again"
}

other_system() {
  say "error: build tools are missing; sluicew installs them on Debian and Ubuntu only. Install these and call it again:"
  say "  a C++20 compiler (gcc 12 or clang 14 or newer), CMake 3.25 or newer, Ninja, Python 3, fmt, nlohmann-json, PCRE2, libcurl, OpenSSL"
  say "  Fedora: dnf install gcc-c++ cmake ninja-build python3 fmt-devel json-devel pcre2-devel libcurl-devel openssl-devel"
  say "  Arch:   pacman -S gcc cmake ninja python fmt nlohmann-json pcre2 curl openssl"
  exit 1
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
  if ((${version%%.*} < 3 || (${version%%.*} == 3 && ${version##*.} < 25))); then
    die "CMake 3.25 or newer is needed and this is $version; install a newer one, for example with: pipx install cmake"
  fi
}

# --- GPU --------------------------------------------------------------------------------------------------------------

# Fills `gpu_arguments` for cmake where the program's arguments ask for a GPU. What cannot be had leaves the CPU alone.
find_gpu_arguments() {
  local argument before='' reason
  gpu_arguments=()
  for argument in "$@"; do
    [[ $before$argument != --backendvulkan && $argument != --backend=vulkan ]] || break
    before=$argument argument=
  done
  [[ -n ${argument-} ]] || return 0
  if [[ -d $root/blobs ]]; then # a release brings its kernels
    need_packages vulkan libvulkan-dev
    gpu_arguments=(-DSLUICE_VULKAN=ON)
    return
  fi
  need_packages gpu "${gpu_packages[@]}"
  if reason=$(python3 "$root/tools/build_blobs.py" slangc --cache "$root/.cache" 2>&1 >/dev/null); then
    gpu_arguments=(-DSLUICE_VULKAN=ON)
  else
    say "sluicew: no GPU kernels (${reason#error: }); building for the CPU alone"
  fi
}

# --- configure and build ----------------------------------------------------------------------------------------------

# One build at a time in a folder; later calls wait.
lock_build() {
  mkdir -p -- "$root/build" || die "cannot write to $root; make the checkout writable"
  have flock || return 0
  exec 9>"$root/build/.lock-$1"
  flock -n 9 && return
  say "sluicew: waiting for another build to end"
  flock 9
}
unlock_build() { exec 9>&-; }

# configure PRESET [cmake arguments]: only when that was not done yet with these arguments, or the presets changed.
configure() {
  local preset=$1 build=$root/build/$1 stamp want log
  shift
  stamp=$build/.configured log=$build.configure.log
  want=$root$'\n'"with: $*"
  if [[ -r $stamp && -e $build/build.ninja && ! $root/CMakePresets.json -nt $stamp ]]; then
    # A plain call needs no more than what an earlier call with arguments configured.
    if [[ $(<"$stamp") == "$want" || ($# == 0 && $(<"$stamp") == "$root"$'\n'*) ]]; then return; fi
    [[ $(<"$stamp") == "$root"$'\n'* ]] || rm -rf -- "$build" # the checkout was moved
  fi
  (cd -- "$root" && cmake --preset "$preset" "$@") </dev/null >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    die "the build could not be configured; the whole output is in build/$preset.configure.log"
  }
  printf '%s' "$want" >"$stamp"
}

# build PRESET TARGETS...: silent when nothing is to do; on a terminal one line that counts, otherwise a line per tenth.
build() {
  local preset=$1 build=$root/build/$1 log=$root/build/$1.log
  shift
  NINJA_STATUS='[%f/%t] ' ninja -C "$build" "$@" 2>&1 </dev/null 9>&- | show_progress "$preset" "$log" || {
    failure_of "$log" >&2 || true  # a pipe that closes early must not hide the error line
    die "the build failed; the whole output is in build/$preset.log"
  }
}

show_progress() {
  local line done_ total tenth shown=-1
  while IFS= read -r line; do
    printf '%s\n' "$line"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) && ${BASH_REMATCH[3]} != Re-checking* ]] || continue
    done_=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    if [[ -t 2 ]]; then
      printf '\rsluicew: building %s %d/%d\e[K' "$1" "$done_" "$total" >&2
      shown=0
    elif ((total > 0 && (tenth = done_ * 10 / total) > shown)); then
      say "sluicew: building $1 $done_/$total"
      shown=$tenth
    fi
  done >"$2"
  if [[ -t 2 ]] && ((shown >= 0)); then printf '\r\e[K' >&2; fi
}

# The first failed step of a build log with what it printed, at most 40 lines.
failure_of() {
  local found
  found=$(grep -n -m 1 -E '^(FAILED: |CMake Error)' "$1" | cut -d: -f1) || found=
  if [[ -n $found ]]; then tail -n "+$found" "$1" | cut -c1-400 | head -n 40; else tail -n 20 "$1"; fi
}

#!/usr/bin/env bash
# What a stranger meets: a minimal Debian 12, a clone, the README's two commands. Needs root and mmdebstrap.
#
#   tools/fresh_system.sh [--worktree] [--user] [--tale-only] [--keep]
#
# --worktree   copies the files of this checkout instead of cloning its last commit
# --user       runs as an ordinary user with sudo instead of root
# --tale-only  only the first command
# --keep       leaves the system behind and says where
# Packages come from where this machine gets its own. The folder is under TMPDIR and needs about 2 GB.
set -euo pipefail

root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
worktree='' as_user='' tale_only='' keep=''
for option in "$@"; do
  case $option in
    --worktree) worktree=1 ;;
    --user) as_user=1 ;;
    --tale-only) tale_only=1 ;;
    --keep) keep=1 ;;
    *)
      sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
done
((EUID == 0)) || { echo "error: needs root to make a system; run it with sudo" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "error: mmdebstrap is missing; apt-get install mmdebstrap" >&2; exit 1; }

# In a mount namespace of its own: whatever is mounted below goes away with it.
if [[ -z ${SLUICE_FRESH_NAMESPACE-} ]]; then
  export SLUICE_FRESH_NAMESPACE=1
  exec unshare --mount --propagation private bash "${BASH_SOURCE[0]}" "$@"
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/sluice-fresh.XXXXXX")
system=$place/root
cleanup() {
  local mounted
  for mounted in dev/pts dev sys proc; do umount "$system/$mounted" 2>/dev/null || umount -l "$system/$mounted" 2>/dev/null || true; done
  if [[ -n $keep ]]; then echo "kept: $system" >&2; elif ! grep -q " $system/" /proc/self/mounts; then rm -rf --one-file-system "$place"; fi
}
trap cleanup EXIT
failures=0
report() { # CODE WHAT
  if (($1 == 0)); then echo "PASS $2"; else
    echo "FAIL $2"
    failures=$((failures + 1))
  fi
}

# --- the system -------------------------------------------------------------------------------------------------------
sources=()
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.list /etc/apt/sources.list.d/debian.sources; do
  if [[ -s $file ]]; then sources+=("$file"); fi
done
apt-config dump | grep -E '^Acquire::(http|https|Retries|ForceIPv4)' >"$place/apt.conf" || true
include=''
if [[ -n $as_user ]]; then include=--include=sudo; fi
echo "making a minimal system in $system" >&2
mmdebstrap --quiet --variant=minbase $include --aptopt="$place/apt.conf" bookworm "$system" "${sources[@]}" >&2
for file in resolv.conf hosts; do cp "/etc/$file" "$system/etc/$file"; done
mkdir -p "$system/srv/new"
if [[ -n $worktree ]]; then
  mkdir "$system/srv/new/sluice"
  git -C "$root" ls-files -z --cached --others --exclude-standard | (cd "$root" && xargs -0 ls -d 2>/dev/null) |
    tar -C "$root" -cf - -T - | tar -C "$system/srv/new/sluice" --no-same-owner -xf -
else
  git clone --quiet --no-local "$root" "$system/srv/new/sluice"
fi
mount -t proc proc "$system/proc"
mount -t sysfs -o ro sys "$system/sys"
mount --rbind /dev "$system/dev"

user=root
if [[ -n $as_user ]]; then
  user=new
  chroot "$system" useradd --home-dir /srv/new --shell /bin/bash new
  chroot "$system" chown -R new: /srv/new
  echo 'new ALL=(ALL) NOPASSWD: ALL' >"$system/etc/sudoers.d/new"
fi
inside() { # COMMAND, in the checkout, with an almost empty environment
  chroot "$system" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv/new LANG=C.UTF-8 \
    setpriv --reuid="$user" --regid="$user" --init-groups bash -c "cd /srv/new/sluice && $1" </dev/null
}

# --- the two commands -------------------------------------------------------------------------------------------------
refused=0
said=$(inside './sluicew run "Once upon a time"' 2>&1) && refused=1
[[ $said == *"missing:"*"-y"* ]] || refused=1
report $refused "without consent it installs nothing and says what is missing"

began=$SECONDS code=0
inside './sluicew -y run "Once upon a time"' >"$place/tale" || code=$?
took=$((SECONDS - began))
report $code "./sluicew -y run \"Once upon a time\" ends with 0"
cat "$place/tale"
echo
report $(($(wc -w <"$place/tale") < 20)) "the tale has at least 20 words ($(wc -w <"$place/tale"))"
report $((took > 300)) "the first tale took at most 300 s ($took s)"
began=$(date +%s%N)
inside './sluicew --version' >/dev/null || true
took=$((($(date +%s%N) - began) / 1000000))
report $((took > 300)) "a second call starts within 0.3 s ($took ms)"

if [[ -z $tale_only ]]; then
  began=$SECONDS code=0
  inside './sluicew -y test' >"$place/test.log" 2>&1 || code=$?
  took=$((SECONDS - began))
  report $code "./sluicew -y test ($(tail -n 1 "$place/test.log"))"
  if ((code)); then tail -n 60 "$place/test.log"; fi
  report $((took > 900)) "the tests took at most 900 s ($took s)"
  left=$(inside 'ls -A /srv/new | grep -vx sluice; ls -d build >/dev/null' || true)
  report $((${#left} > 0)) "nothing was left in HOME beside the checkout (${left//$'\n'/ })"
fi
echo "fresh system: $failures failed"
exit $((failures > 0))

#!/usr/bin/env bash
# Proves the two README commands on a clean Debian 12: makes a root with debootstrap, clones the committed tree into
# it and runs tools/run.sh --once and tools/test.sh there. Needs root. Not part of CI (it takes as long as a first
# build plus every test). Usage: tools/check_fresh.sh [--quick]   (--quick is handed to tools/test.sh)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ "$(id -u)" = 0 ] || die "check_fresh.sh needs root (debootstrap, chroot)"
command -v debootstrap >/dev/null || {
  say "installing debootstrap"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
}

# The package mirror that this machine uses, so that the new root reaches the same one.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)
[ -n "$mirror" ] || die "apt names no package mirror"
root=$(mktemp -d "${TMPDIR:-/tmp}/skipjack-fresh.XXXXXX")

cleanup() {
  for mount in dev/shm dev proc sys; do umount -l "$root/$mount" 2>/dev/null || true; done
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT

say "making a clean Debian 12 root"
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >/dev/null
for mount in proc sys dev dev/shm; do mount --bind "/$mount" "$root/$mount"; done

# How this machine reaches its registries: apt's sources and settings, certificates, pip's settings, name service.
rm -f "$root"/etc/apt/sources.list
cp -a /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/keyrings \
  "$root/etc/apt/" 2>/dev/null || true
cp -aL /usr/share/keyrings/. "$root/usr/share/keyrings/" 2>/dev/null || true
cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
cp -aL /etc/ssl/certs/. "$root/etc/ssl/certs/" 2>/dev/null || true
cp -aL /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
for settings in /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf" "$HOME/.netrc"; do
  [ -f "$settings" ] || continue
  mkdir -p "$root$(dirname "$settings")"
  cp -L "$settings" "$root$settings"
done

git clone --quiet "$SKIPJACK_ROOT" "$root/root/skipjack"

# Only what a login gives, and how to reach the registries.
in_root() {
  local registry_settings=()
  while IFS= read -r setting; do registry_settings+=("$setting"); done < <(env | grep -iE '^(pip_|https?_proxy|no_proxy|ssl_cert|requests_ca)' || true)
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
    "${registry_settings[@]}" chroot "$root" /bin/bash -c "cd /root/skipjack && $1"
}

in_root 'apt-get update -qq'
say "first command: tools/run.sh --once"
in_root 'tools/run.sh --once "The capital of France is"'
say "second command: tools/test.sh ${1:-}"
in_root "tools/test.sh ${1:-}"
say "both commands passed on a clean Debian 12"

#!/usr/bin/env bash
# Installs redis-server and valkey-server for the tests, without starting them. Prints
# on the last line what is there, with commas between, for go test's -need. What a
# Debian release does not have comes from its backports, or is left out.
set -euo pipefail

root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
get() { root env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2; }

policy=/usr/sbin/policy-rc.d backports=/etc/apt/sources.list.d/retrip-backports.list
clean=()
trap 'root rm -f "${clean[@]}"' EXIT
if [ ! -e "$policy" ]; then # Debian's way to install a server and not start it
  clean+=("$policy")
  printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
  root chmod +x "$policy"
fi

offered() { [[ $(apt-cache policy "$1") =~ Candidate:\ [^\(] ]]; }

add_backports() {
  . /etc/os-release
  local uri
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u | sed -n 1p)
  [ "${ID:-}" = debian ] && [ -n "$uri" ] || return 1
  clean+=("$backports")
  echo "deb $uri $VERSION_CODENAME-backports main" | root tee "$backports" >/dev/null
  get update
}

there=()
updated=
for server in redis-server valkey-server; do
  if ! command -v "$server" >/dev/null; then
    [ -n "$updated" ] || { get update; updated=1; }
    offered "$server" || add_backports || true
    if ! offered "$server" || ! get install -y --no-install-recommends "$server"; then
      echo "$server is left out: neither this release nor its backports have it" >&2
      continue
    fi
  fi
  there+=("$server")
done
(IFS=,; echo "${there[*]}")

#!/usr/bin/env bash
# Runs a server in the foreground until standard input ends, and reloads it at
# each line "reload" there: it ends with whoever started it, even if that dies.
# DIR/nginx.conf or DIR/haproxy.cfg says where its files are.
#   serve.sh nginx|haproxy DIR
# "serve.sh install nginx|haproxy..." only installs what is missing.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

install_missing() ( # in a subshell, at whose end the trap cleans up
  local missing=() package policy=/usr/sbin/policy-rc.d
  for package in "$@"; do
    command -v "$package" >/dev/null || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ ! -e "$policy" ]; then # Debian's way to install a server and not start it
    printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
    root chmod +x "$policy"
    trap 'root rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  root apt-get update >&2
  root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >&2
)

if [ "$1" = install ]; then
  shift
  install_missing "$@"
  exit
fi

server=$1 dir=$2
install_missing "$server"
case $server in
nginx)
  command=(nginx -e "$dir/error.log" -p "$dir" -c "$dir/nginx.conf" -g 'daemon off;') reload=HUP
  ;;
haproxy)
  command=(haproxy -W -db -f "$dir/haproxy.cfg") reload=USR2
  ;;
*)
  echo "serve.sh knows no $server" >&2
  exit 2
  ;;
esac

"${command[@]}" </dev/null &
pid=$!
while read -r word; do
  if [ "$word" = reload ]; then kill -"$reload" "$pid"; fi
done
# HAProxy runs itself anew at a reload, and forgets a TERM that came just behind:
# ask until it is gone.
while kill -TERM "$pid" 2>/dev/null; do sleep 0.2; done
wait "$pid" || true

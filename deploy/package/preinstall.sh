#!/bin/sh
# Makes the user of the service. Neither a new version nor a removal changes it.
set -e
if ! getent group understudy >/dev/null; then
  groupadd --system understudy
fi
if ! getent passwd understudy >/dev/null; then
  useradd --system --gid understudy --no-create-home --home-dir /var/lib/understudy \
    --shell /usr/sbin/nologin --comment "Understudy" understudy
fi

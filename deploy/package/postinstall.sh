#!/bin/sh
# Has systemd read the unit. A first installation starts nothing: the settings come first.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if systemctl is-active --quiet understudy; then
  systemctl restart understudy
fi

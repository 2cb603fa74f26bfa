#!/bin/sh
# Has systemd forget the unit. The user and the state stay: policies are not ours to delete.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload

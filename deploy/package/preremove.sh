#!/bin/sh
# Stops the service before its files go, but not when a new version takes their place: Debian's dpkg
# says "upgrade" then, and RPM the number of versions that are left.
set -e
case ${1:-} in upgrade | [1-9]*) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now understudy

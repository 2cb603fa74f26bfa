#!/bin/sh
# Makes what deploy/compose/access.yaml needs in deploy/compose/secrets, with openssl: an
# authority, the certificate of the admin API, that of an operator, and the users of Redis with
# a file for the password of each. It is for one machine: an authority for more
# keeps its key elsewhere. What is there stays; remove the folder to begin anew.
set -eu
cd "$(dirname "$0")"
mkdir -m 700 secrets 2>/dev/null || { echo "deploy/compose/secrets is there already" >&2; exit 1; }
cd secrets
# Others on this machine cannot enter the folder; users of containers read single files.
umask 022

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null; chmod 644 "$1.key"; }
signed() { # name, extensions
  key "$1"
  openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
  printf '%s\n' "$2" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

key ca
openssl req -x509 -key ca.key -subj "/CN=understudy compose" -days 3650 -out ca.crt \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
chmod 600 ca.key
signed control 'subjectAltName=DNS:control,DNS:localhost,IP:127.0.0.1
extendedKeyUsage=serverAuth'
signed operator 'extendedKeyUsage=clientAuth'
chmod 600 operator.key

openssl rand -hex 32 >control.password
openssl rand -hex 32 >sidecar.password
openssl rand -hex 32 >operator.password
chmod 600 operator.password
sed -e "s/CONTROL_PASSWORD/$(cat control.password)/" -e "s/SIDECAR_PASSWORD/$(cat sidecar.password)/" \
  -e "s/OPERATOR_PASSWORD/$(cat operator.password)/" ../../redis/users.conf >users.conf

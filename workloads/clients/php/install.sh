#!/bin/sh
# Unpacks Debian packages into a folder, without installing them: `install.sh LIST FOLDER`. Each line of the list is a
# package's SHA-256, name and version. PHP itself and its extensions must be installed on the machine.
set -eu
list=$1 to=$2
while read -r sum package version; do
  case $sum in '#'* | '') continue ;; esac
  apt-get download "$package=$version"
  echo "$sum  $(echo "$package"_*.deb)" | sha256sum --check --strict --quiet
  dpkg-deb --extract "$package"_*.deb unpacked
  echo "$version" >"unpacked/usr/share/php/$package.version"
done <"$list"
mv unpacked/usr/share/php/* "$to"

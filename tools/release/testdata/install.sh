# Installs the package /rouse.deb, and a newer one, uses it and removes it, in a root and a network of its own.
set -eu
fail() { echo "install.sh: $*" >&2; exit 1; }
serve() { # as the unit does
	runuser -u rouse -- env -C /var/lib/rouse /usr/bin/rouse serve --config /etc/rouse/rouse.yaml 2>/tmp/log & server=$!
	for _ in $(seq 600); do curl -sf http://127.0.0.1:7412/readyz >/dev/null && return; sleep 0.1; done
	cat /tmp/log; fail "the server is not ready"
}
stop() { pkill -TERM -P $server -x rouse || kill $server; wait $server || true; }
ip link set lo up

dpkg -i /rouse.deb
[ "$(stat -c '%U:%G %a' /etc/rouse/rouse.yaml)" = "root:rouse 640" ] || fail "rights of the configuration: $(stat -c '%U:%G %a' /etc/rouse/rouse.yaml)"
[ "$(getent passwd rouse | cut -d: -f6)" = /var/lib/rouse ] || fail "the user is $(getent passwd rouse)"
systemd-analyze verify /usr/lib/systemd/system/rouse.service
runuser -u rouse -- /usr/bin/rouse config --config /etc/rouse/rouse.yaml >/dev/null
install -d -o rouse -g rouse -m 0700 /var/lib/rouse # StateDirectory
serve
rouse create kept --schedule 2099-01-01T00:00:00Z --target https://example.com/
stop

# From here on there is a systemd, of which nothing but the orders is seen.
mkdir -p /run/systemd/system /usr/local/sbin
printf '#!/bin/sh\necho "$@" >>/tmp/orders\n[ ! -e /tmp/masked ] || [ "$1" = daemon-reload ]\n' >/usr/local/sbin/systemctl
chmod 0755 /usr/local/sbin/systemctl
export PATH="/usr/local/sbin:$PATH"
ordered() { # what systemd was told, and not told, since the last time
	grep -q "$1" /tmp/orders && ! grep -q "$2" /tmp/orders || fail "not $1, or $2: $(cat /tmp/orders)"
	rm /tmp/orders
}
begun() { # it was told to enable and start the service
	grep -q "^enable rouse" /tmp/orders && grep -q "^--no-block start rouse" /tmp/orders || fail "not begun: $(cat /tmp/orders)"
	rm /tmp/orders
}

# An update keeps what the administrator changed, and the timers.
echo '# changed' >> /etc/rouse/rouse.yaml
dpkg -i /newer.deb
ordered try-restart enable
grep -q '# changed' /etc/rouse/rouse.yaml || fail "the update replaced the configuration"
[ "$(stat -c '%U:%G %a' /etc/rouse/rouse.yaml)" = "root:rouse 640" ] || fail "the update changed the rights of the configuration"
serve
rouse get kept >/dev/null
stop

# A removal keeps configuration, timers and the user; a second installation finds them.
dpkg -r rouse
ordered "disable --now" enable
[ ! -e /usr/bin/rouse ] || fail "the binary is there after the removal"
[ -e /etc/rouse/rouse.yaml ] && [ -n "$(ls -A /var/lib/rouse)" ] && getent passwd rouse >/dev/null || fail "the removal deleted configuration, timers or user"
dpkg -i /newer.deb
begun
serve
rouse get kept >/dev/null
stop

# An update is complete without the configuration, and does not end the server.
mv /etc/rouse/rouse.yaml /tmp/rouse.yaml
dpkg -i /newer.deb 2>/tmp/log || fail "$(cat /tmp/log)"
grep -q "rouse.yaml is missing" /tmp/log || fail "$(cat /tmp/log)"
ordered daemon-reload restart
mv /tmp/rouse.yaml /etc/rouse/rouse.yaml

# The scripts of an older version leave nothing for those of this one, and do not read what these leave. The packages
# have no program from here on, which is fast.
for name in older newer; do
	dpkg-deb -R /newer.deb /tmp/$name
	: >/tmp/$name/usr/bin/rouse
done
sed -i 's/^Version: .*/Version: 0.0.1/' /tmp/older/DEBIAN/control
rm -f /tmp/older/DEBIAN/preinst /tmp/older/DEBIAN/postrm
printf '#!/bin/sh\n' >/tmp/older/DEBIAN/postinst
dpkg-deb -Znone -b /tmp/older /older.deb
dpkg-deb -Znone -b /tmp/newer /newer.deb
dpkg -r rouse
dpkg -i /older.deb
rm /tmp/orders
dpkg -i /newer.deb # the administrator may have disabled the older one
ordered try-restart " start\|enable"
dpkg -i /older.deb
dpkg -r rouse
rm /tmp/orders
dpkg -i /newer.deb
begun

# A masked unit stops no installation, neither after a removal nor after a purge.
touch /tmp/masked
for how in -r -P; do
	dpkg $how rouse
	dpkg -i /newer.deb || fail "a masked unit"
	begun
done
rm /tmp/masked

dpkg -P rouse
getent passwd rouse && fail "the user is there after the purge"
getent group rouse && fail "the group is there after the purge"
rm -rf /tmp/log /tmp/orders /tmp/older /tmp/newer /usr/local/sbin/systemctl /rouse.deb /newer.deb /older.deb

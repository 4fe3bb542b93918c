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

# An update keeps what the administrator changed, and the timers.
echo '# changed' >> /etc/rouse/rouse.yaml
dpkg -i /newer.deb
grep -q '# changed' /etc/rouse/rouse.yaml || fail "the update replaced the configuration"
[ "$(stat -c '%U:%G %a' /etc/rouse/rouse.yaml)" = "root:rouse 640" ] || fail "the update changed the rights of the configuration"
serve
rouse get kept >/dev/null
stop

# A removal keeps configuration, timers and the user; a second installation finds them.
dpkg -r rouse
[ ! -e /usr/bin/rouse ] || fail "the binary is there after the removal"
[ -e /etc/rouse/rouse.yaml ] && [ -n "$(ls -A /var/lib/rouse)" ] && getent passwd rouse >/dev/null || fail "the removal deleted configuration, timers or user"
dpkg -i /newer.deb
serve
rouse get kept >/dev/null
stop

dpkg -P rouse
getent passwd rouse && fail "the user is there after the purge"
getent group rouse && fail "the group is there after the purge"
rm -rf /tmp/log /rouse.deb /newer.deb

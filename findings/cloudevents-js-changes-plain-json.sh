#!/usr/bin/env bash
# cloudevents 10.0.0 (the CloudEvents SDK for JavaScript): numbers and booleans become text in one mode, and are lost in
# the other.
#
# Expected: whether an event comes in binary mode, with content-type application/json and its data as the body, or in
# structured mode, the data 0, 42, false or true is this value, and an object is an object.
# Seen: in binary mode, a body that begins with anything but one of [ { | " is put into quotation marks before it is
# parsed: false is the text "false", and an object behind a line break throws a SyntaxError. In structured mode 42 and
# true are right, but 0, false and the empty text are undefined.
# Why it matters: if (event.data) is taken for false in one mode and not in the other, 42 + 1 is "421", a counter at 0
# has no data, and a payload that an editor or a template has begun with a line break fails each attempt. An object
# around the value, sent without blanks before it, is read alike in both.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

npm install --silent --no-save cloudevents@10.0.0 >npm.log 2>&1 || { cat npm.log; exit 2; }
cat >ask.cjs <<'JS'
const { HTTP } = require("cloudevents");

function read(contentType, attributes, body) {
	try {
		const data = HTTP.toEvent({ headers: { ...attributes, "content-type": contentType }, body }).data;
		return `${typeof data} ${JSON.stringify(data)}`;
	} catch (e) {
		return e.name;
	}
}

for (const json of ["42", "0", "true", "false", '"due"', '""', '{"a":1}', '\n{"a":1}']) {
	const attributes = { "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/timers", "ce-type": "due" };
	const binary = read("application/json", attributes, json);
	const structured = read("application/cloudevents+json", {},
		`{"specversion":"1.0","id":"1","source":"/timers","type":"due","data":${json}}`);
	console.log(`${JSON.stringify(json)}: binary ${binary}, structured ${structured}`);
}
JS
node ask.cjs >seen
cat seen

diff seen - <<'WANT'
"42": binary string "42", structured number 42
"0": binary string "0", structured undefined undefined
"true": binary string "true", structured boolean true
"false": binary string "false", structured undefined undefined
"\"due\"": binary string "due", structured string "due"
"\"\"": binary string "", structured undefined undefined
"{\"a\":1}": binary object {"a":1}, structured object {"a":1}
"\n{\"a\":1}": binary SyntaxError, structured object {"a":1}
WANT

#!/usr/bin/env bash
# lib-recur 0.17.1: a yearly rule with days of the month is due in one month only.
#
# Expected: in a yearly rule BYMONTHDAY adds days, by the table of RFC 5545, section 3.3.10: FREQ=YEARLY;BYMONTHDAY=15 is
# the 15th of each month. So it is with FREQ=YEARLY;BYDAY=MO, each Monday of the year, in lib-recur, too.
# Seen: it is due on the 15th of the month of DTSTART, once a year.
# Why it matters: an event that another program shows each month reminds once a year, without an error.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
	<modelVersion>4.0.0</modelVersion>
	<groupId>finding</groupId>
	<artifactId>finding</artifactId>
	<version>1</version>
	<dependencies>
		<dependency>
			<groupId>org.dmfs</groupId>
			<artifactId>lib-recur</artifactId>
			<version>0.17.1</version>
		</dependency>
	</dependencies>
</project>
XML
mvn -q -B dependency:copy-dependencies -DoutputDirectory=jars >mvn.log 2>&1 || { cat mvn.log; exit 2; }
cat >Ask.java <<'JAVA'
import org.dmfs.rfc5545.DateTime;
import org.dmfs.rfc5545.recur.RecurrenceRule;
import org.dmfs.rfc5545.recur.RecurrenceRuleIterator;

public class Ask {
	public static void main(String[] args) throws Exception {
		for (String rule : new String[] {"FREQ=YEARLY;BYMONTHDAY=15", "FREQ=YEARLY;BYDAY=MO", "FREQ=MONTHLY;BYMONTHDAY=15"}) {
			StringBuilder line = new StringBuilder(rule + ":");
			RecurrenceRuleIterator times = new RecurrenceRule(rule).iterator(DateTime.parse("20270301T090000Z"));
			try {
				for (int i = 0; i < 3 && times.hasNext(); i++) {
					line.append(" " + times.nextDateTime());
				}
			} catch (RuntimeException e) {
				line.append(" " + e.getClass().getSimpleName() + ": " + e.getMessage());
			}
			System.out.println(line);
		}
	}
}
JAVA
java -cp 'jars/*' Ask.java >seen
cat seen

diff seen - <<'WANT'
FREQ=YEARLY;BYMONTHDAY=15: 20270315T090000Z 20280315T090000Z 20290315T090000Z
FREQ=YEARLY;BYDAY=MO: 20270301T090000Z 20270308T090000Z 20270315T090000Z
FREQ=MONTHLY;BYMONTHDAY=15: 20270315T090000Z 20270415T090000Z 20270515T090000Z
WANT

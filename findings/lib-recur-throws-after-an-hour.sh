#!/usr/bin/env bash
# lib-recur 0.17.1: a valid rule has its first times, and then an exception.
#
# Expected: FREQ=MINUTELY;BYDAY=MO;BYHOUR=9 is each minute from 9:00 to 9:59 on Mondays. The rule is accepted.
# Seen: on the first Monday it returns 9:00 to 9:58. The call for 9:59 also looks for the time after it, gives up after
# some thousand minutes without one, and throws. FREQ=HOURLY;BYMONTH=6;BYHOUR=9 throws for the 30th of its first June.
# Why it matters: an event is accepted and shown, and later the loop that computes the times of all events dies.
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
		for (String rule : new String[] {"FREQ=MINUTELY;BYDAY=MO;BYHOUR=9", "FREQ=HOURLY;BYMONTH=6;BYHOUR=9"}) {
			StringBuilder line = new StringBuilder(rule + ":");
			RecurrenceRuleIterator times = new RecurrenceRule(rule).iterator(DateTime.parse("20270104T090000Z"));
			DateTime last = null;
			int n = 0;
			try {
				for (; n < 100 && times.hasNext(); n++) {
					last = times.nextDateTime();
				}
			} catch (RuntimeException e) {
				line.append(" " + e.getClass().getSimpleName() + ": " + e.getMessage() + ",");
			}
			line.append(" " + n + " times, the last one is " + last);
			System.out.println(line);
		}
	}
}
JAVA
java -cp 'jars/*' Ask.java >seen
cat seen

diff seen - <<'WANT'
FREQ=MINUTELY;BYDAY=MO;BYHOUR=9: IllegalArgumentException: too many empty recurrence sets, 59 times, the last one is 20270104T095800Z
FREQ=HOURLY;BYMONTH=6;BYHOUR=9: IllegalArgumentException: too many empty recurrence sets, 29 times, the last one is 20270629T090000Z
WANT

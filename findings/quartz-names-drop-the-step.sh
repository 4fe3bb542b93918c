#!/usr/bin/env bash
# Quartz 2.5.2 (Java): the step after a name of a day or month is dropped without an error.
#
# Expected: names are other spellings of numbers, so MON-FRI/2 is 2-6/2 (Monday, Wednesday, Friday), and
# JAN/3 is 1/3 (January, April, July, October). "MON,FRI#2" should be Mondays and the second Friday, or be
# refused.
# Seen: MON-FRI/2 fires on all five days, JAN/3 in January only, and "MON,FRI#2" on the second Monday only:
# the number after # is applied to all days of the list, and Friday is lost.
# Why it matters: the expression is accepted, so a quarterly job becomes a yearly one, and the error is
# noticed months later. Before expressions are moved to or from Quartz, names with a step have to be written
# as numbers.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.quartz-scheduler</groupId><artifactId>quartz</artifactId><version>2.5.2</version>
  </dependency></dependencies>
</project>
POM
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
mvn -q -B $plugin:copy-dependencies -DoutputDirectory=lib >mvn.log 2>&1 || { cat mvn.log; exit 2; }

cat >Next.java <<'JAVA'
import java.text.SimpleDateFormat;
import java.time.Instant;
import java.util.Date;
import java.util.Locale;
import java.util.TimeZone;
import org.quartz.CronExpression;

public class Next {
    public static void main(String[] expressions) throws Exception {
        TimeZone utc = TimeZone.getTimeZone("UTC");
        SimpleDateFormat format = new SimpleDateFormat("EEE yyyy-MM-dd", Locale.US);
        format.setTimeZone(utc);
        for (String expression : expressions) {
            CronExpression cron = new CronExpression(expression);
            cron.setTimeZone(utc);
            StringBuilder line = new StringBuilder(expression).append(':');
            Date at = Date.from(Instant.parse("2027-02-01T00:00:00Z"));
            for (int i = 0; i < 4; i++) {
                at = cron.getNextValidTimeAfter(at);
                line.append(' ').append(format.format(at));
            }
            System.out.println(line);
        }
    }
}
JAVA
java -cp 'lib/*' Next.java '0 0 9 ? * MON-FRI/2' '0 0 9 ? * 2-6/2' '0 0 9 1 JAN/3 ?' '0 0 9 1 1/3 ?' \
	'0 0 9 ? * MON,FRI#2' 2>java.log >seen || { cat java.log; exit 2; }
cat seen

diff seen - <<'WANT'
0 0 9 ? * MON-FRI/2: Mon 2027-02-01 Tue 2027-02-02 Wed 2027-02-03 Thu 2027-02-04
0 0 9 ? * 2-6/2: Mon 2027-02-01 Wed 2027-02-03 Fri 2027-02-05 Mon 2027-02-08
0 0 9 1 JAN/3 ?: Sat 2028-01-01 Mon 2029-01-01 Tue 2030-01-01 Wed 2031-01-01
0 0 9 1 1/3 ?: Thu 2027-04-01 Thu 2027-07-01 Fri 2027-10-01 Sat 2028-01-01
0 0 9 ? * MON,FRI#2: Mon 2027-02-08 Mon 2027-03-08 Mon 2027-04-12 Mon 2027-05-10
WANT

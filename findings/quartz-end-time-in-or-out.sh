#!/usr/bin/env bash
# Quartz 2.5.2 (Java): whether a trigger fires at its end time depends on the kind of its schedule.
#
# Expected: the documentation of endAt has the time at which a trigger will no longer fire. Whether that very instant is
# in or out, it is the same for each schedule, and getFinalFireTime tells the last fire.
# Seen: five hourly triggers from 09:00 to 12:00. With a cron schedule or a daily time interval there is a fire at
# 12:00; with a simple schedule (even one of four fires) or a calendar interval the last is at 11:00. For these two,
# getFinalFireTime is 12:00 nevertheless, and for the daily time interval it is 23:59 (and 59 seconds).
# Why it matters: periods end on full hours and at midnight, just when something is due. Who rewrites "every 24 hours"
# as a cron expression bills one day more, and work that waits for the final fire, to close an account, is never done.
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

cat >Fires.java <<'JAVA'
import static org.quartz.CalendarIntervalScheduleBuilder.calendarIntervalSchedule;
import static org.quartz.CronScheduleBuilder.cronSchedule;
import static org.quartz.DailyTimeIntervalScheduleBuilder.dailyTimeIntervalSchedule;

import java.time.Instant;
import java.util.Date;
import org.quartz.ScheduleBuilder;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.spi.OperableTrigger;

public class Fires {
    public static void main(String[] args) {
        list("cron", cronSchedule("0 0 * * * ?"));
        list("daily time interval", dailyTimeIntervalSchedule().withIntervalInHours(1));
        list("simple", SimpleScheduleBuilder.repeatHourlyForever());
        list("simple, four times", SimpleScheduleBuilder.repeatHourlyForTotalCount(4));
        list("calendar interval", calendarIntervalSchedule().withIntervalInHours(1));
    }

    static void list(String name, ScheduleBuilder<? extends Trigger> schedule) {
        var trigger = (OperableTrigger) TriggerBuilder.newTrigger().withIdentity(name).withSchedule(schedule)
            .startAt(Date.from(Instant.parse("2027-02-01T09:00:00Z")))
            .endAt(Date.from(Instant.parse("2027-02-01T12:00:00Z"))).build();
        var line = new StringBuilder(name).append(':');
        trigger.computeFirstFireTime(null);
        var last = hour(trigger.getFinalFireTime());
        while (trigger.getNextFireTime() != null) { // what the scheduler does at each fire
            line.append(' ').append(hour(trigger.getNextFireTime()));
            trigger.triggered(null);
        }
        System.out.println(line + ", final " + last);
    }

    static String hour(Date at) {
        return at.toInstant().toString().substring(11, 16);
    }
}
JAVA
java -Duser.timezone=UTC -cp 'lib/*' Fires.java 2>java.log >seen || { cat java.log; exit 2; }
cat seen

diff seen - <<'WANT'
cron: 09:00 10:00 11:00 12:00, final 12:00
daily time interval: 09:00 10:00 11:00 12:00, final 23:59
simple: 09:00 10:00 11:00, final 12:00
simple, four times: 09:00 10:00 11:00, final 12:00
calendar interval: 09:00 10:00 11:00, final 12:00
WANT

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.text.ParseException;
import java.time.Instant;
import java.util.Date;
import java.util.StringJoiner;
import java.util.TimeZone;
import org.quartz.CronExpression;

public class Ask {
	public static void main(String[] args) throws Exception {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		for (String line; (line = in.readLine()) != null;) {
			String[] q = line.split("\\|");
			StringJoiner out = new StringJoiner(" ");
			try {
				CronExpression expression = new CronExpression(q[0]);
				expression.setTimeZone(TimeZone.getTimeZone(q[1]));
				Date at = Date.from(Instant.parse(q[2]));
				for (int i = 0; i < 6 && (at = expression.getNextValidTimeAfter(at)) != null; i++) {
					out.add(at.toInstant().toString());
				}
			} catch (ParseException | IllegalArgumentException e) {
				out = new StringJoiner(" ").add("refused " + String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
			}
			System.out.println(out);
		}
	}
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.util.StringJoiner;
import org.springframework.scheduling.support.CronExpression;

public class Ask {
	public static void main(String[] args) throws Exception {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		for (String line; (line = in.readLine()) != null;) {
			String[] q = line.split("\\|");
			StringJoiner out = new StringJoiner(" ");
			try {
				CronExpression expression = CronExpression.parse(q[0]);
				ZonedDateTime at = Instant.parse(q[2]).atZone(ZoneId.of(q[1]));
				for (int i = 0; i < 6 && (at = expression.next(at)) != null; i++) {
					out.add(at.toInstant().toString());
				}
			} catch (IllegalArgumentException e) {
				out = new StringJoiner(" ").add("refused " + e.getMessage().replaceAll("\\s+", " "));
			}
			System.out.println(out);
		}
	}
}

import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.DefaultApi;
import org.openapitools.client.model.Complete;
import org.openapitools.client.model.CreateTimer;
import org.openapitools.client.model.Debounce;
import org.openapitools.client.model.Fire;
import org.openapitools.client.model.Poll;
import org.openapitools.client.model.PutTimer;
import org.openapitools.client.model.State;
import org.openapitools.client.model.Timer;

/** A program with the client that openapi-generator makes for Java. */
public class Check {
    static final String NS = "java";

    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            ApiClient client = new ApiClient();
            client.updateBaseUri(url);
            check(new DefaultApi(client));
        }
    }

    static void check(DefaultApi api) throws Exception {
        Timer made = api.createTimer(NS, new CreateTimer().name("a/b:c").schedule("@after 1h").target("stream:none").payload(Map.of("n", 1)), null);
        must(made.getState() == State.SCHEDULED && made.getRevision() > 0 && made.getGeneration() > 0 && made.getDue() != null, made);
        List<Timer> list = api.listTimers(NS, null, null, null, List.of(State.SCHEDULED), null, null, null, null, null, null, null, null, null).getTimers();
        must(list.size() == 1 && list.get(0).getRevision().equals(made.getRevision()) && list.get(0).getPayload().equals(Map.of("n", 1)), list);

        PutTimer put = new PutTimer().schedule("@after 2h").target("stream:none").expectedRevision(made.getRevision());
        Timer replaced = api.putTimer(NS, "a/b:c", put, null, null, null);
        must(replaced.getRevision() > made.getRevision(), replaced);
        try {
            must(false, api.putTimer(NS, "a/b:c", put, null, null, null));
        } catch (ApiException e) {
            must(e.getCode() == 409, e);
        }

        api.createTimer(NS, new CreateTimer().name("soon").schedule("@after 1s").target("stream:java"), null);
        Fire fire = poll(api, "soon");
        must(fire.getPayload() == null && fire.getContentType() == null, fire);
        api.completeFire(NS, fire.getName(), fire.getFireId(), new Complete().token(fire.getToken()), null);

        for (int i = 0; i < 2; i++) {
            api.createTimer(NS, new CreateTimer().name("calm").target("stream:java").debounce(new Debounce().quiet("1s")), null);
        }
        poll(api, "calm");
    }

    static Fire poll(DefaultApi api, String name) throws Exception {
        List<Fire> fires = api.pollFires(NS, new Poll().channel("java")).getFires();
        must(fires.size() == 1 && fires.get(0).getName().equals(name) && fires.get(0).getToken() > 0, fires);
        return fires.get(0);
    }

    static void must(boolean right, Object what) {
        if (!right) {
            throw new IllegalStateException(String.valueOf(what));
        }
    }
}

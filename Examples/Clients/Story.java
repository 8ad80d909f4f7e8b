import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URL;
import java.net.URLConnection;
import java.util.Set;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.DevicesApi;
import org.openapitools.client.api.NotificationsApi;
import org.openapitools.client.model.*;

/** The Java client that OpenAPI Generator makes: registers a device, sends to its user, and reads the story of the message. */
public class Story {
    private static final Set<State> UNDER_WAY = Set.of(State.QUEUED, State.SCHEDULED, State.SENDING, State.RETRYING);

    /** Sends a notification once, also when an answer is lost: every attempt has the same key. */
    static Accepted send(NotificationsApi api, Notification notification, String key) throws Exception {
        ApiException failure = null;
        for (long pause : new long[] {1, 2, 4, 8, 16, 0}) {
            try {
                return api.sendNotification(notification, key);
            } catch (ApiException error) {
                failure = error;
                if (error.getCode() != 0 && !isRetryable(error.getResponseBody())) {
                    throw error;
                }
                pause = Math.max(pause, retryAfter(error));
            }
            Thread.sleep(pause * 1000);
        }
        throw failure;
    }

    private static boolean isRetryable(String body) {
        try {
            return Problem.fromJson(body).getRetryable();
        } catch (IOException | RuntimeException error) {
            return true; // A proxy's page, not the gateway's answer.
        }
    }

    private static long retryAfter(ApiException error) {
        if (error.getResponseHeaders() == null) {
            return 0;
        }
        return error.getResponseHeaders().entrySet().stream()
                .filter(field -> field.getKey().equalsIgnoreCase("Retry-After"))
                .mapToLong(field -> Long.parseLong(field.getValue().get(0))).findFirst().orElse(0);
    }

    public static void main(String[] arguments) throws Exception {
        ApiClient client = new ApiClient();
        client.setBasePath(System.getenv("CHAPAR_URL"));
        client.setBearerToken(System.getenv("CHAPAR_KEY"));
        NotificationsApi notifications = new NotificationsApi(client);

        DeviceTokens tokens = new DeviceTokens().iosApns(new DeviceToken("abcdef12"));
        Device device = new DevicesApi(client).putDevice("phone-1", new DeviceInput().user("ali").tokens(tokens), null);
        System.out.println("registered " + device.getId());

        Content content = new Content().title(new Text("Order 42")).body(new Text("is on its way"));
        // The generator makes an empty list of each that is not set: null leaves it out.
        Audience ali = new Audience().addUsersItem("ali").tokens(null).devices(null).platformIds(null);
        Notification notification = new Notification().to(ali).content(content);
        String id = send(notifications, notification, UUID.randomUUID().toString()).getId();
        System.out.println("accepted " + id);

        StoredNotification story = notifications.getNotification(id);
        while (UNDER_WAY.contains(story.getStatus())) {
            Thread.sleep(200);
            story = notifications.getNotification(id);
        }
        System.out.println("status " + story.getStatus() + " " + story.getCounts());
        for (Delivery delivery : notifications.listDeliveries(id, null, null, null).getItems()) {
            System.out.println("delivery " + delivery.getState() + " " + delivery.getAttempts().get(0).getOutcome());
        }

        // A stream has no end: read it line by line.
        URLConnection stream = new URL(client.getBasePath() + "/v1/events?last=100&types=delivery.*").openConnection();
        stream.setRequestProperty("Authorization", "Bearer " + System.getenv("CHAPAR_KEY"));
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(stream.getInputStream(), "UTF-8"))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("data:")) {
                    JsonObject event = JsonParser.parseString(line.substring(5)).getAsJsonObject();
                    if (event.get("notification").getAsString().equals(id)) {
                        System.out.println("event " + event.get("type").getAsString());
                        break;
                    }
                }
            }
        }
        client.getHttpClient().dispatcher().executorService().shutdown();
        client.getHttpClient().connectionPool().evictAll();
    }
}

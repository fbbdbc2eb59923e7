import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Writes to a running quorum through Kafka's own client: a line on standard input is a number, and
 * that many configs are set, each a record of its own; a line on standard output says when they
 * are committed. One virtual machine so serves a whole test. It ends with its input.
 *
 * <p>Call: Writer HOST:PORT,…
 */
final class Writer {
    private static final String PADDING = "x".repeat(200);

    private Writer() {}

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.controllers", args[0]);
        try (Admin admin = Admin.create(settings);
                Scanner lines = new Scanner(System.in)) {
            int written = 0;
            System.out.println("ready");
            while (lines.hasNextInt()) {
                int wanted = lines.nextInt();
                while (wanted > 0) {
                    int now = Math.min(wanted, 50);
                    set(admin, written, now);
                    written += now;
                    wanted -= now;
                }
                System.out.println(written);
            }
        }
    }

    private static void set(Admin admin, int first, int count) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
        for (int one = first; one < first + count; one++) {
            var named = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, one % 100 + PADDING);
            var entry = new ConfigEntry("interval.ms", String.valueOf(1000 + one));
            changes.put(named, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)));
        }
        // A leader may be gone for longer than the client repeats by itself.
        for (int attempt = 1; ; attempt++) {
            try {
                admin.incrementalAlterConfigs(changes).all().get();
                return;
            } catch (ExecutionException error) {
                if (attempt == 5) {
                    throw error;
                }
            }
        }
    }
}

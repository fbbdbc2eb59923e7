import java.time.Duration;
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

    private final Map<String, Object> settings;
    private Admin admin;
    private int written;

    private Writer(String addresses) {
        // A call ends long before the deadline below, so that another client can try again.
        settings =
                Map.of(
                        "bootstrap.controllers", addresses,
                        "request.timeout.ms", 5_000,
                        "default.api.timeout.ms", 10_000);
        admin = Admin.create(settings);
    }

    public static void main(String[] args) throws Exception {
        Writer writer = new Writer(args[0]);
        try (Scanner lines = new Scanner(System.in)) {
            System.out.println("ready");
            while (lines.hasNextInt()) {
                writer.write(lines.nextInt());
                System.out.println(writer.written);
            }
        }
        writer.admin.close();
    }

    private void write(int count) throws Exception {
        int end = written + count;
        while (written < end) {
            int now = Math.min(end - written, 50);
            set(now);
            written += now;
        }
    }

    /** A quorum may be without a leader for longer than the client repeats by itself. */
    private void set(int count) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
        for (int one = written; one < written + count; one++) {
            var named = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, one % 100 + PADDING);
            var entry = new ConfigEntry("interval.ms", String.valueOf(1000 + one));
            changes.put(named, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)));
        }
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (true) {
            try {
                admin.incrementalAlterConfigs(changes).all().get();
                return;
            } catch (ExecutionException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
            }
            // A client that met a controller that has just started never asks another one.
            Thread.sleep(200);
            admin.close(Duration.ZERO);
            admin = Admin.create(settings);
        }
    }
}

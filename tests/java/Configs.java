import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;

/**
 * Prints which configs Kafka declares not to be sensitive: a JSON object from the number of a
 * resource type to the sorted names. Topics and brokers are those of the schema by which Kafka's
 * own tools redact; groups and client metrics have definitions of their own. A name that none of
 * them holds is sensitive for Kafka. With `numbers` instead a JSON object from the name of each
 * number that a broker or controller takes to its type, its default, and what else it must be. With
 * `taken` a JSON array: whether a topic takes each of these values for the name before it.
 *
 * <p>Call: Configs [numbers | taken [NAME VALUE]...]
 */
final class Configs {
    private Configs() {}

    public static void main(String[] args) throws ReflectiveOperationException {
        Map<ConfigResource.Type, ConfigDef> definitions = new TreeMap<>(schema());
        if (args.length > 0 && args[0].equals("taken")) {
            System.out.println(taken(definitions.get(ConfigResource.Type.TOPIC), args));
            return;
        }
        if (args.length > 0) {
            System.out.println(numbers(definitions.get(ConfigResource.Type.BROKER)));
            return;
        }
        definitions.put(ConfigResource.Type.GROUP, GroupConfig.CONFIG_DEF);
        definitions.put(ConfigResource.Type.CLIENT_METRICS, ClientMetricsConfigs.configDef());
        StringBuilder json = new StringBuilder();
        definitions.forEach((type, definition) -> {
            json.append(json.isEmpty() ? "{" : ", ");
            json.append('"').append(type.id()).append("\": [");
            json.append(String.join(", ", openNames(definition))).append(']');
        });
        System.out.println(json.append('}'));
    }

    @SuppressWarnings("unchecked")
    private static Map<ConfigResource.Type, ConfigDef> schema()
            throws ReflectiveOperationException {
        Field field = KafkaConfigSchema.class.getDeclaredField("configDefs");
        field.setAccessible(true);
        return (Map<ConfigResource.Type, ConfigDef>) field.get(KafkaRaftServer.configSchema());
    }

    private static String numbers(ConfigDef definition) {
        TreeSet<String> rows = new TreeSet<>();
        definition.configKeys().forEach((name, key) -> {
            if (key.type == ConfigDef.Type.INT || key.type == ConfigDef.Type.LONG) {
                rows.add(String.format(
                        "\"%s\": [\"%s\", \"%s\", \"%s\"]",
                        name, key.type, key.defaultValue, key.validator));
            }
        });
        return "{" + String.join(", ", rows) + "}";
    }

    private static List<Boolean> taken(ConfigDef definition, String[] args) {
        List<Boolean> taken = new ArrayList<>();
        for (int at = 1; at < args.length; at += 2) {
            try {
                definition.parse(Map.of(args[at], args[at + 1]));
                taken.add(true);
            } catch (ConfigException refused) {
                taken.add(false);
            }
        }
        return taken;
    }

    private static TreeSet<String> openNames(ConfigDef definition) {
        TreeSet<String> names = new TreeSet<>();
        definition.configKeys().forEach((name, key) -> {
            if (!key.type.isSensitive()) {
                names.add('"' + name + '"');
            }
        });
        return names;
    }
}

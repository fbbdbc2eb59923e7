import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Uuid;

/**
 * Does what an operator does to a running cluster, through Kafka's own client: a line on standard
 * input is a command, a line on standard output its answer, "error: …" where it was refused.
 *
 * <p>create NAME ASSIGNMENT (brokers of each partition: 11,12;12,11), delete NAME, topics, describe
 * NAME, voters, remove-voter ID DIRECTORY.
 *
 * <p>Call: Operator bootstrap.servers|bootstrap.controllers HOST:PORT,…
 */
final class Operator {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings =
                Map.of(args[0], args[1], "request.timeout.ms", 10_000, "default.api.timeout.ms", 30_000);
        try (Admin admin = Admin.create(settings);
                Scanner lines = new Scanner(System.in)) {
            System.out.println("ready");
            while (lines.hasNextLine()) {
                System.out.println(answer(admin, lines.nextLine().split(" ")));
            }
        }
    }

    private static String answer(Admin admin, String[] words) {
        try {
            return done(admin, words);
        } catch (Exception error) {
            return "error: " + (error.getCause() == null ? error : error.getCause());
        }
    }

    private static String done(Admin admin, String[] words) throws Exception {
        switch (words[0]) {
            case "create" -> admin.createTopics(List.of(topic(words[1], words[2]))).all().get();
            case "delete" -> admin.deleteTopics(List.of(words[1])).all().get();
            case "topics" -> {
                return String.join(" ", new TreeSet<>(admin.listTopics().names().get()));
            }
            case "describe" -> {
                var found = admin.describeTopics(List.of(words[1])).allTopicNames().get().get(words[1]);
                return found.partitions().stream()
                        .map(one -> one.partition() + ":" + (one.leader() == null ? -1 : one.leader().id()))
                        .collect(Collectors.joining(" "));
            }
            case "voters" -> {
                var quorum = admin.describeMetadataQuorum().quorumInfo().get();
                return quorum.voters().stream()
                        .map(one -> String.valueOf(one.replicaId()))
                        .collect(Collectors.joining(" "));
            }
            case "remove-voter" ->
                    admin.removeRaftVoter(Integer.parseInt(words[1]), Uuid.fromString(words[2])).all().get();
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "done";
    }

    private static NewTopic topic(String name, String assignment) {
        var replicas = new TreeMap<Integer, List<Integer>>();
        for (String one : assignment.split(";")) {
            replicas.put(
                    replicas.size(), Arrays.stream(one.split(",")).map(Integer::valueOf).toList());
        }
        return new NewTopic(name, replicas);
    }
}

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Works on a running cluster at random, through Kafka's own client, until its time is over: topics
 * come, grow, move and go, configs, ACLs, quotas, credentials, features and producers with them,
 * brokers are unregistered, their disks cordoned, replicas move between these, delegation tokens are
 * given and expire, controllers join the voters and leave them. What is refused is printed and passed
 * over. Who is authenticated is {@code admin}; its password and every secret that is set begin with
 * {@code sesame}.
 *
 * <p>Call: Work HOST:PORT,… SEED BROKER,… SECONDS CONTROLLER=HOST:PORT,… HOST:PORT,…, the last of
 * them listeners of SASL/PLAIN.
 */
final class Work {
    private static final String[] FEATURES = {
        "transaction.version", "group.version", "share.version", "streams.version", "metadata.version",
        "eligible.leader.replicas.version"
    };

    private static final String LOGIN =
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
                    + " username=\"admin\" password=\"sesame\";";

    private final String addresses;
    private final Random random;
    private final List<Integer> brokers;
    private final Map<Integer, RaftVoterEndpoint> controllers = new HashMap<>();
    private final List<byte[]> tokens = new ArrayList<>();
    private final Admin admin;
    private final Admin authenticated;

    private Work(String addresses, long seed, List<Integer> brokers, String controllers, String authenticating) {
        this.addresses = addresses;
        this.random = new Random(seed);
        this.brokers = brokers;
        for (String one : controllers.split(",")) {
            String[] words = one.split("[=:]");
            this.controllers.put(
                    Integer.valueOf(words[0]), new RaftVoterEndpoint("CONTROLLER", words[1], Integer.parseInt(words[2])));
        }
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", addresses);
        settings.put("request.timeout.ms", 6_000);
        settings.put("default.api.timeout.ms", 8_000);
        this.admin = Admin.create(settings);
        settings.put("bootstrap.servers", authenticating);
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("sasl.jaas.config", LOGIN);
        this.authenticated = Admin.create(settings);
    }

    public static void main(String[] args) {
        List<Integer> brokers = Arrays.stream(args[2].split(",")).map(Integer::valueOf).toList();
        Work work = new Work(args[0], Long.parseLong(args[1]), brokers, args[4], args[5]);
        long deadline = System.nanoTime() + Long.parseLong(args[3]) * 1_000_000_000L;
        while (System.nanoTime() < deadline) {
            int chosen = work.random.nextInt(25);
            try {
                work.step(chosen);
                System.out.println("done " + chosen);
            } catch (Exception error) {
                System.out.println(chosen + ": " + (error.getCause() == null ? error : error.getCause()));
            }
        }
        // A client that waits for a broker that is down would not let it end.
        Runtime.getRuntime().halt(0);
    }

    private void step(int chosen) throws Exception {
        switch (chosen) {
            case 0, 1, 2 -> create();
            case 3 -> admin.deleteTopics(List.of(topic(), topic())).all().get();
            case 4 -> admin.createPartitions(Map.of(topic(), NewPartitions.increaseTo(4 + random.nextInt(8)))).all().get();
            case 5 -> reassign();
            case 6 -> elect();
            case 7 -> set(ConfigResource.Type.TOPIC, topic(), "min.insync.replicas", "" + (1 + random.nextInt(3)));
            case 8 -> set(ConfigResource.Type.BROKER, random.nextBoolean() ? "" : "" + broker(), "min.insync.replicas", "" + (1 + random.nextInt(2)));
            case 9 -> set(ConfigResource.Type.GROUP, "g" + random.nextInt(5), "consumer.session.timeout.ms", "" + (45_000 + random.nextInt(5_000)));
            case 10, 11 -> acl();
            case 12 -> quota();
            case 13 -> credential();
            case 14 -> feature();
            case 15 -> produce();
            case 16 -> set(ConfigResource.Type.CLIENT_METRICS, "c" + random.nextInt(3), "interval.ms", "" + (1_000 + random.nextInt(9_000)));
            case 17 -> voters();
            case 18 -> unregister();
            case 19, 20 -> token();
            case 21 -> set(ConfigResource.Type.BROKER, "" + broker(), "listener.name.sasl.ssl.keystore.password", "sesame" + random.nextInt());
            case 22 -> set(ConfigResource.Type.BROKER, "" + broker(), "cordoned.log.dirs", random.nextInt(3) == 0 ? "*" : "");
            case 23 -> move();
            default -> Thread.sleep(random.nextInt(400));
        }
    }

    private String topic() {
        return "t" + random.nextInt(30);
    }

    private int broker() {
        return brokers.get(random.nextInt(brokers.size()));
    }

    private List<Integer> some(int count) {
        List<Integer> all = new ArrayList<>(brokers);
        Collections.shuffle(all, random);
        return List.copyOf(all.subList(0, count));
    }

    private void create() throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int one = 0; one <= random.nextInt(4); one++) {
            int replicas = 1 + random.nextInt(brokers.size());
            Map<Integer, List<Integer>> assigned = new HashMap<>();
            for (int partition = 0; partition <= random.nextInt(6); partition++) {
                assigned.put(partition, some(replicas));
            }
            NewTopic topic = new NewTopic(topic(), assigned);
            if (random.nextBoolean()) {
                topic.configs(
                        Map.of("retention.ms", "" + random.nextInt(100_000), "min.insync.replicas", "" + (1 + random.nextInt(2))));
            }
            topics.add(topic);
        }
        admin.createTopics(topics).all().get();
    }

    private void reassign() throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> moves = new HashMap<>();
        String topic = topic();
        for (int partition = 0; partition < 3; partition++) {
            var target = new NewPartitionReassignment(some(1 + random.nextInt(brokers.size())));
            moves.put(new TopicPartition(topic, partition), random.nextInt(4) == 0 ? Optional.empty() : Optional.of(target));
        }
        admin.alterPartitionReassignments(moves).all().get();
    }

    /** A controller that is no voter becomes one; or a voter becomes none, where others stay. */
    private void voters() throws Exception {
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        for (QuorumInfo.ReplicaState one : quorum.observers()) {
            var endpoint = controllers.get(one.replicaId());
            if (endpoint != null && random.nextBoolean()) {
                admin.addRaftVoter(one.replicaId(), one.replicaDirectoryId(), Set.of(endpoint)).all().get();
                return;
            }
        }
        var voter = quorum.voters().get(random.nextInt(quorum.voters().size()));
        if (quorum.voters().size() > 2) {
            admin.removeRaftVoter(voter.replicaId(), voter.replicaDirectoryId()).all().get();
        }
    }

    /** A broker is unregistered, at times, whether it runs or not. */
    private void unregister() throws Exception {
        if (random.nextInt(20) == 0) {
            admin.unregisterBroker(broker()).all().get();
        }
    }

    /** A token of the one that is authenticated is given, renewed, or expires. */
    private void token() throws Exception {
        if (tokens.isEmpty() || random.nextInt(3) == 0) {
            var renewer = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "r" + random.nextInt(3));
            var options = new CreateDelegationTokenOptions().renewers(List.of(renewer)).maxLifetimeMs(60_000 + random.nextInt(600_000));
            tokens.add(authenticated.createDelegationToken(options).delegationToken().get().hmac());
            return;
        }
        byte[] token = tokens.get(random.nextInt(tokens.size()));
        if (random.nextBoolean()) {
            var options = new RenewDelegationTokenOptions().renewTimePeriodMs(random.nextInt(100_000));
            authenticated.renewDelegationToken(token, options).expiryTimestamp().get();
        } else {
            var options = new ExpireDelegationTokenOptions().expiryTimePeriodMs(random.nextInt(10_000) - 5_000L);
            authenticated.expireDelegationToken(token, options).expiryTimestamp().get();
        }
    }

    /** A replica goes to another of its broker's disks. */
    private void move() throws Exception {
        int broker = broker();
        var disks = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        List<TopicPartition> held = new ArrayList<>();
        disks.values().forEach(disk -> held.addAll(disk.replicaInfos().keySet()));
        TopicPartition moved = held.get(random.nextInt(held.size()));
        String target = List.copyOf(disks.keySet()).get(random.nextInt(disks.size()));
        var replica = new TopicPartitionReplica(moved.topic(), moved.partition(), broker);
        admin.alterReplicaLogDirs(Map.of(replica, target)).all().get();
    }

    private void elect() throws Exception {
        Set<TopicPartition> partitions = new HashSet<>();
        String topic = topic();
        for (int partition = 0; partition < 3; partition++) {
            partitions.add(new TopicPartition(topic, partition));
        }
        var type = random.nextInt(3) == 0 ? ElectionType.UNCLEAN : ElectionType.PREFERRED;
        admin.electLeaders(type, partitions).all().get();
    }

    private void set(ConfigResource.Type type, String name, String key, String value) throws Exception {
        var operation = random.nextInt(3) == 0 ? OpType.DELETE : OpType.SET;
        var change = new AlterConfigOp(new ConfigEntry(key, value), operation);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(change))).all().get();
    }

    private void acl() throws Exception {
        var type = random.nextBoolean() ? ResourceType.TOPIC : ResourceType.GROUP;
        var pattern = new ResourcePattern(type, "t" + random.nextInt(5), random.nextBoolean() ? PatternType.LITERAL : PatternType.PREFIXED);
        var operation = random.nextBoolean() ? AclOperation.READ : AclOperation.WRITE;
        var entry = new AccessControlEntry("User:u" + random.nextInt(3), "*", operation, AclPermissionType.ALLOW);
        AclBinding binding = new AclBinding(pattern, entry);
        if (random.nextInt(3) == 0) {
            admin.deleteAcls(List.of(binding.toFilter())).all().get();
        } else {
            admin.createAcls(List.of(binding)).all().get();
        }
    }

    private void quota() throws Exception {
        Map<String, String> entity = new HashMap<>();
        boolean isIp = random.nextInt(4) == 0;
        if (isIp) {
            entity.put("ip", "127.0.0." + random.nextInt(4));
        } else {
            entity.put("user", random.nextInt(4) == 0 ? null : "u" + random.nextInt(4));
        }
        Double value = random.nextInt(3) == 0 ? null : 100.0 + random.nextInt(1000);
        var change = new ClientQuotaAlteration.Op(isIp ? "connection_creation_rate" : "producer_byte_rate", value);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(change)))).all().get();
    }

    private void credential() throws Exception {
        String user = "s" + random.nextInt(4);
        var mechanism = random.nextBoolean() ? ScramMechanism.SCRAM_SHA_256 : ScramMechanism.SCRAM_SHA_512;
        UserScramCredentialAlteration change =
                random.nextInt(3) == 0
                        ? new UserScramCredentialDeletion(user, mechanism)
                        : new UserScramCredentialUpsertion(user, new ScramCredentialInfo(mechanism, 4096), "pw" + random.nextInt());
        admin.alterUserScramCredentials(List.of(change)).all().get();
    }

    private void feature() throws Exception {
        String name = FEATURES[random.nextInt(FEATURES.length)];
        short level = (short) (name.equals("metadata.version") ? 17 + random.nextInt(17) : random.nextInt(3));
        UpgradeType type = level == 0 ? UpgradeType.UNSAFE_DOWNGRADE : UpgradeType.UPGRADE;
        admin.updateFeatures(Map.of(name, new FeatureUpdate(level, type)), new UpdateFeaturesOptions()).all().get();
    }

    private void produce() throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", addresses);
        settings.put("max.block.ms", 5_000);
        if (random.nextBoolean()) {
            settings.put("transactional.id", "tx" + random.nextInt(1000));
        }
        var bytes = new ByteArraySerializer();
        var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes);
        try {
            boolean isTransactional = settings.containsKey("transactional.id");
            if (isTransactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            producer.send(new ProducerRecord<>(topic(), new byte[10])).get(5, TimeUnit.SECONDS);
            if (isTransactional) {
                producer.commitTransaction();
            }
        } finally {
            producer.close(java.time.Duration.ofSeconds(1));
        }
    }
}

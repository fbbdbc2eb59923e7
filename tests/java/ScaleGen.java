import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.metadata.ClientQuotaRecord.EntityData;
import org.apache.kafka.common.metadata.RegisterBrokerRecord.*;
import org.apache.kafka.common.metadata.RegisterControllerRecord.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.image.*;
import org.apache.kafka.image.writer.*;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.raft.internals.BatchBuilder;
import org.apache.kafka.server.common.*;
import org.apache.kafka.snapshot.*;

/**
 * Writes a realistic __cluster_metadata-0 partition (segments + snapshots) with Kafka's own classes.
 *
 *   java -cp 'classes:libs/*' ScaleGen OUT_DIR key=value ...
 *     size=100M  brokers=200 topics=5000 partitions=200000 segment=128M snapshotEvery=50M
 *     seed=1  noops=2 (no-op batches per churn event)  wave=500 (records per batch in a wave)
 *     codec=none|gzip|snappy|lz4|zstd  lateNoise=true|false
 */
public class ScaleGen {
    static final MetadataVersion MV = MetadataVersion.latestProduction();
    static final short PART_V = MV.partitionRecordVersion(), CHANGE_V = MV.partitionChangeRecordVersion();
    static final short BROKER_V = MV.registerBrokerRecordVersion();
    static final short REGCHANGE_V = (short) (MV.isCordonedLogDirsSupported() ? 3 : 2);
    static final int MAX_BATCH = 8 << 20;

    // ---------------------------------------------------------------- log writer
    final Path dir; final long segmentBytes, snapshotEvery; final int wave; final Compression codec;
    FileChannel out; long offset = 0, inSegment = 0, total = 0, sinceSnapshot = 0, batches = 0, snapshots = 0;
    int epoch = 1; long now = 1767225600000L;                       // 2026-01-01T00:00Z
    MetadataImage image = MetadataImage.EMPTY;
    MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
    final ByteBuffer buf = ByteBuffer.allocate(MAX_BATCH);
    final VoterSet voters; final List<Uuid> voterDirs = new ArrayList<>();
    final SplittableRandom rnd;
    final Map<String, Long> counts = new TreeMap<>();

    ScaleGen(Path dir, Map<String, String> o) throws IOException {
        this.dir = Files.createDirectories(dir);
        segmentBytes = bytes(o.getOrDefault("segment", "128M"));
        snapshotEvery = bytes(o.getOrDefault("snapshotEvery", "50M"));
        wave = Integer.parseInt(o.getOrDefault("wave", "500"));
        codec = Compression.of(o.getOrDefault("codec", "none")).build();
        rnd = new SplittableRandom(Long.parseLong(o.getOrDefault("seed", "1")));
        var v = new VotersRecord().setVersion((short) 0);
        for (int i = 0; i < 3; i++) {
            var endpoints = new VotersRecord.EndpointCollection(1);
            endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("controller-" + i).setPort(9093));
            voterDirs.add(uuid());
            v.voters().add(new VotersRecord.Voter().setVoterId(9000 + i).setVoterDirectoryId(voterDirs.get(i)).setEndpoints(endpoints)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature().setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1)));
        }
        voters = VoterSet.fromVotersRecord(v);
    }

    Uuid uuid() { return new Uuid((rnd.nextLong() & ~0xF000L) | 0x4000L, (rnd.nextLong() & 0x3FFFFFFFFFFFFFFFL) | 0x8000000000000000L); }

    void write(ByteBuffer b) throws IOException {
        if (out == null || inSegment + b.remaining() > segmentBytes) {
            if (out != null) out.close();
            out = FileChannel.open(dir.resolve("%020d.log".formatted(offset)), StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
            inSegment = 0;
        }
        int n = b.remaining();
        while (b.hasRemaining()) out.write(b);
        inSegment += n; total += n; sinceSnapshot += n; batches++;
    }

    /** One controller-leader change: the control batch that opens an epoch. */
    void leaderChange(int leader) throws IOException {
        var m = new LeaderChangeMessage().setVersion((short) 0).setLeaderId(leader);   // Kafka 4.3 always writes version 0
        for (int i = 0; i < 3; i++) {
            m.voters().add(new LeaderChangeMessage.Voter().setVoterId(9000 + i));
            if (i < 2) m.grantingVoters().add(new LeaderChangeMessage.Voter().setVoterId(9000 + i));
        }
        write(MemoryRecords.withLeaderChangeMessage(offset, now, epoch, ByteBuffer.allocate(1024), m).buffer());
        offset++;
        counts.merge("(leader change)", 1L, Long::sum);
    }

    /** One data batch, as KafkaRaftClient's BatchAccumulator would write it. */
    void batch(List<ApiMessageAndVersion> records) throws IOException {
        if (records.isEmpty()) return;
        buf.clear();
        var builder = new BatchBuilder<ApiMessageAndVersion>(buf, MetadataRecordSerde.INSTANCE, codec, offset, now, epoch, MAX_BATCH);
        for (var r : records) {
            builder.appendRecord(r, new ObjectSerializationCache());
            delta.replay(r.message());
            counts.merge(r.message().getClass().getSimpleName(), 1L, Long::sum);
        }
        write(builder.build().buffer());
        offset += records.size();
    }

    void waves(List<ApiMessageAndVersion> records) throws IOException {
        for (int i = 0; i < records.size(); i += wave) {
            batch(records.subList(i, Math.min(records.size(), i + wave)));
            now += 5;
        }
    }

    void maybeSnapshot() throws IOException {
        if (sinceSnapshot < snapshotEvery) return;
        image = delta.apply(new MetadataProvenance(offset - 1, epoch, now, true));
        delta = new MetadataDelta.Builder().setImage(image).build();
        var writer = new RecordsSnapshotWriter.Builder()
            .setLastContainedLogTimestamp(now).setMaxBatchSizeBytes(MAX_BATCH)
            .setKraftVersion(KRaftVersion.KRAFT_VERSION_1).setVoterSet(Optional.of(voters)).setCompression(codec)
            .setRawSnapshotWriter(FileRawSnapshotWriter.create(dir, new OffsetAndEpoch(offset, epoch)))
            .build(MetadataRecordSerde.INSTANCE);
        var rsw = new RaftSnapshotWriter(writer, 1024);
        image.write(rsw, new ImageWriterOptions.Builder(image).setEligibleLeaderReplicasEnabled(true).build());
        rsw.close(true);
        sinceSnapshot = 0; snapshots++;
    }

    // ---------------------------------------------------------------- cluster model
    static ApiMessageAndVersion v(ApiMessage m, int version) { return new ApiMessageAndVersion(m, (short) version); }

    static class Part {
        Uuid topic; int id, leader, leaderEpoch, partitionEpoch; int[] replicas; boolean[] out;
        List<Integer> isr() { var l = new ArrayList<Integer>(3); for (int i = 0; i < replicas.length; i++) if (!out[i]) l.add(replicas[i]); return l; }
        int slot(int broker) { for (int i = 0; i < replicas.length; i++) if (replicas[i] == broker) return i; return -1; }
    }
    static class Topic { String name; Uuid id; List<Part> parts = new ArrayList<>(); boolean gone; }
    static class Broker { int id; long epoch; boolean fenced = true; List<Uuid> dirs; Set<Part> parts = new LinkedHashSet<>(); }

    Broker[] brokers; final List<Topic> topics = new ArrayList<>(); int topicSeq = 0; long producerId = 0;
    static final String[] CONFIGS = {"retention.ms", "604800000", "cleanup.policy", "compact", "min.insync.replicas", "2",
        "segment.bytes", "536870912", "max.message.bytes", "2097164", "compression.type", "zstd", "retention.bytes", "-1"};
    static final String[] DOMAINS = {"orders", "payments", "clickstream", "inventory", "ledger", "telemetry", "search", "identity"};

    void bootstrap(int nBrokers) throws IOException {
        leaderChange(9000);
        var r = new ArrayList<ApiMessageAndVersion>();
        r.add(v(new BeginTransactionRecord().setName("Bootstrap records"), 0));
        r.add(v(new FeatureLevelRecord().setName("metadata.version").setFeatureLevel(MV.featureLevel()), 0));
        r.add(v(new FeatureLevelRecord().setName("eligible.leader.replicas.version").setFeatureLevel((short) 1), 0));
        r.add(v(new FeatureLevelRecord().setName("group.version").setFeatureLevel((short) 1), 0));
        r.add(v(new EndTransactionRecord(), 0));
        // begin/end markers are not replayed into an image
        buf.clear();
        var builder = new BatchBuilder<ApiMessageAndVersion>(buf, MetadataRecordSerde.INSTANCE, codec, offset, now, epoch, MAX_BATCH);
        for (var m : r) {
            builder.appendRecord(m, new ObjectSerializationCache());
            if (m.message() instanceof FeatureLevelRecord f) delta.replay(f);
            counts.merge(m.message().getClass().getSimpleName(), 1L, Long::sum);
        }
        write(builder.build().buffer());
        offset += r.size();
        for (int i = 0; i < 3; i++) {
            var eps = new ControllerEndpointCollection(1);
            eps.add(new ControllerEndpoint().setName("CONTROLLER").setHost("controller-" + i + ".kraft.internal").setPort(9093).setSecurityProtocol((short) 1));
            var feats = new ControllerFeatureCollection(2);
            feats.add(new ControllerFeature().setName("kraft.version").setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1));
            feats.add(new ControllerFeature().setName("metadata.version").setMinSupportedVersion((short) 7).setMaxSupportedVersion(MV.featureLevel()));
            batch(List.of(v(new RegisterControllerRecord().setControllerId(9000 + i).setIncarnationId(uuid()).setEndPoints(eps).setFeatures(feats), MV.registerControllerRecordVersion())));
        }
        brokers = new Broker[nBrokers];
        for (int i = 0; i < nBrokers; i++) {
            brokers[i] = new Broker(); brokers[i].id = i + 1;
            brokers[i].dirs = List.of(uuid(), uuid());
            register(brokers[i]); unfence(brokers[i]);
        }
    }

    void register(Broker b) throws IOException {
        b.epoch = offset;
        var eps = new BrokerEndpointCollection(2);
        eps.add(new BrokerEndpoint().setName("PLAINTEXT").setHost("broker-" + b.id + ".kraft.internal").setPort(9092).setSecurityProtocol((short) 0));
        eps.add(new BrokerEndpoint().setName("SSL").setHost("broker-" + b.id + ".example.com").setPort(19092).setSecurityProtocol((short) 1));
        var feats = new BrokerFeatureCollection(3);
        feats.add(new BrokerFeature().setName("metadata.version").setMinSupportedVersion((short) 7).setMaxSupportedVersion(MV.featureLevel()));
        feats.add(new BrokerFeature().setName("kraft.version").setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1));
        feats.add(new BrokerFeature().setName("group.version").setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1));
        batch(List.of(v(new RegisterBrokerRecord().setBrokerId(b.id).setIncarnationId(uuid()).setBrokerEpoch(b.epoch).setEndPoints(eps)
            .setFeatures(feats).setRack(b.id % 7 == 0 ? null : "rack-" + b.id % 3).setFenced(true).setLogDirs(b.dirs), BROKER_V)));
    }

    void unfence(Broker b) throws IOException {
        batch(List.of(v(new BrokerRegistrationChangeRecord().setBrokerId(b.id).setBrokerEpoch(b.epoch).setFenced((byte) -1), REGCHANGE_V)));
        b.fenced = false;
    }

    void createTopic(int nParts) throws IOException {
        var t = new Topic(); t.id = uuid();
        t.name = DOMAINS[rnd.nextInt(DOMAINS.length)] + "." + (rnd.nextInt(4) == 0 ? "internal-" : "") + "events-v" + rnd.nextInt(3) + "-" + topicSeq++;
        var r = new ArrayList<ApiMessageAndVersion>();
        r.add(v(new TopicRecord().setName(t.name).setTopicId(t.id), 0));
        for (int c = rnd.nextInt(4); c > 0; c--) r.add(config(t));
        for (int p = 0; p < nParts; p++) {
            var part = new Part(); part.topic = t.id; part.id = p;
            part.replicas = replicas(); part.out = new boolean[part.replicas.length]; part.leader = part.replicas[0];
            var reps = Arrays.stream(part.replicas).boxed().toList();
            r.add(v(new PartitionRecord().setPartitionId(p).setTopicId(t.id).setReplicas(reps).setIsr(reps).setRemovingReplicas(List.of())
                .setAddingReplicas(List.of()).setLeader(part.leader).setLeaderEpoch(0).setPartitionEpoch(0).setDirectories(directories(reps)), PART_V));
            for (int b : part.replicas) brokers[b - 1].parts.add(part);
            t.parts.add(part);
        }
        topics.add(t);
        waves(r);
    }

    int[] replicas() {
        int n = brokers.length, rf = rnd.nextInt(20) == 0 ? 2 : 3; int[] out = new int[rf];
        int first = rnd.nextInt(n), shift = 1 + rnd.nextInt(n / rf);
        for (int i = 0; i < rf; i++) out[i] = (first + i * shift) % n + 1;
        return out;
    }

    ApiMessageAndVersion config(Topic t) {
        int c = rnd.nextInt(CONFIGS.length / 2) * 2;
        return v(new ConfigRecord().setResourceType((byte) 2).setResourceName(t.name).setName(CONFIGS[c]).setValue(rnd.nextInt(8) == 0 ? null : CONFIGS[c + 1]), 0);
    }

    /** A broker restarts: fenced (ISR shrink, leader moves), registered again, unfenced (ISR expand), preferred leaders elected. */
    void rollingRestart(Broker b) throws IOException {
        batch(List.of(v(new BrokerRegistrationChangeRecord().setBrokerId(b.id).setBrokerEpoch(b.epoch).setInControlledShutdown((byte) 1), REGCHANGE_V)));
        now += 200;
        batch(List.of(v(new BrokerRegistrationChangeRecord().setBrokerId(b.id).setBrokerEpoch(b.epoch).setFenced((byte) 1), REGCHANGE_V)));
        b.fenced = true;
        var r = new ArrayList<ApiMessageAndVersion>();
        for (var p : b.parts) {
            int s = p.slot(b.id);
            var c = change(p);
            if (!p.out[s] && p.isr().size() > 1) {
                p.out[s] = true; c.setIsr(p.isr());
                if (p.isr().size() < 2) c.setEligibleLeaderReplicas(List.of(b.id));
            } else if (p.leader != b.id) continue;
            if (p.leader == b.id) { p.leader = p.out[s] ? p.isr().get(0) : -1; p.leaderEpoch++; c.setLeader(p.leader); }
            p.partitionEpoch++; r.add(v(c, CHANGE_V));
        }
        waves(r); noops(3);
        now += 30_000;
        register(b); unfence(b);
        r.clear();
        var shuffled = new ArrayList<>(b.parts); Collections.shuffle(shuffled, new Random(rnd.nextLong()));
        for (var p : shuffled) {
            int s = p.slot(b.id);
            var c = change(p);
            if (p.out[s]) {
                boolean elr = p.isr().size() < 2;
                p.out[s] = false; c.setIsr(p.isr());
                if (elr) { c.setEligibleLeaderReplicas(List.of()); c.setLastKnownElr(List.of()); }
                if (rnd.nextInt(50) == 0) c.setDirectories(directories(Arrays.stream(p.replicas).boxed().toList()));
            } else if (p.leader == -1) { p.leader = b.id; p.leaderEpoch++; c.setLeader(b.id); c.setLeaderRecoveryState((byte) rnd.nextInt(2)); }
            else continue;
            p.partitionEpoch++; r.add(v(c, CHANGE_V));
        }
        // AlterPartition requests arrive one broker at a time: batches of varied size
        for (int i = 0; i < r.size(); ) { int n = Math.min(r.size() - i, 1 + rnd.nextInt(wave)); batch(r.subList(i, i + n)); i += n; now += 20; }
        noops(2); now += 300_000; r.clear();
        for (var p : b.parts) if (p.replicas[0] == b.id && p.leader != b.id && !p.out[0]) {
            p.leader = b.id; p.leaderEpoch++; p.partitionEpoch++;
            r.add(v(change(p).setLeader(b.id), CHANGE_V));
        }
        waves(r);
    }

    List<Uuid> directories(Collection<Integer> replicas) {
        return replicas.stream().map(b -> brokers[b - 1].dirs.get(rnd.nextInt(2))).toList();
    }

    static PartitionChangeRecord change(Part p) { return new PartitionChangeRecord().setPartitionId(p.id).setTopicId(p.topic); }

    void reassign(Topic t) throws IOException {
        var start = new ArrayList<ApiMessageAndVersion>(); var finish = new ArrayList<ApiMessageAndVersion>();
        for (var p : t.parts) {
            int old = p.replicas[p.replicas.length - 1], fresh = 1 + rnd.nextInt(brokers.length);
            if (p.slot(fresh) >= 0 || p.out[p.replicas.length - 1] || p.leader == old) continue;
            var both = new ArrayList<>(Arrays.stream(p.replicas).boxed().toList()); both.add(0, fresh);
            start.add(v(change(p).setReplicas(both).setDirectories(directories(both)).setAddingReplicas(List.of(fresh)).setRemovingReplicas(List.of(old)), CHANGE_V));
            brokers[old - 1].parts.remove(p); brokers[fresh - 1].parts.add(p);
            p.replicas[p.replicas.length - 1] = fresh;
            var reps = Arrays.stream(p.replicas).boxed().toList();
            finish.add(v(change(p).setReplicas(reps).setDirectories(directories(reps)).setIsr(p.isr()).setAddingReplicas(List.of()).setRemovingReplicas(List.of()), CHANGE_V));
            p.partitionEpoch += 2;
        }
        waves(start); noops(2); waves(finish);
    }

    void deleteTopic(int i) throws IOException {
        var t = topics.get(i); topics.set(i, topics.get(topics.size() - 1)); topics.remove(topics.size() - 1);
        for (var p : t.parts) for (int b : p.replicas) brokers[b - 1].parts.remove(p);
        var r = new ArrayList<ApiMessageAndVersion>();
        r.add(v(new RemoveTopicRecord().setTopicId(t.id), 0));
        batch(r);
    }

    void noops(int n) throws IOException {
        for (int i = 0; i < n; i++) { now += 500; batch(List.of(v(new NoOpRecord(), 0))); }
    }

    void misc() throws IOException {
        for (int i = rnd.nextInt(20); i > 0; i--) {
            producerId += 1000; var b = brokers[rnd.nextInt(brokers.length)];
            batch(List.of(v(new ProducerIdsRecord().setBrokerId(b.id).setBrokerEpoch(b.epoch).setNextProducerId(producerId), 0))); now += 40;
        }
        for (int i = rnd.nextInt(30); i > 0; i--) { batch(List.of(config(topics.get(rnd.nextInt(topics.size()))))); now += 30; }
        var r = new ArrayList<ApiMessageAndVersion>();
        for (int i = rnd.nextInt(4); i > 0; i--) r.add(v(new ClientQuotaRecord().setEntity(List.of(
            new EntityData().setEntityType("user").setEntityName("team-" + rnd.nextInt(60)),
            new EntityData().setEntityType("client-id").setEntityName(rnd.nextInt(5) == 0 ? null : "app-" + rnd.nextInt(200))))
            .setKey(rnd.nextBoolean() ? "producer_byte_rate" : "consumer_byte_rate").setValue(1024.0 * rnd.nextInt(100_000)).setRemove(false), 0));
        batch(r); r.clear();
        for (int i = rnd.nextInt(6); i > 0; i--) r.add(v(new AccessControlEntryRecord().setId(uuid()).setResourceType((byte) 2)
            .setResourceName(topics.get(rnd.nextInt(topics.size())).name).setPatternType((byte) (rnd.nextBoolean() ? 3 : 4))
            .setPrincipal("User:svc-" + rnd.nextInt(500)).setHost("*").setOperation((byte) (3 + rnd.nextInt(2))).setPermissionType((byte) 3), 0));
        batch(r);
    }

    void run(Map<String, String> o) throws IOException {
        long size = bytes(o.getOrDefault("size", "100M"));
        int nTopics = Integer.parseInt(o.getOrDefault("topics", "5000")), nParts = Integer.parseInt(o.getOrDefault("partitions", "200000"));
        int noops = Integer.parseInt(o.getOrDefault("noops", "2"));
        bootstrap(Integer.parseInt(o.getOrDefault("brokers", "200")));
        int per = nParts / nTopics;
        for (int i = 0; i < nTopics && total < size; i++) createTopic(Math.max(1, i % 5 == 0 ? per * 3 : per / 2));
        int event = 0;
        while (total < size) {
            maybeSnapshot();
            rollingRestart(brokers[event++ % brokers.length]);
            misc(); noops(noops);
            if (event % 5 == 0) createTopic(per);
            if (event % 7 == 0) deleteTopic(rnd.nextInt(topics.size()));
            if (event % 3 == 0) reassign(topics.get(rnd.nextInt(topics.size())));
            if (event % 40 == 0) { epoch++; leaderChange(9000 + epoch % 3); }
        }
        out.close();
        System.out.printf("%s: %,d bytes, %,d records, %,d batches, %d snapshots%n", dir, total, offset, batches, snapshots);
        counts.forEach((k, n) -> System.out.printf("  %-34s %,12d%n", k, n));
    }

    static long bytes(String s) {
        long unit = s.endsWith("G") ? 1L << 30 : s.endsWith("M") ? 1L << 20 : s.endsWith("K") ? 1L << 10 : 1;
        return Long.parseLong(unit == 1 ? s : s.substring(0, s.length() - 1)) * unit;
    }

    public static void main(String[] args) throws Exception {
        var o = new HashMap<String, String>();
        for (int i = 1; i < args.length; i++) { var kv = args[i].split("=", 2); o.put(kv[0], kv[1]); }
        new ScaleGen(Path.of(args[0]), o).run(o);
    }
}

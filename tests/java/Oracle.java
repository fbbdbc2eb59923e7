// What Kafka itself says about a KRaft metadata log. Everything that interprets bytes or state here
// is Kafka's own code (kafka-clients, kafka-raft, kafka-metadata); this file only walks files, calls
// it and prints JSON. See README.md for the formats.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.KRaftVersionRecordJsonConverter;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.LeaderChangeMessageJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotFooterRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecordJsonConverter;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.message.VotersRecordJsonConverter;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.*;             // what it takes from here moved to internals in
import org.apache.kafka.common.utils.internals.*;   // 4.4: either release compiles this
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

public final class Oracle {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final JsonNodeFactory J = JsonNodeFactory.instance;
    static final Pattern SEGMENT = Pattern.compile("(\\d{20})\\.log");
    static final Pattern SNAPSHOT = Pattern.compile("(\\d{20})-(\\d{10})\\.checkpoint");

    static Writer out;
    static boolean kafkaJson = false;   // true: exactly what Kafka's converter prints (tagged defaults omitted)

    public static void main(String[] argv) throws Exception {
        out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 16);
        int rc;
        try {
            rc = run(new ArrayList<>(Arrays.asList(argv)));
        } finally {
            out.flush();
        }
        System.exit(rc);
    }

    static int run(List<String> args) throws Exception {
        if (args.isEmpty()) return usage();
        String command = args.remove(0);
        kafkaJson = args.remove("--kafka-json");
        switch (command) {
            case "batches": {
                for (String f : args) batches(Paths.get(f));
                return 0;
            }
            case "records": {
                for (String f : args) records(Paths.get(f));
                return 0;
            }
            case "image":
                return ImageCommand.parse(args).run();
            case "bench":
                return Bench.run(args);
            default:
                return usage();
        }
    }

    static int usage() {
        System.err.println("usage: Oracle batches FILE...\n"
            + "       Oracle records [--kafka-json] FILE...\n"
            + "       Oracle image DIR [--at OFFSET] [--no-snapshot | --snapshot FILE] [--every N]\n"
            + "                        [--flush batch|end|K] [--raw-order] [--kafka-json]\n"
            + "       Oracle bench FILE... [--seconds S] [--only SUBSTRING]");
        return 64;
    }

    // ------------------------------------------------------------------ files

    /** A .log or .checkpoint file held in memory, walked batch by batch with Kafka's reader. */
    static final class RecordFile {
        final Path path;
        final ByteBuffer buffer;
        final MemoryRecords records;
        long validBytes = 0;
        int batches = 0;
        String error = null;

        RecordFile(Path path) throws IOException {
            this.path = path;
            this.buffer = ByteBuffer.wrap(Files.readAllBytes(path));
            this.records = MemoryRecords.readableRecords(buffer.duplicate());
        }

        interface BatchVisitor {
            boolean visit(int position, MutableRecordBatch batch) throws Exception;
        }

        /** Visits each complete batch; sets validBytes and error (null, "torn tail" or Kafka's message). */
        RecordFile walk(BatchVisitor visitor) throws Exception {
            Iterator<MutableRecordBatch> it = records.batchIterator();
            int position = 0;
            while (true) {
                MutableRecordBatch batch;
                try {
                    if (!it.hasNext()) break;
                    batch = it.next();
                } catch (RuntimeException e) {
                    error = e.getClass().getSimpleName() + ": " + e.getMessage();
                    break;
                }
                int at = position;
                position += batch.sizeInBytes();
                validBytes = position;
                batches++;
                if (!visitor.visit(at, batch)) return this;
            }
            if (error == null && validBytes < buffer.limit()) error = "torn tail";
            return this;
        }

        ObjectNode summary() {
            ObjectNode n = J.objectNode();
            n.put("summary", true);
            n.put("file", path.getFileName().toString());
            n.put("file_bytes", buffer.limit());
            n.put("valid_bytes", validBytes);
            n.put("batches", batches);
            n.put("error", error);
            return n;
        }
    }

    static void println(JsonNode n) throws IOException {
        StringBuilder sb = new StringBuilder(256);
        Canonical.write(n, sb, false);
        out.write(sb.append('\n').toString());
    }

    // ------------------------------------------------------------------ batches

    static void batches(Path path) throws Exception {
        RecordFile file = new RecordFile(path);
        String name = path.getFileName().toString();
        file.walk((position, b) -> {
            ObjectNode n = J.objectNode();
            n.put("file", name);
            n.put("position", position);
            n.put("base_offset", b.baseOffset());
            n.put("last_offset", b.lastOffset());
            n.put("size", b.sizeInBytes());
            n.put("partition_leader_epoch", b.partitionLeaderEpoch());
            n.put("magic", b.magic());
            if (b.magic() >= 2) {
                DefaultRecordBatch d = (DefaultRecordBatch) b;
                n.put("crc", d.checksum());
                n.put("crc_valid", d.isValid());
                n.put("attributes", file.buffer.getShort(position + 21));
            } else {
                n.putNull("crc");
                n.put("crc_valid", b.isValid());
                n.putNull("attributes");
            }
            n.put("compression", b.compressionType().name);
            n.put("timestamp_type", b.timestampType().name);
            n.put("is_control", b.isControlBatch());
            n.put("is_transactional", b.isTransactional());
            n.put("has_delete_horizon", b.deleteHorizonMs().isPresent());
            n.put("base_timestamp", b.magic() >= 2 ? ((DefaultRecordBatch) b).baseTimestamp() : -1L);
            n.put("max_timestamp", b.maxTimestamp());
            n.put("producer_id", b.producerId());
            n.put("producer_epoch", b.producerEpoch());
            n.put("base_sequence", b.baseSequence());
            Integer count = b.countOrNull();
            if (count == null) n.putNull("record_count"); else n.put("record_count", count);
            println(n);
            return true;
        });
        println(file.summary());
    }

    // ------------------------------------------------------------------ records

    static void records(Path path) throws Exception {
        RecordFile file = new RecordFile(path);
        String name = path.getFileName().toString();
        file.walk((position, b) -> {
            if (!b.isValid()) {
                ObjectNode n = J.objectNode();
                n.put("file", name);
                n.put("batch_position", position);
                n.put("batch_base_offset", b.baseOffset());
                n.put("error", "invalid batch (crc or size)");
                println(n);
                return true;
            }
            Iterator<Record> it = b.iterator();
            while (it.hasNext()) {
                Record r = it.next();
                ObjectNode n = J.objectNode();
                n.put("file", name);
                n.put("offset", r.offset());
                n.put("timestamp", r.timestamp());
                n.put("epoch", b.partitionLeaderEpoch());
                n.put("batch_position", position);
                n.put("batch_base_offset", b.baseOffset());
                n.put("is_control", b.isControlBatch());
                if (r.headers().length > 0) n.put("header_count", r.headers().length);
                try {
                    if (b.isControlBatch()) control(r, n); else data(r, n);
                } catch (RuntimeException e) {
                    Throwable root = e;
                    while (root.getCause() != null) root = root.getCause();
                    n.put("error", e.getClass().getSimpleName() + ": " + e.getMessage()
                        + (root == e ? "" : " <- " + root.getClass().getSimpleName() + ": " + root.getMessage()));
                    n.put("key_hex", r.hasKey() ? hex(r.key()) : null);
                    n.put("value_hex", r.hasValue() ? hex(r.value()) : null);
                }
                println(n);
            }
            return true;
        });
        println(file.summary());
    }

    static String hex(ByteBuffer b) {
        byte[] a = new byte[b.remaining()];
        b.duplicate().get(a);
        return HexFormat.of().formatHex(a);
    }

    /** A metadata record: frame = varint frame version, varint api key, varint version, body. */
    static void data(Record r, ObjectNode n) {
        if (r.hasKey()) n.put("unexpected_key_hex", hex(r.key()));
        ByteBufferAccessor peek = new ByteBufferAccessor(r.value());
        n.put("frame_version", peek.readUnsignedVarint());
        n.put("api_key", peek.readUnsignedVarint());
        n.put("version", peek.readUnsignedVarint());
        ApiMessageAndVersion m = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(r.value()), r.valueSize());
        n.put("type", MetadataRecordType.fromId(m.message().apiKey()).name());
        n.set("data", json(m.message(), m.version(), MetadataJsonConverters.writeJson(m.message(), m.version())));
        addUnknownTags(n, m.message());
    }

    /** A KRaft control record: key = int16 version, int16 type; value = the message, always read at version 0. */
    static void control(Record r, ObjectNode n) {
        ByteBuffer key = r.key();
        n.put("control_key_version", key.getShort(key.position()));
        n.put("control_type", key.getShort(key.position() + 2));
        n.put("type", ControlRecordType.parse(r.key()).name());
        ControlRecord c = ControlRecord.of(r.key(), r.value());
        ApiMessage m = c.message();
        short v = 0;
        n.put("version", v);
        JsonNode d;
        if (m instanceof LeaderChangeMessage) d = LeaderChangeMessageJsonConverter.write((LeaderChangeMessage) m, v, true);
        else if (m instanceof SnapshotHeaderRecord) d = SnapshotHeaderRecordJsonConverter.write((SnapshotHeaderRecord) m, v, true);
        else if (m instanceof SnapshotFooterRecord) d = SnapshotFooterRecordJsonConverter.write((SnapshotFooterRecord) m, v, true);
        else if (m instanceof KRaftVersionRecord) d = KRaftVersionRecordJsonConverter.write((KRaftVersionRecord) m, v, true);
        else if (m instanceof VotersRecord) d = VotersRecordJsonConverter.write((VotersRecord) m, v, true);
        else throw new IllegalStateException("no converter for " + m.getClass());
        n.set("data", json(m, v, d));
        addUnknownTags(n, m);
    }

    // ------------------------------------------------------------------ message -> full JSON

    /** Kafka's converter output, plus (unless --kafka-json) the tagged fields it omitted because they hold their default. */
    static JsonNode json(Message m, short version, JsonNode fromKafka) {
        if (!kafkaJson && fromKafka instanceof ObjectNode) fillTaggedDefaults((ObjectNode) fromKafka, m.getClass(), schema(m.getClass(), version));
        return fromKafka;
    }

    static Schema schema(Class<?> c, short version) {
        try {
            Schema[] all = (Schema[]) c.getField("SCHEMAS").get(null);
            return version < all.length ? all[version] : null;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static void fillTaggedDefaults(ObjectNode node, Class<?> messageClass, Schema schema) {
        if (schema == null) return;
        try {
            Object fresh = null;
            for (org.apache.kafka.common.protocol.types.BoundField bf : schema.fields()) {
                Field f = bf.def;
                if (f.type instanceof TaggedFields) {
                    for (Field t : ((TaggedFields) f.type).fields().values()) {
                        java.lang.reflect.Field jf = javaField(messageClass, t.name);
                        if (!node.has(jf.getName())) {
                            if (fresh == null) fresh = messageClass.getDeclaredConstructor().newInstance();
                            node.set(jf.getName(), plain(jf.get(fresh)));
                        } else {
                            descend(node.get(jf.getName()), jf, t.type);
                        }
                    }
                } else {
                    java.lang.reflect.Field jf = javaField(messageClass, f.name);
                    if (node.has(jf.getName())) descend(node.get(jf.getName()), jf, f.type);
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static void descend(JsonNode value, java.lang.reflect.Field jf, org.apache.kafka.common.protocol.types.Type type) {
        if (type instanceof Schema && value instanceof ObjectNode) {
            fillTaggedDefaults((ObjectNode) value, jf.getType(), (Schema) type);
        } else if (type.isArray() && type.arrayElementType().isPresent() && type.arrayElementType().get() instanceof Schema) {
            Class<?> element = elementClass(jf);
            for (JsonNode e : value) if (e instanceof ObjectNode) fillTaggedDefaults((ObjectNode) e, element, (Schema) type.arrayElementType().get());
        }
    }

    static Class<?> elementClass(java.lang.reflect.Field jf) {
        java.lang.reflect.Type t = jf.getGenericType();
        if (t instanceof java.lang.reflect.ParameterizedType) return (Class<?>) ((java.lang.reflect.ParameterizedType) t).getActualTypeArguments()[0];
        // *Collection extends ImplicitLinkedHashMultiCollection<Element>
        return (Class<?>) ((java.lang.reflect.ParameterizedType) ((Class<?>) t).getGenericSuperclass()).getActualTypeArguments()[0];
    }

    /** Schema names are snake_case, Java/JSON names camelCase; compare without case and underscores. */
    static java.lang.reflect.Field javaField(Class<?> c, String snake) {
        String key = snake.replace("_", "").toLowerCase(java.util.Locale.ROOT);
        for (java.lang.reflect.Field f : c.getDeclaredFields()) {
            if (!java.lang.reflect.Modifier.isStatic(f.getModifiers()) && f.getName().toLowerCase(java.util.Locale.ROOT).equals(key)) {
                f.setAccessible(true);
                return f;
            }
        }
        throw new IllegalStateException("no field for " + snake + " in " + c);
    }

    static JsonNode plain(Object v) {
        if (v == null) return J.nullNode();
        if (v instanceof Boolean) return J.booleanNode((Boolean) v);
        if (v instanceof Long) return J.numberNode((Long) v);
        if (v instanceof Double) return J.numberNode((Double) v);
        if (v instanceof Number) return J.numberNode(((Number) v).intValue());
        if (v instanceof String || v instanceof Uuid) return J.textNode(v.toString());
        if (v instanceof byte[]) return J.binaryNode((byte[]) v);
        if (v instanceof Iterable) {
            ArrayNode a = J.arrayNode();
            for (Object o : (Iterable<?>) v) a.add(plain(o));
            return a;
        }
        return J.objectNode();
    }

    static void addUnknownTags(ObjectNode n, Message m) {
        ArrayNode a = J.arrayNode();
        collectUnknownTags("", m, a);
        if (!a.isEmpty()) n.set("unknown_tagged_fields", a);
    }

    /** Unknown tags survive decoding inside the message object but no JSON converter prints them. */
    static void collectUnknownTags(String where, Message m, ArrayNode into) {
        for (RawTaggedField t : m.unknownTaggedFields()) {
            ObjectNode o = into.addObject();
            o.put("path", where);
            o.put("tag", t.tag());
            o.put("hex", HexFormat.of().formatHex(t.data()));
        }
        for (java.lang.reflect.Field f : m.getClass().getDeclaredFields()) {
            if (java.lang.reflect.Modifier.isStatic(f.getModifiers())) continue;
            f.setAccessible(true);
            Object v;
            try {
                v = f.get(m);
            } catch (IllegalAccessException e) {
                throw new IllegalStateException(e);
            }
            if (v instanceof Message) collectUnknownTags(where + f.getName() + ".", (Message) v, into);
            if (v instanceof Iterable) {
                int i = 0;
                for (Object o : (Iterable<?>) v) {
                    if (!(o instanceof Message)) break;
                    collectUnknownTags(where + f.getName() + "[" + (i++) + "].", (Message) o, into);
                }
            }
        }
    }

    // ------------------------------------------------------------------ canonical JSON

    /**
     * The same bytes as Python's json.dumps(x, sort_keys=True, separators=(",", ":"), ensure_ascii=False):
     * sorted keys, no spaces, only the mandatory escapes, doubles as Python's repr. With sort=false the key
     * order is kept.
     */
    static final class Canonical {
        static void write(JsonNode n, StringBuilder sb, boolean sort) {
            if (n.isObject()) {
                List<String> names = new ArrayList<>();
                n.fieldNames().forEachRemaining(names::add);
                if (sort) names.sort(null);
                sb.append('{');
                for (int i = 0; i < names.size(); i++) {
                    if (i > 0) sb.append(',');
                    string(names.get(i), sb);
                    sb.append(':');
                    write(n.get(names.get(i)), sb, sort);
                }
                sb.append('}');
            } else if (n.isArray()) {
                sb.append('[');
                for (int i = 0; i < n.size(); i++) {
                    if (i > 0) sb.append(',');
                    write(n.get(i), sb, sort);
                }
                sb.append(']');
            } else if (n.isFloatingPointNumber()) {
                sb.append(pythonRepr(n.doubleValue()));
            } else if (n.isNumber()) {
                sb.append(n.asText());
            } else if (n.isTextual() || n.isBinary()) {
                string(n.asText(), sb);       // binary: standard base64 with padding
            } else {
                sb.append(n.asText());        // true, false, null
            }
        }

        static void string(String s, StringBuilder sb) {
            sb.append('"');
            for (int i = 0; i < s.length(); i++) {
                char c = s.charAt(i);
                switch (c) {
                    case '"': sb.append("\\\""); break;
                    case '\\': sb.append("\\\\"); break;
                    case '\n': sb.append("\\n"); break;
                    case '\r': sb.append("\\r"); break;
                    case '\t': sb.append("\\t"); break;
                    case '\b': sb.append("\\b"); break;
                    case '\f': sb.append("\\f"); break;
                    default:
                        if (c < 0x20) sb.append(String.format("\\u%04x", (int) c)); else sb.append(c);
                }
            }
            sb.append('"');
        }

        static String pythonRepr(double d) {
            if (Double.isNaN(d)) return "NaN";
            if (Double.isInfinite(d)) return d > 0 ? "Infinity" : "-Infinity";
            if (d == 0) return (1 / d < 0) ? "-0.0" : "0.0";
            java.math.BigDecimal exact = new java.math.BigDecimal(d), shortest = exact;
            for (int p = 1; p <= 17; p++) {
                shortest = exact.round(new java.math.MathContext(p, java.math.RoundingMode.HALF_EVEN));
                if (shortest.doubleValue() == d) break;
            }
            shortest = shortest.stripTrailingZeros();
            String digits = shortest.unscaledValue().abs().toString();
            int point = digits.length() - shortest.scale();      // 0.DIGITS * 10^point
            StringBuilder sb = new StringBuilder();
            if (d < 0) sb.append('-');
            if (point > -4 && point <= 16) {
                if (point <= 0) sb.append("0.").append("0".repeat(-point)).append(digits);
                else if (point >= digits.length()) sb.append(digits).append("0".repeat(point - digits.length())).append(".0");
                else sb.append(digits, 0, point).append('.').append(digits, point, digits.length());
            } else {
                int e = point - 1;
                sb.append(digits.charAt(0));
                if (digits.length() > 1) sb.append('.').append(digits, 1, digits.length());
                sb.append('e').append(e < 0 ? '-' : '+');
                if (Math.abs(e) < 10) sb.append('0');
                sb.append(Math.abs(e));
            }
            return sb.toString();
        }
    }

    // ------------------------------------------------------------------ image

    static final class Snapshot implements Comparable<Snapshot> {
        final Path path;
        final long endOffset;
        final int epoch;

        Snapshot(Path path, long endOffset, int epoch) {
            this.path = path;
            this.endOffset = endOffset;
            this.epoch = epoch;
        }

        String name() {
            return path.getFileName().toString();
        }

        @Override
        public int compareTo(Snapshot o) {
            return endOffset != o.endOffset ? Long.compare(endOffset, o.endOffset) : Integer.compare(epoch, o.epoch);
        }

        /** null when the file is a complete snapshot, else what is wrong with it. */
        String problem() {
            try {
                RecordFile f = new RecordFile(path);
                boolean[] crc = {true};
                List<String> controls = new ArrayList<>();
                boolean[] lastIsFooter = {false};
                f.walk((p, b) -> {
                    if (!b.isValid()) {
                        crc[0] = false;
                        return false;
                    }
                    lastIsFooter[0] = false;
                    if (b.isControlBatch()) {
                        for (Record r : b) {
                            controls.add(ControlRecordType.parse(r.key()).name());
                            lastIsFooter[0] = controls.get(controls.size() - 1).equals("SNAPSHOT_FOOTER");
                        }
                    }
                    return true;
                });
                if (!crc[0]) return "bad crc at " + (f.validBytes);
                if (f.error != null) return f.error;
                if (f.batches == 0) return "empty";
                if (controls.isEmpty() || !controls.get(0).equals("SNAPSHOT_HEADER")) return "no header";
                if (!lastIsFooter[0]) return "no footer";
                return null;
            } catch (Exception e) {
                return e.toString();
            }
        }
    }

    static final class State {
        final List<String> lines;
        final String sha256;
        final Map<String, Integer> counts;

        State(List<String> lines, String sha256, Map<String, Integer> counts) {
            this.lines = lines;
            this.sha256 = sha256;
            this.counts = counts;
        }
    }

    static final class ImageCommand {
        Path dir;
        long at = Long.MAX_VALUE;
        boolean noSnapshot = false;
        Path snapshotFile = null;
        int every = 0;
        boolean rawOrder = false;
        int flushEvery = 1;                                     // batches per delta; 0 = only at the very end

        MetadataImage image = MetadataImage.EMPTY;
        boolean inTransaction = false;
        final List<String> faults = new ArrayList<>();
        final List<String> losses = new ArrayList<>();
        final ObjectNode meta = J.objectNode();
        final Map<String, Integer> replayed = new TreeMap<>();

        static ImageCommand parse(List<String> args) {
            ImageCommand c = new ImageCommand();
            for (int i = 0; i < args.size(); i++) {
                switch (args.get(i)) {
                    case "--at": c.at = Long.parseLong(args.get(++i)); break;
                    case "--no-snapshot": c.noSnapshot = true; break;
                    case "--snapshot": c.snapshotFile = Paths.get(args.get(++i)); break;
                    case "--every": c.every = Integer.parseInt(args.get(++i)); break;
                    case "--raw-order": c.rawOrder = true; break;
                    case "--flush": {
                        String v = args.get(++i);
                        c.flushEvery = v.equals("batch") ? 1 : v.equals("end") ? 0 : Integer.parseInt(v);
                        break;
                    }
                    default: c.dir = Paths.get(args.get(i));
                }
            }
            if (c.dir == null) throw new IllegalArgumentException("image needs a directory");
            return c;
        }

        int fail(String message) throws IOException {
            meta.put("error", message);
            finishMeta();
            return 2;
        }

        void finishMeta() {
            meta.put("records_replayed", replayed.values().stream().mapToInt(i -> i).sum());
            ObjectNode r = meta.putObject("replayed_by_type");
            replayed.forEach(r::put);
            meta.put("in_transaction", inTransaction);
            ArrayNode f = meta.putArray("faults");
            faults.stream().limit(100).forEach(f::add);
            meta.put("fault_count", faults.size());
            ArrayNode l = meta.putArray("losses");
            losses.stream().distinct().forEach(l::add);
            StringBuilder sb = new StringBuilder();
            Canonical.write(meta, sb, false);
            System.err.println(sb);
        }

        int run() throws Exception {
            List<Snapshot> snapshots = new ArrayList<>();
            TreeMap<Long, Path> segments = new TreeMap<>();
            try (Stream<Path> s = Files.list(dir)) {
                for (Path p : (Iterable<Path>) s::iterator) {
                    String n = p.getFileName().toString();
                    Matcher m = SEGMENT.matcher(n);
                    if (m.matches()) segments.put(Long.parseLong(m.group(1)), p);
                    m = SNAPSHOT.matcher(n);
                    if (m.matches()) snapshots.add(new Snapshot(p, Long.parseLong(m.group(1)), Integer.parseInt(m.group(2))));
                }
            }
            snapshots.sort(null);
            ArrayNode skipped = meta.putArray("snapshots_rejected");
            List<Snapshot> usable = new ArrayList<>();
            for (Snapshot s : snapshots) {
                String problem = s.problem();
                if (problem == null) usable.add(s); else skipped.add(s.name() + ": " + problem);
            }

            // Where to start.
            Snapshot start = null;
            if (snapshotFile != null) {
                Matcher m = SNAPSHOT.matcher(snapshotFile.getFileName().toString());
                if (!m.matches()) return fail("not a snapshot name: " + snapshotFile);
                start = new Snapshot(snapshotFile, Long.parseLong(m.group(1)), Integer.parseInt(m.group(2)));
            } else if (!noSnapshot) {
                boolean fromZero = !segments.isEmpty() && segments.firstKey() == 0;
                if (every > 0) {
                    if (!fromZero && !usable.isEmpty()) start = usable.get(0);
                } else {
                    for (Snapshot s : usable) if (s.endOffset <= at) start = s;
                }
            }
            long next = start == null ? 0 : start.endOffset;
            meta.put("start_snapshot", start == null ? null : start.name());
            if (start == null && !segments.isEmpty() && segments.firstKey() > 0)
                return fail("log starts at " + segments.firstKey() + " and no usable snapshot");

            MetadataBatchLoader loader = new MetadataBatchLoader(new LogContext(), Time.SYSTEM,
                (msg, cause) -> {
                    faults.add(msg + (cause == null ? "" : ": " + cause));
                    return new RuntimeException(msg, cause);
                },
                (delta, newImage, manifest) -> image = newImage,
                SupportedConfigChecker.TRUE);
            if (start != null) {
                image = load(start, image);
                loader.resetToImage(image);
            }
            TreeMap<Long, Snapshot> compare = new TreeMap<>();
            if (every > 0) for (Snapshot s : usable) if (s != start) compare.put(s.endOffset, s);

            // The segment that can contain `next` and all later ones.
            Long first = segments.floorKey(next);
            long batchIndex = 0, sinceFlush = 0;
            boolean stop = false;
            int lastEpoch = start == null ? -1 : start.epoch;
            for (Map.Entry<Long, Path> seg : (first == null ? segments : segments.tailMap(first, true)).entrySet()) {
                if (stop || seg.getKey() >= at) break;
                RecordFile f = new RecordFile(seg.getValue());
                boolean[] bad = {false};
                f.walk((p, b) -> {
                    if (b.isValid()) return true;
                    bad[0] = true;
                    f.validBytes = p;
                    f.error = "bad crc at " + p;
                    return false;
                });
                MemoryRecords valid = f.records.slice(0, (int) f.validBytes);
                for (MutableRecordBatch raw : valid.batches()) {
                    if (raw.lastOffset() < next) continue;
                    Batch<ApiMessageAndVersion> b = read(raw, seg.getValue().getFileName().toString());
                    if (b.baseOffset() >= at) {
                        stop = true;
                        break;
                    }
                    if (b.baseOffset() > next) return fail("gap: expected offset " + next + ", found " + b.baseOffset() + " in " + seg.getValue().getFileName());
                    if (b.baseOffset() < next) {
                        meta.put("start_inside_batch", b.baseOffset());
                        b = cut(b, next, b.lastOffset() + 1);
                    }
                    if (b.lastOffset() >= at) {
                        meta.put("stop_inside_batch", b.baseOffset());
                        b = cut(b, b.baseOffset(), at);
                        stop = true;
                    }
                    if (b.epoch() < lastEpoch) meta.put("epoch_regression_at", b.baseOffset());
                    lastEpoch = b.epoch();
                    for (ApiMessageAndVersion r : b.records()) {
                        MetadataRecordType t = MetadataRecordType.fromId(r.message().apiKey());
                        replayed.merge(t.name(), 1, Integer::sum);
                        if (t == MetadataRecordType.BEGIN_TRANSACTION_RECORD) inTransaction = true;
                        if (t == MetadataRecordType.END_TRANSACTION_RECORD || t == MetadataRecordType.ABORT_TRANSACTION_RECORD) inTransaction = false;
                    }
                    loader.loadBatch(b, LeaderAndEpoch.UNKNOWN);
                    next = b.lastOffset() + 1;
                    batchIndex++;
                    sinceFlush++;
                    if (flushEvery > 0 && sinceFlush >= flushEvery) {
                        loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
                        sinceFlush = 0;
                    }
                    if (every > 0) {
                        if (batchIndex % every == 0) digestLine(next, batchIndex);
                        Snapshot s = compare.remove(next);
                        if (s != null) compareLine(s, next);
                    }
                }
                if (f.error != null) {
                    meta.put("segment_error", seg.getValue().getFileName() + ": " + f.error);
                    if (segments.higherKey(seg.getKey()) != null) return fail("unreadable batch before the last segment: " + f.error);
                }
            }
            if (sinceFlush > 0) loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
            meta.put("end_offset", next);
            meta.put("last_epoch", lastEpoch);
            meta.put("batches_replayed", batchIndex);
            if (at != Long.MAX_VALUE && next < at && every == 0) meta.put("short_of", at);
            State s = render(image);
            meta.put("sha256", s.sha256);
            meta.put("state_records", s.lines.size());
            ObjectNode c = meta.putObject("counts");
            s.counts.forEach(c::put);
            if (every > 0) {
                if (batchIndex % every != 0) digestLine(next, batchIndex);
            } else {
                for (String line : s.lines) {
                    out.write(line);
                    out.write('\n');
                }
            }
            out.flush();
            finishMeta();
            return 0;
        }

        void digestLine(long endOffset, long batchIndex) throws Exception {
            State s = render(image);
            ObjectNode n = J.objectNode();
            n.put("end_offset", endOffset);
            n.put("batch", batchIndex);
            n.put("in_transaction", inTransaction);
            n.put("records", s.lines.size());
            n.put("sha256", s.sha256);
            ObjectNode c = n.putObject("counts");
            s.counts.forEach(c::put);
            println(n);
        }

        void compareLine(Snapshot snap, long endOffset) throws Exception {
            State mine = render(image);
            State theirs = render(load(snap, MetadataImage.EMPTY));
            ObjectNode n = J.objectNode();
            n.put("snapshot", snap.name());
            n.put("end_offset", endOffset);
            n.put("equal", mine.sha256.equals(theirs.sha256));
            n.put("sha256_log", mine.sha256);
            n.put("sha256_snapshot", theirs.sha256);
            if (!mine.sha256.equals(theirs.sha256)) {
                ArrayNode a = n.putArray("only_in_log"), b = n.putArray("only_in_snapshot");
                Set<String> inLog = new HashSet<>(mine.lines), inSnapshot = new HashSet<>(theirs.lines);
                mine.lines.stream().filter(x -> !inSnapshot.contains(x)).limit(20).forEach(a::add);
                theirs.lines.stream().filter(x -> !inLog.contains(x)).limit(20).forEach(b::add);
                n.put("only_in_log_count", mine.lines.stream().filter(x -> !inSnapshot.contains(x)).count());
                n.put("only_in_snapshot_count", theirs.lines.stream().filter(x -> !inLog.contains(x)).count());
            }
            println(n);
        }

        Batch<ApiMessageAndVersion> cut(Batch<ApiMessageAndVersion> b, long from, long to) {
            if (b.records().isEmpty()) return b;
            List<ApiMessageAndVersion> r = b.records().subList((int) (from - b.baseOffset()), (int) (to - b.baseOffset()));
            return Batch.data(from, b.epoch(), b.appendTimestamp(), b.sizeInBytes(), r);
        }

        int strictFailures = 0;

        /**
         * Decodes one batch with the raft layer's reader. Where that refuses (compressed batches, client-style
         * batches), falls back to the general record iterator and counts it: a real controller would stop there.
         */
        Batch<ApiMessageAndVersion> read(MutableRecordBatch raw, String file) {
            ByteBuffer bytes = ByteBuffer.allocate(raw.sizeInBytes());
            raw.writeTo(bytes);
            bytes.flip();
            try (RecordsIterator<ApiMessageAndVersion> it = new RecordsIterator<>(MemoryRecords.readableRecords(bytes), MetadataRecordSerde.INSTANCE,
                    BufferSupplier.NO_CACHING, Integer.MAX_VALUE, true, new LogContext())) {
                it.hasNext();
                return it.next();
            } catch (RuntimeException e) {
                if (strictFailures++ == 0) meta.put("strict_reader_first_failure", file + " batch " + raw.baseOffset() + ": " + e.getMessage());
                meta.put("strict_reader_failures", strictFailures);
            }
            List<ApiMessageAndVersion> data = new ArrayList<>();
            List<ControlRecord> control = new ArrayList<>();
            for (Record r : raw) {
                try {
                    if (raw.isControlBatch()) control.add(ControlRecord.of(r.key(), r.value()));
                    else data.add(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(r.value()), r.valueSize()));
                } catch (RuntimeException e) {
                    faults.add("undecodable record at offset " + r.offset() + ": " + e);
                    if (!raw.isControlBatch()) data.add(new ApiMessageAndVersion(new NoOpRecord(), (short) 0));    // keeps offsets right
                    else control.add(ControlRecord.of(new SnapshotFooterRecord()));
                }
            }
            return raw.isControlBatch()
                ? Batch.control(raw.baseOffset(), raw.partitionLeaderEpoch(), raw.maxTimestamp(), raw.sizeInBytes(), control)
                : Batch.data(raw.baseOffset(), raw.partitionLeaderEpoch(), raw.maxTimestamp(), raw.sizeInBytes(), data);
        }

        /** As MetadataLoader does it: replay on top of `base`, finishSnapshot drops what the snapshot lacks. */
        MetadataImage load(Snapshot s, MetadataImage base) throws Exception {
            MetadataDelta delta = new MetadataDelta.Builder().setImage(base).build();
            RecordFile f = new RecordFile(s.path);
            long[] logTime = {-1};
            int[] index = {0};
            f.walk((p, raw) -> {
                Batch<ApiMessageAndVersion> b = read(raw, s.name());
                for (ControlRecord c : b.controlRecords())
                    if (c.message() instanceof SnapshotHeaderRecord) logTime[0] = ((SnapshotHeaderRecord) c.message()).lastContainedLogTimestamp();
                for (ApiMessageAndVersion r : b.records()) {
                    try {
                        delta.replay(r.message());
                    } catch (Throwable t) {
                        faults.add("snapshot " + s.name() + " record " + index[0] + ": " + t);
                    }
                    index[0]++;
                }
                return true;
            });
            delta.finishSnapshot();
            try {
                return delta.apply(new MetadataProvenance(s.endOffset - 1, s.epoch, logTime[0], true));
            } catch (RuntimeException e) {
                faults.add("snapshot " + s.name() + " cannot be applied: " + e);
                return base;
            }
        }

        State render(MetadataImage image) throws Exception {
            boolean noVersion = image.features().metadataVersion().isEmpty();
            ImageWriterOptions.Builder options = noVersion
                ? new ImageWriterOptions.Builder(MetadataVersion.latestTesting()).setEligibleLeaderReplicasEnabled(true)
                : new ImageWriterOptions.Builder(image);
            options.setLossHandler(e -> losses.add(e.getMessage()));
            RecordListWriter writer = new RecordListWriter();
            try {
                image.write(writer, options.build());
            } catch (RuntimeException e) {          // Kafka would fail to make a snapshot of this state
                meta.put("unwritable_image", e.toString());
                writer = new RecordListWriter();
            }
            List<String> lines = new ArrayList<>();
            Map<String, Integer> counts = new TreeMap<>();
            boolean skipFirst = noVersion;
            for (ApiMessageAndVersion r : writer.records()) {
                if (skipFirst) {                    // Kafka always writes metadata.version; this image has none
                    skipFirst = false;
                    meta.put("metadata_version_missing", true);
                    continue;
                }
                ObjectNode n = J.objectNode();
                String type = MetadataRecordType.fromId(r.message().apiKey()).name();
                n.put("type", type);
                n.put("version", r.version());
                ObjectNode d;
                try {
                    d = (ObjectNode) json(r.message(), r.version(), MetadataJsonConverters.writeJson(r.message(), r.version()));
                } catch (RuntimeException e) {      // a field that this version of the record cannot carry
                    meta.put("unwritable_record", type + ": " + e);
                    continue;
                }
                if (!rawOrder) sortSetLike(d);
                n.set("data", d);
                StringBuilder sb = new StringBuilder(200);
                Canonical.write(n, sb, true);
                lines.add(sb.toString());
                counts.merge(type, 1, Integer::sum);
            }
            List<byte[]> keys = new ArrayList<>(lines.size());
            for (String l : lines) keys.add((l + "\n").getBytes(StandardCharsets.UTF_8));
            if (!rawOrder) {
                keys.sort(Arrays::compareUnsigned);
                lines.clear();
                for (byte[] k : keys) lines.add(new String(k, 0, k.length - 1, StandardCharsets.UTF_8));
            }
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            for (byte[] k : keys) sha.update(k);
            return new State(lines, HexFormat.of().formatHex(sha.digest()), counts);
        }

        /** These arrays come out of Java HashMaps, so their order means nothing: sort by canonical text. */
        static void sortSetLike(ObjectNode d) {
            for (String field : new String[] {"endPoints", "features", "entity"}) {
                JsonNode a = d.get(field);
                if (a == null || !a.isArray()) continue;
                List<JsonNode> items = new ArrayList<>();
                a.forEach(items::add);
                items.sort((x, y) -> Arrays.compareUnsigned(key(x), key(y)));
                ArrayNode sorted = J.arrayNode();
                items.forEach(sorted::add);
                d.set(field, sorted);
            }
        }

        static byte[] key(JsonNode n) {
            StringBuilder sb = new StringBuilder();
            Canonical.write(n, sb, true);
            return sb.toString().getBytes(StandardCharsets.UTF_8);
        }
    }

    // ------------------------------------------------------------------ bench

    static final class Bench {
        static int run(List<String> args) throws Exception {
            double seconds = 10;
            List<Path> files = new ArrayList<>();
            for (int i = 0; i < args.size(); i++) {
                if (args.get(i).equals("--seconds")) seconds = Double.parseDouble(args.get(++i));
                else if (args.get(i).equals("--only")) only = args.get(++i);
                else files.add(Paths.get(args.get(i)));
            }
            List<ByteBuffer> buffers = new ArrayList<>();
            long bytes = 0;
            for (Path p : files) {
                RecordFile f = new RecordFile(p).walk((pos, b) -> true);
                buffers.add(f.buffer.duplicate().limit((int) f.validBytes));
                bytes += f.validBytes;
            }
            measure("batches+crc", bytes, seconds, buffers, Bench::crc);
            measure("decode(+crc) RecordsIterator->ApiMessage", bytes, seconds, buffers, b -> decode(b, true));
            measure("decode(no crc) RecordsIterator->ApiMessage", bytes, seconds, buffers, b -> decode(b, false));
            measure("decode(+crc) Record iterator->ApiMessage", bytes, seconds, buffers, Bench::decodePublic);
            measure("decode+JSON", bytes, seconds, buffers, Bench::decodeJson);
            measure("replay, delta per batch", bytes, seconds, buffers, b -> replay(b, 1));
            measure("replay, delta per 1000 batches", bytes, seconds, buffers, b -> replay(b, 1000));
            return 0;
        }

        interface Pass {
            long run(List<ByteBuffer> buffers) throws Exception;    // records seen
        }

        /** CPU time of the whole virtual machine, garbage collection included. */
        static long processCpuNanos() {
            return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
        }

        static volatile long sink;
        static String only = "";

        static void measure(String name, long bytes, double seconds, List<ByteBuffer> buffers, Pass pass) throws Exception {
            if (!name.contains(only)) return;
            long deadline = System.nanoTime() + (long) (seconds * 0.4e9);
            int warm = 0;
            do {
                sink = pass.run(buffers);
                warm++;
            } while (System.nanoTime() < deadline);
            List<Double> times = new ArrayList<>(), cpuTimes = new ArrayList<>();
            long records = 0, end = System.nanoTime() + (long) (seconds * 0.6e9);
            do {
                long t = System.nanoTime(), cpu = processCpuNanos();
                records = pass.run(buffers);
                times.add((System.nanoTime() - t) / 1e9);
                cpuTimes.add((processCpuNanos() - cpu) / 1e9);
            } while (System.nanoTime() < end);
            times.sort(null);
            cpuTimes.sort(null);
            double median = times.get(times.size() / 2), best = times.get(0);
            ObjectNode n = J.objectNode();
            n.put("pass", name);
            n.put("bytes", bytes);
            n.put("records", records);
            n.put("warmup_passes", warm);
            n.put("passes", times.size());
            n.put("median_s", median);
            n.put("best_s", best);
            n.put("median_cpu_s", cpuTimes.get(cpuTimes.size() / 2));
            n.put("median_mb_per_s", Math.round(bytes / median / 1e5) / 10.0);
            n.put("best_mb_per_s", Math.round(bytes / best / 1e5) / 10.0);
            n.put("median_records_per_s", Math.round(records / median));
            n.put("best_records_per_s", Math.round(records / best));
            println(n);
            out.flush();
        }

        static long crc(List<ByteBuffer> buffers) {
            long n = 0;
            for (ByteBuffer b : buffers) {
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(b.duplicate()).batches()) {
                    batch.ensureValid();
                    n += batch.countOrNull();
                }
            }
            return n;
        }

        static long decode(List<ByteBuffer> buffers, boolean crc) {
            long n = 0;
            for (ByteBuffer b : buffers) {
                try (RecordsIterator<ApiMessageAndVersion> it = new RecordsIterator<>(MemoryRecords.readableRecords(b.duplicate()),
                        MetadataRecordSerde.INSTANCE, BufferSupplier.create(), Integer.MAX_VALUE, crc, new LogContext())) {
                    while (it.hasNext()) {
                        Batch<ApiMessageAndVersion> batch = it.next();
                        n += batch.records().size() + batch.controlRecords().size();
                    }
                }
            }
            return n;
        }

        static long decodePublic(List<ByteBuffer> buffers) {
            long n = 0;
            for (ByteBuffer b : buffers) {
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(b.duplicate()).batches()) {
                    batch.ensureValid();
                    boolean control = batch.isControlBatch();
                    for (Record r : batch) {
                        if (!control) sink += MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(r.value()), r.valueSize()).version();
                        n++;
                    }
                }
            }
            return n;
        }

        static long decodeJson(List<ByteBuffer> buffers) throws Exception {
            long n = 0;
            for (ByteBuffer b : buffers) {
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(b.duplicate()).batches()) {
                    batch.ensureValid();
                    boolean control = batch.isControlBatch();
                    for (Record r : batch) {
                        if (!control) {
                            ApiMessageAndVersion m = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(r.value()), r.valueSize());
                            sink += MAPPER.writeValueAsBytes(MetadataJsonConverters.writeJson(m.message(), m.version())).length;
                        }
                        n++;
                    }
                }
            }
            return n;
        }

        static long replay(List<ByteBuffer> buffers, int perDelta) {
            MetadataImage[] image = {MetadataImage.EMPTY};
            MetadataBatchLoader loader = new MetadataBatchLoader(new LogContext(), Time.SYSTEM,
                (msg, cause) -> new RuntimeException(msg, cause), (d, i, m) -> image[0] = i, SupportedConfigChecker.TRUE);
            long n = 0, batches = 0;
            for (ByteBuffer b : buffers) {
                try (RecordsIterator<ApiMessageAndVersion> it = new RecordsIterator<>(MemoryRecords.readableRecords(b.duplicate()),
                        MetadataRecordSerde.INSTANCE, BufferSupplier.create(), Integer.MAX_VALUE, true, new LogContext())) {
                    while (it.hasNext()) {
                        Batch<ApiMessageAndVersion> batch = it.next();
                        loader.loadBatch(batch, LeaderAndEpoch.UNKNOWN);
                        n += batch.records().size() + batch.controlRecords().size();
                        if (++batches % perDelta == 0) loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
                    }
                }
            }
            loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
            sink += image[0].topics().topicsById().size();
            return n;
        }
    }
}

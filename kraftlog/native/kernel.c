/* Records of many batches at once: where they lie, where their fields lie, and the fields' values.

   In: bytes, and arrays of numbers that say where to look. Out: arrays that the caller has made large
   enough. What each function does, its arrays and their lengths are in kernel.py, which alone calls
   these. Nothing is allocated, nothing is kept, no byte outside of what the caller names is read:
   every step is held against the end of the record or of the batch before it is taken. What is
   rare or abnormal is marked, and left to the interpreter.

   Sources: Kafka's DefaultRecord (KIP-98), tagged fields (KIP-482), frame of metadata records
   (KIP-631). */

#include "types.h"

typedef struct {
    const u8 *at, *end;
} Cursor;

/* Unsigned varints of up to four bytes, 28 bits; 0 where one is longer, or not there in full. */
static INLINE int varint(Cursor *one, u32 *value) {
    const u8 *at = one->at, *end = one->end;
    u32 found = 0;
    for (int shift = 0; shift < 28; shift += 7) {
        if (at >= end)
            return 0;
        u32 byte = *at++;
        found |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            one->at = at;
            *value = found;
            return 1;
        }
    }
    return 0;
}

/* Zigzag, likewise. */
static inline int signed_varint(Cursor *one, i32 *value) {
    u32 found;
    if (!varint(one, &found))
        return 0;
    *value = (i32)(found >> 1) ^ -(i32)(found & 1);
    return 1;
}

static INLINE int step(Cursor *one, i64 size) {
    if (size < 0 || size > one->end - one->at)
        return 0;
    one->at += size;
    return 1;
}

enum { FRAME_VERSION = 1, SHORT_LIMIT = 0x7fff };

/* What stands around a record's value, and the head of the value. */
typedef struct {
    i32 timestamp_delta, offset_delta, value_start, value_end, body, key, version;
} Envelope;

static int envelope(const u8 *raw, Cursor one, Envelope *found) {
    i32 size, headers;
    /* Kafka writes no attributes, keys or headers into this log, and a value into each record. */
    if (one.at == one.end || *one.at++ || !signed_varint(&one, &found->timestamp_delta) ||
        !signed_varint(&one, &found->offset_delta))
        return 0;
    if (!signed_varint(&one, &size) || size >= 0 || !signed_varint(&one, &size) || size < 0)
        return 0;
    Cursor value = one;
    if (!step(&one, size))
        return 0;
    value.end = one.at;
    if (!signed_varint(&one, &headers) || headers || one.at != one.end)
        return 0;
    found->value_start = (i32)(value.at - raw);
    found->value_end = (i32)(value.end - raw);
    u32 frame, key, version;
    found->key = found->version = -1;
    if (varint(&value, &frame) && frame == FRAME_VERSION && varint(&value, &key) &&
        key <= SHORT_LIMIT && varint(&value, &version) && version <= SHORT_LIMIT) {
        found->key = (i32)key;
        found->version = (i32)version;
    }
    found->body = (i32)(value.at - raw);
    return 1;
}

enum { NUMBER_BITS = 7, NO_CODE = 1 << 2 * NUMBER_BITS, CODES };

/* An api key and a version in one number; another one where there are none, or larger ones. */
static inline u16 code_of(i32 key, i32 version) {
    int is_known = key >= 0 && key >> NUMBER_BITS == 0 && version >> NUMBER_BITS == 0;
    return (u16)(is_known ? key << NUMBER_BITS | version : NO_CODE);
}

static inline u32 big32(const u8 *at) {
    return (u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3];
}

static inline u64 big64(const u8 *at) { return (u64)big32(at) << 32 | big32(at + 4); }

static inline u32 little32(const u8 *at) {
    return at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}

static inline u64 little64(const u8 *at) { return little32(at) | (u64)little32(at + 4) << 32; }

/* Where things lie in the header of a batch. */
enum { HEADER = 61, EPOCH_AT = 12, ATTRIBUTES_AT = 21, BASE_TIME_AT = 27, MAX_TIME_AT = 35 };
enum { COUNT_AT = 57, APPEND_TIME = 8, MIN_RECORD = 7 };

EXPORT i64 kraftlog_counts(const u8 *headers, i64 batches, i64 size, i64 rows, const i64 *batch,
                           const i64 *starts, const i64 *ends, i64 *counts) {
    i64 total = 0;
    for (i64 row = 0; row < rows; row++) {
        i64 at = batch[row];
        if (at < 0 || at >= batches || starts[at] < 0 || ends[at] < starts[at] || ends[at] > size)
            return -1;
        i64 count = (i32)big32(headers + HEADER * at + COUNT_AT);
        counts[row] = count > (ends[at] - starts[at]) / MIN_RECORD ? -1 : count;
        total += counts[row] < 0 ? 0 : count;
    }
    return total;
}

EXPORT i64 kraftlog_frames(const u8 *raw, i64 batches, const i64 *chosen, const i64 *starts,
                           const i64 *ends, const i64 *counts, u8 *leads, i32 *batch, i32 *record,
                           i32 *position, i32 *end, i32 *timestamp_delta, i32 *offset_delta,
                           i32 *value_start, i32 *value_end, i32 *body, i32 *key, u16 *code,
                           u8 *bad) {
    i64 row = 0;
    for (i64 at = 0; at < batches; at++) {
        i64 first = row, after = row + counts[at];
        Cursor one = {raw + starts[chosen[at]], raw + ends[chosen[at]]};
        while (row < after) {
            Cursor frame = one;
            i32 length;
            if (!signed_varint(&one, &length) || !step(&one, length))
                break;
            Envelope found = {0, 0, 0, 0, 0, -1, -1};
            batch[row] = (i32)chosen[at];
            record[row] = (i32)(row - first);
            position[row] = (i32)(frame.at - raw);
            end[row] = (i32)(one.at - raw);
            frame.at = one.at - length;
            frame.end = one.at;
            bad[row] = !envelope(raw, frame, &found);
            timestamp_delta[row] = found.timestamp_delta;
            offset_delta[row] = found.offset_delta;
            value_start[row] = found.value_start;
            value_end[row] = found.value_end;
            body[row] = found.body;
            key[row] = bad[row] ? -1 : found.key;
            code[row] = code_of(key[row], found.version);
            row++;
        }
        leads[at] = row == after && one.at == one.end;
        if (!leads[at])
            row = first;
    }
    return row;
}

EXPORT void kraftlog_groups(const u16 *codes, i64 rows, i64 *order, i64 *ends) {
    for (i64 row = 0; row < rows; row++)
        ends[codes[row]]++;
    for (i64 code = 0, before = 0; code < CODES; code++) {
        i64 count = ends[code];
        ends[code] = before;
        before += count;
    }
    for (i64 row = 0; row < rows; row++)
        order[ends[codes[row]]++] = row;
}

/* One number of `width` bytes, in the machine's order, at a place of an array of such. */
static inline void number(const u8 *from, i64 width, void *out, i64 at) {
    switch (width) {
    case 1:
        ((u8 *)out)[at] = *from;
        return;
    case 2:
        ((u16 *)out)[at] = (u16)(from[0] << 8 | from[1]);
        return;
    case 4:
        ((u32 *)out)[at] = big32(from);
        return;
    default:
        ((u64 *)out)[at] = big64(from);
    }
}

enum { ID_SIZE = 16, ID_TEXT_SIZE = 22 };

/* An id as Kafka prints it: base64 for addresses, without padding. Eight times three of its bytes are
   made four letters each, the last ones of zeros that are not there. */
static inline void id_text(const u8 *from, u8 *out) {
    typedef u8 Id __attribute__((vector_size(16), aligned(1), may_alias));
    typedef u32 Threes __attribute__((vector_size(32)));
    typedef signed char Letters __attribute__((vector_size(32)));
    const Id id = *(const Id *)from, none = {0};
    const Threes bits = (Threes)__builtin_shufflevector(
        id, none, 2, 1, 0, 16, 5, 4, 3, 16, 8, 7, 6, 16, 11, 10, 9, 16, 14, 13, 12, 16, 16, 16, 15,
        16, 16, 16, 16, 16, 16, 16, 16, 16);
    const Letters six = (Letters)((bits >> 18 & 0x3f) | (bits >> 4 & 0x3f00) |
                                  (bits << 10 & 0x3f0000) | (bits << 24 & 0x3f000000));
    const Letters text = six + 'A' + ((six > 25) & ('a' - 'Z' - 1)) + ((six > 51) & ('0' - 'z' - 1)) +
                         ((six > 61) & ('-' - '9' - 1)) + ((six > 62) & ('_' - '-' - 1));
    __builtin_memcpy(out, &text, ID_TEXT_SIZE);
}

EXPORT i64 kraftlog_columns(const u8 *headers, i64 batches, i64 rows, const i64 *row,
                            const i32 *batches_of, const i32 *records, const i32 *timestamp_deltas,
                            const i32 *offset_deltas, const i32 *value_starts,
                            const i32 *value_ends, i64 *place, i32 *batch, i32 *record, i64 *offset,
                            i64 *timestamp, i32 *epoch, i64 *timestamp_delta, i32 *offset_delta,
                            i32 *value_size) {
    for (i64 at = 0; at < rows; at++) {
        i64 from = row[at], index = batches_of[from];
        if (index < 0 || index >= batches)
            return -1;
        const u8 *header = headers + HEADER * index;
        i64 later = timestamp_deltas[from], after = offset_deltas[from];
        place[at] = index << 32 | records[from];
        batch[at] = (i32)index;
        record[at] = records[from];
        /* As Java's longs, these wrap around. */
        offset[at] = (i64)(big64(header) + (u64)after);
        timestamp[at] = header[ATTRIBUTES_AT + 1] & APPEND_TIME
                            ? (i64)big64(header + MAX_TIME_AT)
                            : (i64)(big64(header + BASE_TIME_AT) + (u64)later);
        epoch[at] = (i32)big32(header + EPOCH_AT);
        timestamp_delta[at] = later;
        offset_delta[at] = (i32)after;
        value_size[at] = value_ends[from] - value_starts[from];
    }
    return rows;
}

enum { NUMBER, ID, NUMBERS, IDS, BYTES, TEXT, STRUCTS };

/* How a field is read, and where its values go. Lists and texts append them to `values`, where
   there is room for all that the messages could hold; `ends` says where each one's end, from the
   second number on, and `held` whether it is there, or null. Without `values` nothing is written.
   Of a list of structs, the `inner` fields after it are those of an element, which has none that
   are tagged; where its own elements end is all that is written of it. */
typedef struct {
    i32 kind, width, nullable, tag;
    i64 absent, inner;
    u8 *values;
    i32 *ends;
    u8 *held;
    i64 used, seen;
} Field;

enum { STRING_LIMIT = 0x7fff, STRUCT_LIMIT = 1 << 16 };

/* A list or a text, or that there is none (−1), or an empty one. */
static INLINE void list(Field *how, i64 row, const u8 *from, i64 length) {
    i64 at = how->used, width = how->width;
    u8 *values = how->values;
    switch (how->kind) {
    case NUMBERS:
        for (i64 left = length; left > 0; left--, from += width)
            number(from, width, values, at++);
        break;
    case IDS:
        for (i64 left = length; left > 0; left--, from += ID_SIZE)
            id_text(from, values + ID_TEXT_SIZE * at++);
        break;
    default:
        for (i64 left = length; left > 0; left--)
            values[at++] = *from++;
    }
    how->used = at;
    how->ends[row + 1] = (i32)at;
    how->held[row] = length >= 0;
}

static int structs(Cursor *one, Field *how, i64 row, i64 length);

/* The next field of a message, which is the row-th normal one. */
static INLINE int field(Cursor *one, Field *how, i64 row) {
    const u8 *from = one->at;
    if (how->kind < NUMBERS) {
        if (!step(one, how->width))
            return 0;
        if (how->values && how->kind == ID)
            id_text(from, how->values + ID_TEXT_SIZE * row);
        else if (how->values)
            number(from, how->width, how->values, row);
        return 1;
    }
    u32 found;
    if (!varint(one, &found) || (!found && !how->nullable))
        return 0;
    i64 length = (i64)found - 1;
    if (how->kind == TEXT && length > STRING_LIMIT)
        return 0;
    if (how->kind == STRUCTS)
        return structs(one, how, row, length);
    from = one->at;
    if (found && !step(one, length * how->width))
        return 0;
    if (how->values)
        list(how, row, from, length);
    return 1;
}

/* The elements of a list of structs, or that there is none (−1). */
static int structs(Cursor *one, Field *how, i64 row, i64 length) {
    if (length > STRUCT_LIMIT)
        return 0;
    for (i64 left = length; left > 0; left--, how->used++) {
        u32 tags;
        for (i64 at = 1; at <= how->inner; at += 1 + how[at].inner)
            if (!field(one, &how[at], how->used))
                return 0;
        if (!varint(one, &tags) || tags)
            return 0;
    }
    if (how->values) {
        how->ends[row + 1] = (i32)how->used;
        how->held[row] = length >= 0;
    }
    return 1;
}

/* What is behind so many rows of some fields is written over. */
static void undo(Field *fields, i64 count, i64 rows) {
    for (i64 at = 0; at < count; at += 1 + fields[at].inner)
        if (fields[at].values && fields[at].seen && fields[at].kind >= NUMBERS) {
            fields[at].used = fields[at].ends[rows];
            undo(&fields[at + 1], fields[at].inner, fields[at].used);
        }
}

/* A tagged field of a message that lacks it. */
static inline void lacking(Field *how, i64 row) {
    if (how->values && how->kind == NUMBER)
        number((const u8 *)&how->absent, how->width, how->values, row);
    else if (how->values)
        list(how, row, 0, how->absent);
}

/* The tagged fields of a message, in ascending order as Kafka writes them, each one once. Nothing is
   written of those that no message had so far. */
static int tagged(Cursor *one, Field *fields, i64 plain, i64 count, i64 row) {
    u32 total, tag, size;
    i64 previous = -1;
    if (!varint(one, &total) || total > count - plain)
        return 0;
    for (i64 at = plain; at < count; at++)
        if (fields[at].seen)
            lacking(&fields[at], row);
    while (total--) {
        if (!varint(one, &tag) || !varint(one, &size) || tag <= previous)
            return 0;
        previous = tag;
        i64 at = plain;
        while (at < count && (u32)fields[at].tag != tag)
            at++;
        Cursor inner = {one->at, one->at};
        if (at == count || !step(one, size))
            return 0;
        inner.end = one->at;
        for (i64 before = 0; !fields[at].seen && before < row; before++)
            lacking(&fields[at], before);
        fields[at].seen = 1;
        if (!field(&inner, &fields[at], row) || inner.at != inner.end)
            return 0;
    }
    return 1;
}

/* A row's message; 0 where it is none of the buffer's. */
static INLINE int message(const u8 *raw, i64 size, i32 body, i32 end, Cursor *one) {
    if (body < 0 || end < body || end > size)
        return 0;
    one->at = raw + body;
    one->end = raw + end;
    return 1;
}

EXPORT i64 kraftlog_messages(const u8 *raw, i64 size, i64 rows, const i64 *row, const i32 *body,
                             const i32 *end, Field *fields, i64 plain, i64 count, u8 *normal) {
    i64 found = 0;
    for (i64 at = 0; at < rows; at++) {
        Cursor one;
        if (!message(raw, size, body[row[at]], end[row[at]], &one))
            return -1;
        i64 next = 0;
        while (next < plain && field(&one, &fields[next], found))
            next += 1 + fields[next].inner;
        normal[at] =
            next == plain && tagged(&one, fields, plain, count, found) && one.at == one.end;
        found += normal[at];
        if (!normal[at])
            undo(fields, count, found);
    }
    return found;
}

enum { BLOCK_BITS = 6 };

EXPORT i64 kraftlog_hashes(const u8 *raw, i64 size, i64 rows, const i64 *row, const i32 *body,
                           const i32 *end, i64 *out) {
    const u64 mix = 0x9E3779B97F4A7C15ULL;
    for (i64 at = 0; at < rows; at++) {
        Cursor one;
        if (!message(raw, size, body[row[at]], end[row[at]], &one))
            return -1;
        out[at] = 0;
        if (one.end - one.at < 4 + ID_SIZE)
            continue;
        u64 topic = little64(one.at + 4) ^ little64(one.at + 12);
        out[at] = (i64)(topic * mix >> 32) + ((i32)big32(one.at) >> BLOCK_BITS);
    }
    return rows;
}

#ifdef __x86_64__
#define CRC_OF_8(crc, bytes) (u32) __builtin_ia32_crc32di(crc, bytes)
#define CRC_OF_1(crc, byte) __builtin_ia32_crc32qi(crc, byte)
#else
#define CRC_OF_8(crc, bytes) __builtin_arm_crc32cd(crc, bytes)
#define CRC_OF_1(crc, byte) __builtin_arm_crc32cb(crc, byte)
#endif

/* CRC-32C, by the processor's own instructions. */
static u32 crc32c(const u8 *at, i64 size) {
    u32 crc = ~0u;
    for (; size >= 8; size -= 8, at += 8)
        crc = CRC_OF_8(crc, little64(at));
    for (; size > 0; size--, at++)
        crc = CRC_OF_1(crc, *at);
    return ~crc;
}

/* BLAKE3 of inputs of one chunk, so without a tree, several inputs at a time: each has a lane of
   the vectors, wherever it is in its input. Source: the BLAKE3 paper, sections 2.1 to 2.4. */

enum { CHUNK_SIZE = 1024, BLOCK_SIZE = 64, CHUNK_START = 1, CHUNK_END = 2, ROOT = 8, KEYED = 16 };
#ifdef __AVX2__
#define LANES 8
#else
#define LANES 4
#endif
enum { HASH_SIZE = 16, FOURS = LANES / 4 };

typedef u32 Loose __attribute__((aligned(1), may_alias));
typedef u32 Wide __attribute__((vector_size(4 * LANES)));
typedef u32 LooseWide __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef u32 Four __attribute__((vector_size(16), may_alias));
typedef u32 LooseFour __attribute__((vector_size(16), aligned(1), may_alias));

static const u32 INITIAL[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                               0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

static inline Wide turned(Wide value, int bits) { return value >> bits | value << (32 - bits); }

#define MIX(a, b, c, d, x, y)                                                                      \
    s[a] += s[b] + (x), s[d] = turned(s[d] ^ s[a], 16), s[c] += s[d];                              \
    s[b] = turned(s[b] ^ s[c], 12), s[a] += s[b] + (y), s[d] = turned(s[d] ^ s[a], 8);             \
    s[c] += s[d], s[b] = turned(s[b] ^ s[c], 7)

#define ROUND(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                      \
    MIX(0, 4, 8, 12, w[a], w[b]);                                                                  \
    MIX(1, 5, 9, 13, w[c], w[d]);                                                                  \
    MIX(2, 6, 10, 14, w[e], w[f]);                                                                 \
    MIX(3, 7, 11, 15, w[g], w[h]);                                                                 \
    MIX(0, 5, 10, 15, w[i], w[j]);                                                                 \
    MIX(1, 6, 11, 12, w[k], w[l]);                                                                 \
    MIX(2, 7, 8, 13, w[m], w[n]);                                                                  \
    MIX(3, 4, 9, 14, w[o], w[p])

/* A block of up to 64 bytes in each lane; `chained` becomes what the next ones begin with. */
static void blocks(Wide *chained, const Wide *w, Wide size, Wide flags) {
    Wide s[16], none = {0};
    for (int one = 0; one < 8; one++)
        s[one] = chained[one];
    for (int one = 0; one < 4; one++)
        s[8 + one] = none + INITIAL[one];
    s[12] = s[13] = none; /* The first chunk's number. */
    s[14] = size;
    s[15] = flags;
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8);
    ROUND(3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1);
    ROUND(10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6);
    ROUND(12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4);
    ROUND(9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7);
    ROUND(11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13);
    for (int one = 0; one < 8; one++)
        chained[one] = s[one] ^ s[one + 8];
}

/* Bytes of a block to keep, and to leave out, by the place from which it is read. */
static const u8 KEPT[2 * BLOCK_SIZE] = {[0 ... BLOCK_SIZE - 1] = 0xff};

/* The words of a block in each lane; what is beyond so many bytes of it is 0. */
static void words(const u8 *const *from, const i32 *sizes, Wide *out) {
    Four *w = (Four *)out;
    for (int lanes = 0; lanes < FOURS; lanes++, from += 4, sizes += 4)
        for (int at = 0; at < BLOCK_SIZE; at += 16) {
            Four row[4];
            for (int lane = 0; lane < 4; lane++)
                row[lane] = *(const LooseFour *)(from[lane] + at) &
                            *(const LooseFour *)(KEPT + BLOCK_SIZE - sizes[lane] + at);
            Four a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
            Four b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
            Four c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
            Four d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
            Four *four = w + at / 4 * FOURS + lanes;
            four[0 * FOURS] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
            four[1 * FOURS] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
            four[2 * FOURS] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
            four[3 * FOURS] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
        }
}

/* The first 16 bytes of the hashes of inputs of up to a chunk, which stand one after the other in
   so many bytes, under a key of eight words where there is one. */
static void blake3(const u8 *raw, i64 size, const i64 *starts, i64 count, const u32 *key, u8 *out) {
    for (i64 first = 0; first < count; first += LANES, out += LANES * HASH_SIZE) {
        Wide none = {0}, chained[8], w[16];
        u32 now = CHUNK_START, always = key ? KEYED : 0;
        const u8 *next[LANES];
        i32 left[LANES], open = 1;
        for (int one = 0; one < 8; one++)
            chained[one] = none + (key ? key : INITIAL)[one];
        for (int lane = 0; lane < LANES; lane++) {
            /* Lanes without an input, or after its end, go on with nothing. */
            i64 row = first + lane < count ? first + lane : count;
            next[lane] = raw + starts[row];
            left[lane] = row < count ? (i32)(starts[row + 1] - starts[row]) : 0;
        }
        for (; open; now = 0) {
            u8 last[LANES][BLOCK_SIZE];
            const u8 *from[LANES];
            i32 sizes[LANES], ends[LANES];
            u32 flags[LANES];
            open = 0;
            for (int lane = 0; lane < LANES; lane++) {
                ends[lane] = left[lane] > 0 && left[lane] <= BLOCK_SIZE;
                open |= left[lane] > BLOCK_SIZE;
                sizes[lane] = left[lane] < BLOCK_SIZE ? left[lane] : BLOCK_SIZE;
                flags[lane] = always | now | (ends[lane] ? CHUNK_END | ROOT : 0);
                from[lane] = next[lane];
                if (raw + size - next[lane] < BLOCK_SIZE) {
                    from[lane] = last[lane];
                    for (i32 byte = 0; byte < sizes[lane]; byte++)
                        last[lane][byte] = next[lane][byte];
                }
                next[lane] += sizes[lane];
                left[lane] -= sizes[lane];
            }
            words(from, sizes, w);
            blocks(chained, w, *(const LooseWide *)sizes, *(const LooseWide *)flags);
            for (int lane = 0; lane < LANES; lane++)
                for (int word = 0; ends[lane] && word < 4; word++)
                    *(Loose *)(out + HASH_SIZE * lane + 4 * word) = chained[word][lane];
        }
    }
}

EXPORT void kraftlog_hex(const u8 *from, i64 size, u8 *out) {
    for (i64 at = 0; at < size; at++) {
        u8 high = from[at] >> 4, low = from[at] & 15;
        out[2 * at] = (u8)(high + (high > 9 ? 'a' - 10 : '0'));
        out[2 * at + 1] = (u8)(low + (low > 9 ? 'a' - 10 : '0'));
    }
}

enum { PREFIX = 12, MAGIC_AT = 16, CRC_AT = 17, CRC_FROM = 21, MAGIC = 2 };

EXPORT i64 kraftlog_batches(const u8 *raw, i64 size, i64 at, i64 stop, const u32 *key, i64 room,
                            i64 *starts, u8 *hashes) {
    i64 found = 0;
    while (found < room && at < stop && size - at >= HEADER) {
        i64 length = (i32)big32(raw + at + 8) + (i64)PREFIX;
        if (raw[at + MAGIC_AT] != MAGIC || length < HEADER || length > CHUNK_SIZE ||
            length > size - at ||
            crc32c(raw + at + CRC_FROM, length - CRC_FROM) != big32(raw + at + CRC_AT))
            break;
        starts[found++] = at;
        at += length;
    }
    starts[found] = at;
    blake3(raw, size, starts, found, key, hashes);
    return found;
}

/* The fold of many partitions' events at once, and lists of many partitions at a time.

   In: arrays of events and of records' fields, and lists as Arrow holds them. Out: arrays that the
   caller has made large enough. What each function does, its arrays and their lengths are in
   folding.py, which alone calls these and holds every index against its array. Nothing is allocated,
   nothing is kept. What is abnormal is marked, and left to the definition.

   Sources: Kafka's PartitionRegistration and TopicDelta. */

#include "types.h"

enum { TOPIC_CAME, TOPIC_WENT, PUT, CHANGE, CLEAR };
enum { REPLICAS, ISR, REMOVING, ADDING, ELR, LAST_KNOWN_ELR, DIRECTORIES, LISTS };
enum { NO_CHANGE = -2, RECOVERING = 1, LAST_INT = 0x7fffffff, AHEAD = 16 };

/* A record's fields; a list that it does not have is −1 long. */
typedef struct {
    i32 length[LISTS], leader, recovery, leader_epoch, partition_epoch;
} Record;

/* What holds of a partition; of each list, the record that has it, and its length. */
typedef struct {
    i32 source[LISTS], length[LISTS], leader, recovery;
    i64 leader_epoch, partition_epoch;
    int is_live, topic_came;
} Version;

static inline int is_odd(i32 recovery) { return recovery < -1 || recovery > RECOVERING; }

/* The list of directories that a list of replicas has where none is named: the caller has one for
   each length, behind the records. */
static inline i32 migrating(const Version *one, i32 records, const i32 *sizes) {
    return records + (one->length[REPLICAS] > 0 ? sizes[one->length[REPLICAS]] : 0);
}

static int put(Version *one, const Record *record, i32 source, i32 records, const i32 *sizes) {
    int bad = is_odd(record->recovery) || record->recovery < 0;
    for (int list = 0; list < LISTS; list++) {
        int is_elr = list == ELR || list == LAST_KNOWN_ELR;
        one->source[list] = is_elr && record->length[list] <= 0 ? records : source;
        one->length[list] = is_elr && record->length[list] < 0 ? 0 : record->length[list];
        bad |= one->length[list] < 0 && list != DIRECTORIES;
    }
    if (record->length[DIRECTORIES] <= 0)
        one->source[DIRECTORIES] = migrating(one, records, sizes);
    else
        bad |= record->length[DIRECTORIES] != one->length[REPLICAS];
    one->leader = record->leader;
    one->recovery = record->recovery;
    one->leader_epoch = record->leader_epoch;
    one->partition_epoch = record->partition_epoch;
    one->is_live = 1;
    return bad;
}

static int change(Version *one, const Record *record, i32 source, i32 records, const i32 *sizes) {
    i32 replicas = one->length[REPLICAS], directories = record->length[DIRECTORIES];
    int bad = is_odd(record->recovery);
    for (int list = 0; list < LISTS; list++)
        if (record->length[list] >= 0) {
            one->source[list] = source;
            one->length[list] = record->length[list];
        }
    if (directories == 0)
        one->source[DIRECTORIES] = migrating(one, records, sizes);
    else if (directories > 0)
        bad |= directories != one->length[REPLICAS];
    else
        bad |= replicas != one->length[REPLICAS];
    if (record->leader != NO_CHANGE) {
        one->leader = record->leader;
        one->leader_epoch++;
    }
    if (record->recovery >= 0)
        one->recovery = record->recovery;
    one->partition_epoch++;
    return bad;
}

static int clear(Version *one, i32 records) {
    if (one->length[ELR] + (i64)one->length[LAST_KNOWN_ELR] <= 0)
        return 0;
    one->source[ELR] = one->source[LAST_KNOWN_ELR] = records;
    one->length[ELR] = one->length[LAST_KNOWN_ELR] = 0;
    one->partition_epoch++;
    return 1;
}

EXPORT i64 kraftlog_fold(i64 events, const i64 *keys, const i8 *kinds, const i32 *source,
                         const u8 *alive, const Record *table, i32 records, const i32 *sizes,
                         i32 *lists, i32 *leader, i32 *recovery, i32 *leader_epoch,
                         i32 *partition_epoch, u8 *begins, u8 *live, u8 *bad) {
    Version one = {{0}, {0}, 0, 0, 0, 0, 0, 0};
    for (i64 at = 0; at < events; at++) {
        if (at + AHEAD < events && source[at + AHEAD] >= 0)
            __builtin_prefetch(&table[source[at + AHEAD]]);
        if (!at || keys[at] != keys[at - 1]) {
            one.is_live = 0;
            one.topic_came = alive[keys[at] >> 32];
        }
        const Record *record = &table[source[at] < 0 ? 0 : source[at]];
        int begun = 0, is_bad = 0;
        switch (kinds[at]) {
        case TOPIC_CAME:
        case TOPIC_WENT:
            one.topic_came = kinds[at] == TOPIC_CAME;
            one.is_live = 0;
            break;
        case PUT:
            is_bad = put(&one, record, source[at], records, sizes) || !one.topic_came;
            begun = 1;
            break;
        case CHANGE:
            begun = one.is_live;
            is_bad = !one.is_live || change(&one, record, source[at], records, sizes);
            break;
        default:
            begun = one.is_live && clear(&one, records);
        }
        is_bad |= one.is_live &&
                  (one.leader_epoch > LAST_INT || one.partition_epoch > LAST_INT);
        for (int list = 0; list < LISTS; list++)
            lists[list * events + at] = one.source[list];
        leader[at] = one.leader;
        recovery[at] = one.recovery;
        leader_epoch[at] = (i32)one.leader_epoch;
        partition_epoch[at] = (i32)one.partition_epoch;
        begins[at] = (u8)begun;
        live[at] = (u8)one.is_live;
        bad[at] = (u8)is_bad;
    }
    return events;
}

/* A column of lists of 32 bits: that at `index` of each of many; beyond the last one all are empty. */
typedef struct {
    const i32 *index, *offsets, *values;
    i64 count;
} Lists;

static inline i32 held(const Lists *lists, i64 at, const i32 **values) {
    i32 index = lists->index[at];
    if (index >= lists->count)
        return 0;
    *values = lists->values + lists->offsets[index];
    return lists->offsets[index + 1] - lists->offsets[index];
}

static inline int is_in(const i32 *values, i32 count, i32 value) {
    for (i32 at = 0; at < count; at++)
        if (values[at] == value)
            return 1;
    return 0;
}

enum { LONG = 64 };

EXPORT void kraftlog_repeats(i64 rows, const i32 *index, const i32 *offsets, const i32 *values,
                             i64 count, u8 *out) {
    Lists lists = {index, offsets, values, count};
    for (i64 row = 0; row < rows; row++) {
        const i32 *from = values;
        i32 size = held(&lists, row, &from);
        out[row] = size > LONG;
        for (i32 at = 1; at < size && !out[row]; at++)
            out[row] = (u8)is_in(from, at, from[at]);
    }
}

EXPORT void kraftlog_outside(i64 rows, const i32 *index, const i32 *offsets, const i32 *values,
                             i64 count, const i32 *within_index, const i32 *within_offsets,
                             const i32 *within_values, i64 within_count, u8 *out) {
    Lists lists = {index, offsets, values, count};
    Lists within = {within_index, within_offsets, within_values, within_count};
    for (i64 row = 0; row < rows; row++) {
        const i32 *from = values, *of = within_values;
        i32 size = held(&lists, row, &from), all = size ? held(&within, row, &of) : 0;
        out[row] = size > LONG || all > LONG;
        for (i32 at = 0; at < size && !out[row]; at++)
            out[row] = !is_in(of, all, from[at]);
    }
}

EXPORT void kraftlog_holds(i64 rows, const i32 *index, const i32 *offsets, const i32 *values,
                           i64 count, const i32 *wanted, u8 *out) {
    Lists lists = {index, offsets, values, count};
    for (i64 row = 0; row < rows; row++) {
        const i32 *from = values;
        i32 size = held(&lists, row, &from);
        out[row] = (u8)is_in(from, size, wanted[row]);
    }
}

EXPORT i64 kraftlog_ends(i64 rows, const i32 *index, const i32 *offsets, i64 count, i32 *ends) {
    Lists lists = {index, offsets, offsets, count};
    const i32 *from;
    i64 total = 0;
    ends[0] = 0;
    for (i64 row = 0; row < rows; row++) {
        total += held(&lists, row, &from);
        ends[row + 1] = (i32)total;
    }
    return total;
}

EXPORT void kraftlog_taken(i64 rows, const i32 *index, const i32 *offsets, const i32 *values,
                           i64 count, i32 *out) {
    Lists lists = {index, offsets, values, count};
    for (i64 row = 0; row < rows; row++) {
        const i32 *from = values;
        for (i32 left = held(&lists, row, &from); left > 0; left--)
            *out++ = *from++;
    }
}

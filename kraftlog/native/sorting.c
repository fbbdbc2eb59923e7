/* Numbers in order.

   In: numbers, and as much room again. Out: the same numbers, in one of the two. What is asked of the
   arrays is in sorting.py, which alone calls this. Nothing is allocated, nothing is kept. */

#include "types.h"

enum { DIGIT = 8, DIGITS = 1 << DIGIT };

/* Digit by digit from the lowest on, each of which leaves what is equal as it was; says in which of
   the two the numbers are then. */
EXPORT i64 kraftlog_sort(u64 *from, u64 *to, i64 count, i64 first, i64 end) {
    i64 turns = 0;
    for (i64 bit = first; bit < end; bit += DIGIT, turns++) {
        i64 places[DIGITS], before = 0;
        for (i64 digit = 0; digit < DIGITS; digit++)
            places[digit] = 0;
        for (i64 at = 0; at < count; at++)
            places[from[at] >> bit & (DIGITS - 1)]++;
        for (i64 digit = 0; digit < DIGITS; digit++) {
            i64 here = places[digit];
            places[digit] = before;
            before += here;
        }
        for (i64 at = 0; at < count; at++)
            to[places[from[at] >> bit & (DIGITS - 1)]++] = from[at];
        u64 *turned = from;
        from = to;
        to = turned;
    }
    return turns & 1;
}

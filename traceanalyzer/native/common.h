/* Shared by the native functions. They are C11 without dependencies. They allocate nothing, do no
 * I/O, and have no global state, so any number of threads can call them.
 *
 * Each function takes one struct, which `native/__init__.py` lays out slot by slot: a pointer and a
 * length for each column, or a 64-bit number. The columns of a call do not overlap. No function
 * reads or writes outside its columns, whatever numbers they contain: if an index is out of range,
 * the function returns REFUSED. Each function's comment lists its other preconditions. Sums of
 * times wrap around, in unsigned arithmetic.
 */
#ifndef TRACEANALYZER_COMMON_H
#define TRACEANALYZER_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define COLUMN(type)                                                                               \
    struct {                                                                                       \
        type *restrict at;                                                                         \
        int64_t size;                                                                              \
    }

enum { REFUSED = -1 }; /* column lengths do not match, or an index is out of range */

static const int64_t LONG_AGO = INT64_MIN; /* before every time in a trace */

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline bool is_within(int64_t index, int64_t size) { return index >= 0 && index < size; }

/* Return whether `begin` contains ascending bounds of ranges within `size` rows. */
static inline bool are_bounds(const int64_t *begin, int64_t n, int64_t size)
{
    for (int64_t k = 0; k < n; k++) {
        if (begin[k] < (k ? begin[k - 1] : 0) || begin[k] > size) {
            return false;
        }
    }
    return true;
}

/* Return the first index from `low` on whose value is at least `value`, or above it. */
static inline int64_t
search(const int64_t *values, int64_t low, int64_t high, int64_t value, bool above)
{
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (values[middle] < value || (above && values[middle] == value)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Return the last entry of `call` up to a time, or -1; entries are sorted by id, then by time. */
static inline int64_t
last_of_call(const int64_t *id, const int64_t *ps, int64_t n, int64_t call, int64_t at_ps)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (id[middle] < call || (id[middle] == call && ps[middle] <= at_ps)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return call != 0 && low > 0 && id[low - 1] == call ? low - 1 : -1;
}

#endif

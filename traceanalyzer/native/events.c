/* Loops over events that no array operation expresses. */
#include "common.h"

struct innermost {
    COLUMN(const int64_t) order; /* line by line, by start, an enclosing event first */
    COLUMN(const int64_t) line_begin, start_ps, end_ps;
    COLUMN(const uint8_t) is_container;
    COLUMN(int64_t) stack; /* scratch space: as long as `order` */
    COLUMN(int64_t) found;
};

/* Find the innermost container of each event, -1 for none. Events that are not in `order` keep
 * their entry. Takes linear time. */
EXPORT int64_t innermost(const struct innermost *c)
{
    int64_t n = c->start_ps.size;
    const int64_t *start = c->start_ps.at, *end = c->end_ps.at;
    int64_t *stack = c->stack.at;
    if (c->end_ps.size != n || c->is_container.size != n || c->found.size != n ||
        c->stack.size < c->order.size ||
        !are_bounds(c->line_begin.at, c->line_begin.size, c->order.size)) {
        return REFUSED;
    }
    for (int64_t line = 0; line + 1 < c->line_begin.size; line++) {
        int64_t depth = 0;
        for (int64_t k = c->line_begin.at[line]; k < c->line_begin.at[line + 1]; k++) {
            int64_t e = c->order.at[k];
            if (!is_within(e, n)) {
                return REFUSED;
            }
            /* An event without duration belongs to the event that ends at the same time. */
            while (depth > 0 && end[stack[depth - 1]] <= start[e] &&
                   !(end[e] == start[e] && end[stack[depth - 1]] == start[e])) {
                depth--;
            }
            c->found.at[e] = depth > 0 ? stack[depth - 1] : -1;
            if (c->is_container.at[e]) {
                stack[depth++] = e;
            }
        }
    }
    return 0;
}

struct sum_by {
    COLUMN(const int64_t) codes, values;
    COLUMN(int64_t) sums;
};

/* Add each value to the sum at its code, modulo 2^64; negative codes are left out. */
EXPORT int64_t sum_by(const struct sum_by *c)
{
    if (c->values.size != c->codes.size) {
        return REFUSED;
    }
    for (int64_t k = 0; k < c->codes.size; k++) {
        int64_t code = c->codes.at[k];
        if (code >= c->sums.size) {
            return REFUSED;
        }
        if (code >= 0) {
            c->sums.at[code] = (int64_t)((uint64_t)c->sums.at[code] + (uint64_t)c->values.at[k]);
        }
    }
    return 0;
}

struct flatten {
    COLUMN(const int64_t) order; /* as for innermost */
    COLUMN(const int64_t) line_begin, start_ps, end_ps;
    COLUMN(const int8_t) label; /* of each event; events with a negative label are left out */
    COLUMN(int64_t) stack;      /* scratch space: as long as `order` */
    COLUMN(int64_t) segment_begin; /* first segment of each line, and their number */
    COLUMN(int64_t) segment_start, segment_end, segment_event; /* two per labeled event */
};

/* Divide each line's nested events into segments that do not overlap; return their number.
 *
 * A segment belongs to the innermost labeled event that covers it. An event begins at most one
 * segment and ends at most one.
 */
EXPORT int64_t flatten(const struct flatten *c)
{
    int64_t events = c->start_ps.size, room = c->segment_start.size, n = 0;
    const int64_t *start = c->start_ps.at, *end = c->end_ps.at;
    int64_t *stack = c->stack.at;
    if (c->end_ps.size != events || c->label.size != events || c->stack.size < c->order.size ||
        c->segment_begin.size != c->line_begin.size || c->segment_begin.size < 1 ||
        c->segment_end.size != room || c->segment_event.size != room ||
        !are_bounds(c->line_begin.at, c->line_begin.size, c->order.size)) {
        return REFUSED;
    }
    c->segment_begin.at[0] = 0;
    for (int64_t line = 0; line + 1 < c->line_begin.size; line++) {
        int64_t depth = 0, cursor = LONG_AGO, stop = c->line_begin.at[line + 1];
        for (int64_t k = c->line_begin.at[line]; k <= stop; k++) {
            bool is_over = k == stop;
            int64_t e = is_over ? 0 : c->order.at[k];
            if (!is_over && !is_within(e, events)) {
                return REFUSED;
            }
            if (!is_over && c->label.at[e] < 0) {
                continue;
            }
            if (n + depth + !is_over > room) {
                return REFUSED;
            }
            while (depth > 0 && (is_over || end[stack[depth - 1]] <= start[e])) {
                int64_t top = stack[--depth];
                if (end[top] > cursor) {
                    c->segment_start.at[n] = cursor;
                    c->segment_end.at[n] = end[top];
                    c->segment_event.at[n++] = top;
                    cursor = end[top];
                }
            }
            if (is_over) {
                break;
            }
            if (depth > 0 && start[e] > cursor) {
                c->segment_start.at[n] = cursor;
                c->segment_end.at[n] = start[e];
                c->segment_event.at[n++] = stack[depth - 1];
            }
            cursor = most(cursor, start[e]);
            stack[depth++] = e;
        }
        c->segment_begin.at[line + 1] = n;
    }
    return n;
}

struct begun_by_call {
    COLUMN(const int32_t) turn_thread; /* executor events, by thread, then by time */
    COLUMN(const int64_t) turn_start, turn_end, turn_call;
    COLUMN(const int32_t) link_thread; /* links, by thread, then by time */
    COLUMN(const int64_t) link_at;
    COLUMN(const int64_t) call_id, call_ps; /* ends of events in calls, by id, then by time */
    COLUMN(int64_t) found;
};

/* Find the trigger of each executor event: the last event of its call that ended before it began.
 * -1 if a link shows the trigger, if another event contains this one, or if none ended before. */
EXPORT int64_t begun_by_call(const struct begun_by_call *c)
{
    int64_t n = c->turn_thread.size, links = c->link_thread.size, link = 0, busy_until = LONG_AGO;
    if (c->turn_start.size != n || c->turn_end.size != n || c->turn_call.size != n ||
        c->found.size != n || c->link_at.size != links || c->call_ps.size != c->call_id.size) {
        return REFUSED;
    }
    for (int64_t k = 0; k < n; k++) {
        int32_t thread = c->turn_thread.at[k];
        int64_t begins = c->turn_start.at[k];
        if (k == 0 || c->turn_thread.at[k - 1] != thread) {
            busy_until = LONG_AGO;
        }
        while (link < links &&
               (c->link_thread.at[link] < thread ||
                (c->link_thread.at[link] == thread && c->link_at.at[link] <= begins))) {
            link++;
        }
        bool is_inner = begins < busy_until;
        bool is_linked = link > 0 && c->link_thread.at[link - 1] == thread &&
                         c->link_at.at[link - 1] >= busy_until;
        busy_until = most(busy_until, c->turn_end.at[k]);
        c->found.at[k] = is_inner || is_linked
                             ? -1
                             : last_of_call(c->call_id.at, c->call_ps.at, c->call_id.size,
                                            c->turn_call.at[k], begins);
    }
    return 0;
}

/* ------------------------------------------------------------------ events and records */

struct align {
    COLUMN(const int32_t) event_op;
    COLUMN(const int64_t) event_begin, event_end; /* of each stretch */
    COLUMN(const int32_t) record_op, record_signature;
    COLUMN(const int64_t) record_begin, record_end; /* of each stretch */
    COLUMN(const uint8_t) is_open; /* whether the end of a stretch's records is unknown */
    int64_t most_pairs;            /* skip a stretch that differs if it needs more comparisons */
    COLUMN(int32_t) before, after; /* scratch space: (events + 1) * (records + 1) of a stretch */
    COLUMN(int64_t) found;         /* the record of each event; unchanged if unknown */
};

/* Fill `length`, (n + 1) * (m + 1), with the length of the longest common subsequence of each
 * prefix of `a` and each prefix of `b`; with `from_end`, of each suffix. */
static void common_lengths(const int32_t *a, int64_t n, const int32_t *b, int64_t m, bool from_end,
                           int32_t *length)
{
    for (int64_t j = 0; j <= m; j++) {
        length[j] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t *above = length + i * (m + 1), *row = above + m + 1;
        int32_t op = a[from_end ? n - 1 - i : i];
        row[0] = 0;
        for (int64_t j = 0; j < m; j++) {
            bool is_same = op == b[from_end ? m - 1 - j : j];
            row[j + 1] = is_same ? above[j] + 1 : (int32_t)most(above[j + 1], row[j]);
        }
    }
}

/* Pair the events of a stretch that every longest common subsequence pairs, always with records of
 * the same signature. */
static void align_uncertain(const struct align *c, int64_t e, int64_t n, int64_t r, int64_t m)
{
    const int32_t *event_op = c->event_op.at + e, *record_op = c->record_op.at + r;
    const int32_t *signature = c->record_signature.at + r;
    const int32_t *before = c->before.at, *after = c->after.at;
    common_lengths(event_op, n, record_op, m, false, c->before.at);
    common_lengths(event_op, n, record_op, m, true, c->after.at);
    int32_t longest = before[n * (m + 1) + m];
    for (int64_t i = 0; i < n; i++) {
        const int32_t *head = before + i * (m + 1), *tail = after + (n - i - 1) * (m + 1);
        int64_t found = -1;
        for (int64_t j = 0; j <= m; j++) {
            if (head[j] + tail[m - j] == longest) {
                found = -1; /* one of them leaves the event out */
                break;
            }
            if (j < m && event_op[i] == record_op[j] && head[j] + 1 + tail[m - j - 1] == longest) {
                if (found >= 0 && signature[found] != signature[j]) {
                    found = -1;
                    break;
                }
                found = j;
            }
        }
        if (found >= 0) {
            c->found.at[e + i] = r + found;
        }
    }
}

/* Find the record of each event, stretch by stretch; see `tables/joined.py`. Takes linear time
 * plus at most `most_pairs` comparisons for each stretch that differs. */
EXPORT int64_t align(const struct align *c)
{
    int64_t stretches = c->event_begin.size;
    if (c->event_end.size != stretches || c->record_begin.size != stretches ||
        c->record_end.size != stretches || c->is_open.size != stretches ||
        c->record_signature.size != c->record_op.size || c->found.size != c->event_op.size) {
        return REFUSED;
    }
    for (int64_t s = 0; s < stretches; s++) {
        int64_t e = c->event_begin.at[s], e_end = c->event_end.at[s];
        int64_t r = c->record_begin.at[s], r_end = c->record_end.at[s], same = 0;
        if (e_end <= e || r_end <= r) {
            continue;
        }
        if (e < 0 || e_end > c->event_op.size || r < 0 || r_end > c->record_op.size) {
            return REFUSED;
        }
        int64_t n = e_end - e, m = r_end - r, shorter = least(n, m);
        while (same < shorter && c->event_op.at[e + same] == c->record_op.at[r + same]) {
            same++;
        }
        if (same == shorter && (n == m || c->is_open.at[s])) {
            for (int64_t k = 0; k < same; k++) {
                c->found.at[e + k] = r + k;
            }
        } else if (n <= c->most_pairs / m) {
            if (n + 1 > least(c->before.size, c->after.size) / (m + 1)) {
                return REFUSED;
            }
            align_uncertain(c, e, n, r, m);
        }
    }
    return 0;
}

/* Calls the native functions with damaged traces and with columns of random numbers.
 *
 * Usage: fuzz INPUTS SEED TRACE...
 *
 * To be compiled with address and undefined-behaviour sanitizers: every column is a block of its
 * own, of its exact size, so whatever is read or written outside ends the process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../traceanalyzer/native/wire.c"

#include "../../traceanalyzer/native/events.c"
#include "../../traceanalyzer/native/walk.c"

#define CHECK(condition)                                                                           \
    if (!(condition)) {                                                                            \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
        abort();                                                                                   \
    }

/* Give a column `n` entries, the k-th being `value`. */
#define FILL(type, column, n, value)                                                               \
    do {                                                                                           \
        int64_t n_ = (n);                                                                          \
        type *at_ = take((size_t)n_ * sizeof(type));                                               \
        for (int64_t k = 0; k < n_; k++) {                                                         \
            at_[k] = (type)(value);                                                                \
        }                                                                                          \
        (column).at = at_;                                                                         \
        (column).size = n_;                                                                        \
    } while (0)

static uint64_t state;
static void *blocks[256];
static int n_blocks;
static bool is_wild; /* whether numbers may be anything */
static int64_t tame;  /* how many are not, for one that is */

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int64_t below(int64_t n) { return n > 0 ? (int64_t)(draw() % (uint64_t)n) : 0; }
static bool rarely(void) { return is_wild && below(tame) == 0; }

static void *take(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    CHECK(block && n_blocks < 256);
    return blocks[n_blocks++] = block;
}

static void free_all(void)
{
    while (n_blocks) {
        free(blocks[--n_blocks]);
    }
}

static int64_t any(void)
{
    static const int64_t edges[] = {0, 1, -1, INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 1 << 30};
    return below(2) ? edges[below(8)] : (int64_t)draw();
}

static int64_t number(int64_t low, int64_t high)
{
    return !rarely() ? low + below(high - low) : below(2) ? high + below(2) : any();
}

static int64_t size(int64_t n) { return is_wild && below(400) == 0 ? below(12) : n; }
static int64_t ascending(int64_t *last) { return rarely() ? any() : (*last += below(6)); }

/* Bounds of `n` ranges within `rows`. */
static int64_t bound(int64_t k, int64_t n, int64_t rows, int64_t *last)
{
    *last = k == n ? rows : *last + below(rows - *last + 1);
    return rarely() ? any() : *last;
}

/* ------------------------------------------------------------------------ traces */

static void mutate(uint8_t *bytes, int64_t n, int64_t times)
{
    static const uint8_t telling[] = {0x00, 0x07, 0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x7f, 0x80, 0xff};
    while (n && times--) {
        int64_t at = below(n), from = below(n), length = below(20);
        switch (below(4)) {
        case 0: bytes[at] ^= (uint8_t)(1 << below(8)); break;
        case 1: bytes[at] = telling[below(10)]; break;
        case 2: bytes[at] = (uint8_t)draw(); break;
        default: memmove(bytes + at, bytes + from, (size_t)least(length, n - most(at, from)));
        }
    }
}

static void room_for_space(struct scan_space *c, int64_t planes, int64_t strings)
{
    FILL(int64_t, c->plane_begin, planes, 0);
    FILL(int64_t, c->plane_end, planes, 0);
    FILL(uint8_t, c->string_field, strings, 0);
    FILL(int64_t, c->string_at, strings, 0);
}

static void room_for_planes(struct walk_planes *c, int64_t planes, const int64_t *found)
{
    FILL(int64_t, c->planes, 7 * planes, 0);
    FILL(int64_t, c->lines, 5 * found[0], 0);
    FILL(int64_t, c->entries, 4 * found[1], 0);
    FILL(int64_t, c->names, 2 * found[2], 0);
    FILL(int64_t, c->stat_id, found[3], 0);
    FILL(uint8_t, c->stat_kind, found[3], 0);
    FILL(uint64_t, c->stat_value, found[3], 0);
}

static void read_texts(const uint8_t *bytes, int64_t n, const uint64_t *value, int64_t stats)
{
    struct string_bounds bounds;
    struct intern_strings interned;
    bounds.bytes.at = interned.bytes.at = bytes;
    bounds.bytes.size = interned.bytes.size = n;
    FILL(int64_t, bounds.at, stats, value[k]);
    FILL(int64_t, bounds.begin, stats, 0);
    FILL(int64_t, bounds.end, stats, 0);
    CHECK(string_bounds(&bounds) == 0);
    for (int64_t k = 0; k < stats; k++) {
        CHECK(0 <= bounds.begin.at[k] && bounds.begin.at[k] <= bounds.end.at[k] &&
              bounds.end.at[k] <= n);
    }
    interned.seed = (int64_t)draw();
    FILL(int64_t, interned.at, stats, value[k]);
    FILL(int32_t, interned.codes, stats, -1);
    FILL(int64_t, interned.first, stats, -1);
    FILL(uint64_t, interned.hashes, stats, 0);
    FILL(int64_t, interned.done, 2, 0);
    for (int64_t room = 2; interned.done.at[0] < stats; room *= 4) {
        FILL(int32_t, interned.table, room, 0);
        CHECK(intern_strings(&interned) == 0);
    }
    for (int64_t k = 0; k < stats; k++) { /* equal strings, and they alone, have one code */
        int64_t first = interned.first.at[interned.codes.at[k]];
        int64_t other = below(stats);
        message a = string_at(bytes, n, bounds.at.at[k]);
        CHECK(is_equal(a, string_at(bytes, n, first)));
        CHECK(is_equal(a, string_at(bytes, n, bounds.at.at[other])) ==
              (interned.codes.at[k] == interned.codes.at[other]));
    }
}

static void find_ids(const struct fill_lines *c)
{
    struct find_stat f = {.stat_id = c->stat_id};
    int64_t n = c->metadata_id.size, last = below(4);
    FILL(int64_t, f.begin, n, rarely() ? any() : c->first_stat.at[k]);
    FILL(int64_t, f.end, n, rarely() ? any() : c->first_stat.at[k + 1]);
    FILL(int64_t, f.wanted, 1 + below(3), (last += 1 + below(3)));
    FILL(int64_t, f.rows, size(n), -1);
    find_stat(&f);
}

static void decode(const uint8_t *bytes, int64_t n)
{
    struct scan_space space;
    struct walk_planes planes;
    struct scan_lines scan;
    struct fill_lines fill;
    uint8_t *b = take((size_t)n);
    bool is_changing = is_wild && below(4) == 0; /* a file that is written to meanwhile */
    memcpy(b, bytes, (size_t)n);

    space.bytes.at = planes.bytes.at = scan.bytes.at = fill.bytes.at = b;
    space.bytes.size = planes.bytes.size = scan.bytes.size = fill.bytes.size = n;
    FILL(int64_t, space.found, 4, 0);
    room_for_space(&space, 0, 0);
    CHECK(scan_space(&space) == 0);
    int64_t n_planes = space.found.at[0];
    room_for_space(&space, n_planes, space.found.at[1]);
    if (is_changing) {
        mutate(b, n, 2);
    }
    CHECK(scan_space(&space) == 0 && (is_changing || space.found.at[0] == n_planes));

    int64_t none[4] = {0};
    FILL(int64_t, planes.found, 6, 0);
    FILL(int64_t, planes.begin, n_planes, space.plane_begin.at[k]);
    FILL(int64_t, planes.end, n_planes, space.plane_end.at[k]);
    room_for_planes(&planes, 0, none);
    CHECK(walk_planes(&planes) == 0);
    int64_t found[4];
    memcpy(found, planes.found.at, sizeof found);
    room_for_planes(&planes, n_planes, found);
    if (is_changing) {
        mutate(b, n, 2);
    }
    CHECK(walk_planes(&planes) == 0);
    CHECK(is_changing || (!memcmp(found, planes.found.at, sizeof found) && !planes.found.at[4]));

    int64_t lines = found[0], own = found[3];
    const int64_t *header = planes.lines.at;
    FILL(int64_t, scan.begin, lines, header[3 * lines + k]);
    FILL(int64_t, scan.end, lines, header[4 * lines + k]);
    FILL(int64_t, scan.events, lines, 0);
    FILL(int64_t, scan.stats, lines, 0);
    FILL(int64_t, scan.found, 4, 0);
    scan.first = 0;
    scan.last = lines;
    CHECK(scan_lines(&scan) == 0);
    int64_t events = 0, stats = own;
    FILL(int64_t, fill.event_begin, lines + 1, events += k ? most(scan.events.at[k - 1] - rarely(), 0) : 0);
    FILL(int64_t, fill.stat_begin, lines + 1, stats += k ? most(scan.stats.at[k - 1] - rarely(), 0) : 0);
    fill.first = number(0, 2) ? 0 : below(lines + 1);
    fill.last = fill.first ? lines : number(lines, lines + 1);
    FILL(int64_t, fill.begin, lines, scan.begin.at[k]);
    FILL(int64_t, fill.end, lines, rarely() ? any() : scan.end.at[k]);
    FILL(int64_t, fill.timestamp_ns, lines, header[2 * lines + k]);
    if (scan.found.at[1]) {
        FILL(int64_t, fill.metadata_id, events, 0);
        FILL(int64_t, fill.stat_id, stats, 0);
        fill.metadata_id.width = fill.stat_id.width = 8;
    } else {
        FILL(int32_t, fill.metadata_id, events, 0);
        FILL(int32_t, fill.stat_id, stats, 0);
        fill.metadata_id.width = fill.stat_id.width = 4;
    }
    FILL(int64_t, fill.start_ps, events, 0);
    FILL(int64_t, fill.duration_ps, events, 0);
    FILL(int64_t, fill.first_stat, events + 1, stats);
    FILL(int64_t, fill.occurrences, scan.found.at[0] ? events : 0, 0);
    FILL(uint8_t, fill.stat_kind, stats, 0);
    FILL(uint64_t, fill.stat_value, stats, 0);
    memcpy(fill.stat_kind.at, planes.stat_kind.at, (size_t)own);
    memcpy(fill.stat_value.at, planes.stat_value.at, (size_t)own * 8);
    if (is_changing) {
        mutate(b, n, 2);
    }
    int64_t done = fill_lines(&fill);
    CHECK(is_wild || done == 0);
    read_texts(b, n, fill.stat_value.at, least(stats, 300));
    find_ids(&fill);
}

/* ------------------------------------------------------------------------ columns */

static void call_events(void)
{
    int64_t n = below(14), lines = 1 + below(3), last = 0;
    struct innermost in;
    FILL(int64_t, in.order, size(n), number(0, n));
    FILL(int64_t, in.line_begin, size(lines + 1), bound(k, lines, n, &last));
    FILL(int64_t, in.start_ps, size(n), number(0, 20));
    FILL(int64_t, in.end_ps, size(n), number(0, 29));
    FILL(uint8_t, in.is_container, size(n), draw());
    FILL(int64_t, in.stack, size(n), 0);
    FILL(int64_t, in.found, size(n), -1);
    CHECK(innermost(&in) == 0 || is_wild);

    struct flatten flat;
    int64_t labelled = 0;
    memcpy(&flat.order, &in.order, 4 * sizeof in.order); /* the four columns are the same */
    FILL(int8_t, flat.label, size(n), number(-2, 6));
    for (int64_t k = 0; k < flat.order.size; k++) {
        int64_t e = flat.order.at[k];
        labelled += is_within(e, flat.label.size) && flat.label.at[e] >= 0;
    }
    FILL(int64_t, flat.stack, size(n), 0);
    FILL(int64_t, flat.segment_begin, size(lines + 1), 0);
    FILL(int64_t, flat.segment_start, size(2 * labelled), 0);
    FILL(int64_t, flat.segment_end, size(flat.segment_start.size), 0);
    FILL(int64_t, flat.segment_event, size(flat.segment_start.size), 0);
    CHECK(flatten(&flat) >= 0 || is_wild);

    struct sum_by sums;
    FILL(int64_t, sums.codes, n, number(-1, 6));
    FILL(int64_t, sums.values, size(n), any());
    FILL(int64_t, sums.sums, size(6), 0);
    CHECK(sum_by(&sums) == 0 || is_wild);

    struct begun_by_call begun;
    int64_t links = below(9), ended = below(9), at[4] = {0};
    FILL(int32_t, begun.turn_thread, size(n), number(0, 3));
    FILL(int64_t, begun.turn_start, size(n), number(0, 20));
    FILL(int64_t, begun.turn_end, size(n), number(0, 30));
    FILL(int64_t, begun.turn_call, size(n), number(0, 3));
    FILL(int32_t, begun.link_thread, size(links), number(0, 3));
    FILL(int64_t, begun.link_at, size(links), ascending(&at[0]));
    FILL(int64_t, begun.call_id, size(ended), ascending(&at[1]) / 8);
    FILL(int64_t, begun.call_ps, size(ended), ascending(&at[2]));
    FILL(int64_t, begun.found, size(n), 0);
    CHECK(begun_by_call(&begun) == 0 || is_wild);

    struct align pairs;
    int64_t records = below(14), stretches = below(3), e[2] = {0}, r[2] = {0};
    FILL(int32_t, pairs.event_op, size(n), number(0, 3));
    FILL(int64_t, pairs.event_begin, size(stretches), bound(k, -1, n, &e[0]));
    FILL(int64_t, pairs.event_end, size(stretches), bound(k, stretches - 1, n, &e[1]));
    FILL(int32_t, pairs.record_op, size(records), number(0, 3));
    FILL(int32_t, pairs.record_signature, size(records), number(0, 3));
    FILL(int64_t, pairs.record_begin, size(stretches), bound(k, -1, records, &r[0]));
    FILL(int64_t, pairs.record_end, size(stretches), bound(k, stretches - 1, records, &r[1]));
    FILL(uint8_t, pairs.is_open, size(stretches), draw());
    pairs.most_pairs = number(0, 200);
    FILL(int32_t, pairs.before, size((n + 1) * (records + 1)), 0);
    FILL(int32_t, pairs.after, size((n + 1) * (records + 1)), 0);
    FILL(int64_t, pairs.found, size(n), -1);
    CHECK(align(&pairs) == 0 || is_wild);
}

static void call_walk(void)
{
    int64_t busy = below(6), copies = below(6), at[9] = {0};
    struct busy_and_idle cut;
    FILL(int64_t, cut.busy_start, size(busy), ascending(&at[0]));
    FILL(int64_t, cut.busy_end, size(busy), ascending(&at[1]));
    FILL(int64_t, cut.transfer_start, size(copies), ascending(&at[2]));
    FILL(int64_t, cut.transfer_end, size(copies), number(0, 40));
    cut.from_ps = number(0, 20);
    cut.to_ps = number(10, 40);
    int64_t room = 2 * (busy + copies) + 1;
    FILL(int64_t, cut.start_ps, size(room), 0);
    FILL(int64_t, cut.end_ps, size(room), 0);
    FILL(uint8_t, cut.phase, size(room), 0);
    FILL(int64_t, cut.transfer, size(room), 0);
    int64_t parts = busy_and_idle(&cut);
    CHECK(parts >= 0 || is_wild);
    for (int64_t k = 0, t = cut.from_ps; k < parts; k++) { /* they follow on each other */
        CHECK(cut.start_ps.at[k] == t && cut.end_ps.at[k] > t);
        t = cut.end_ps.at[k];
        CHECK(k + 1 < parts || t == cut.to_ps);
    }

    struct walk_back walk;
    int64_t spans = below(4), threads = below(4), segments = below(12), links = below(8);
    int64_t calls = below(8), events = below(8);
    segments = threads ? segments : 0;
    links = threads ? links : 0;
    int64_t nested = below(3), ops = segments ? below(12) : 0;
    FILL(int64_t, walk.span_start, size(spans), number(0, 30));
    FILL(int64_t, walk.span_end, size(spans), number(20, 60));
    FILL(int32_t, walk.span_thread, size(spans), number(-1, threads));
    FILL(int64_t, walk.span_launch_start, size(spans), number(0, 60));
    FILL(int64_t, walk.span_launch_end, size(spans), number(0, 60));
    FILL(int64_t, walk.thread_begin, size(threads + 1), bound(k, threads, segments, &at[3]));
    FILL(uint8_t, walk.is_program, size(threads), below(3) == 0);
    FILL(int64_t, walk.segment_start, size(segments), ascending(&at[4]));
    FILL(int64_t, walk.segment_end, size(segments), number(0, 60));
    FILL(uint8_t, walk.segment_state, size(segments), number(0, 8));
    FILL(int32_t, walk.segment_row, size(segments), number(-1, 5));
    FILL(int64_t, walk.segment_call, size(segments), number(0, 3));
    FILL(int64_t, walk.link_begin, size(threads + 1), bound(k, threads, links, &at[5]));
    FILL(int64_t, walk.link_at, size(links), number(0, 60));
    FILL(int32_t, walk.link_from_thread, size(links), number(-1, threads));
    FILL(int64_t, walk.link_from, size(links), number(0, 60));
    FILL(int64_t, walk.call_id, size(calls), ascending(&at[6]) / 8);
    FILL(int64_t, walk.call_ps, size(calls), number(0, 60));
    FILL(int32_t, walk.call_thread, size(calls), number(-1, threads));
    FILL(int64_t, walk.nested_call, size(nested), k + 1);
    FILL(int64_t, walk.outermost_call, size(nested), number(0, 3));
    FILL(int64_t, walk.op_call, size(ops), ascending(&at[8]) / 8);
    FILL(int64_t, walk.op_end, size(ops), number(0, 60));
    FILL(int64_t, walk.op_segment, size(ops), number(0, segments));
    FILL(int64_t, walk.op_earliest, size(ops), 0);
    FILL(int64_t, walk.device_end, size(events), ascending(&at[7]));
    FILL(int64_t, walk.done, size(2), 0);
    /* In small steps: room for what was found before, and a little more. */
    for (room = 1; room < 4000; room *= 2) {
        FILL(int64_t, walk.part_start, size(room), 0);
        FILL(int64_t, walk.part_end, size(room), 0);
        FILL(uint8_t, walk.part_phase, size(room), 0);
        FILL(int32_t, walk.part_row, size(room), 0);
        FILL(uint8_t, walk.part_other, size(room), 0);
        int64_t done = walk_back(&walk);
        CHECK(done == 0 || is_wild);
        if (done || walk.done.at[0] == spans) {
            break;
        }
    }
    CHECK(room < 4000 || is_wild);
}

static uint8_t *content_of(const char *path, int64_t *n)
{
    FILE *file = fopen(path, "rb");
    CHECK(file && !fseek(file, 0, SEEK_END));
    *n = ftell(file);
    uint8_t *bytes = malloc((size_t)*n + 1);
    rewind(file);
    CHECK(bytes && fread(bytes, 1, (size_t)*n, file) == (size_t)*n);
    fclose(file);
    return bytes;
}

int main(int n_arguments, char **arguments)
{
    CHECK(n_arguments > 3);
    int traces = n_arguments - 3;
    int64_t inputs = atoll(arguments[1]), *sizes = malloc((size_t)traces * sizeof *sizes);
    uint8_t **contents = malloc((size_t)traces * sizeof *contents);
    CHECK(sizes && contents);
    state = 0x9e3779b97f4a7c15u ^ strtoull(arguments[2], NULL, 10);
    for (int k = 0; k < traces; k++) {
        contents[k] = content_of(arguments[k + 3], &sizes[k]);
    }
    for (int64_t k = 0; k < inputs; k++) {
        int64_t which = below(traces), n = sizes[which], kind = below(8);
        is_wild = below(4) != 0;
        tame = below(2) ? 20 : 300;
        if (kind < 5) {
            n = below(8) ? n : below(n + 1); /* some are cut */
            n = kind ? n : least(n, below(60));
            uint8_t *bytes = take((size_t)n);
            for (int64_t i = 0; i < n; i++) {
                bytes[i] = kind ? contents[which][i] : (uint8_t)draw();
            }
            mutate(bytes, n, kind ? below(8) : 1);
            decode(bytes, n);
        } else if (kind == 5) {
            call_events();
        } else {
            call_walk();
        }
        free_all();
    }
    for (int k = 0; k < traces; k++) {
        free(contents[k]);
    }
    free(contents);
    free(sizes);
    printf("%lld inputs\n", (long long)inputs);
    return 0;
}

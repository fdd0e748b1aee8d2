/* Divides a device's time into phases, and walks back from an event to the events it waited for. */
#include "common.h"

/* As in `ThreadState` and `Phase`; the other thread states are phases, too. */
enum { WAIT = 5, CALL = 6 };
enum {
    HOST_OP = 0,
    INPUT = 1,
    LAUNCH = 2,
    RUNTIME = 3,
    PROGRAM = 4,
    UNPLACED = 7,
    COMPUTE = 8,
    COPY = 9,
    QUEUED = 10,
    OTHER_DEVICE = 11,
    UNATTRIBUTED = 12
};
enum { ON_DEVICE = -1 }; /* as in `tables/thread_activity.py` */
enum { MOST_JUMPS = 64 };  /* from thread to thread at the same time */

struct busy_and_idle {
    COLUMN(const int64_t) busy_start, busy_end; /* when any kernel ran: disjoint, ascending */
    COLUMN(const int64_t) transfer_start, transfer_end; /* transfers, by start */
    int64_t from_ps, to_ps;
    COLUMN(int64_t) start_ps, end_ps; /* of each part; room for two per time above, and one */
    COLUMN(uint8_t) phase;
    COLUMN(int64_t) transfer; /* -1 for none */
};

/* Divide a device's time into computing, copying, and idle time, which is not attributed; return
 * the number of parts. They are adjacent. If transfers overlap, the one that began first counts. */
EXPORT int64_t busy_and_idle(const struct busy_and_idle *c)
{
    int64_t busy = c->busy_start.size, transfers = c->transfer_start.size, room = c->start_ps.size;
    int64_t at = c->from_ps, b = 0, next = 0, n = 0;
    int64_t current = -1; /* of the transfers that are running, the one that began first */
    if (c->busy_end.size != busy || c->transfer_end.size != transfers || c->end_ps.size != room ||
        c->phase.size != room || c->transfer.size != room || room < 2 * (busy + transfers) + 1) {
        return REFUSED;
    }
    for (; at < c->to_ps && n < room; n++) {
        int64_t until = c->to_ps, which = -1;
        uint8_t phase;
        while (b < busy && c->busy_end.at[b] <= at) {
            b++;
        }
        if (b < busy && c->busy_start.at[b] <= at) {
            until = least(until, c->busy_end.at[b]);
            phase = COMPUTE;
        } else {
            if (b < busy) {
                until = least(until, c->busy_start.at[b]);
            }
            if (current >= 0 && c->transfer_end.at[current] <= at) {
                current = -1;
            }
            for (; current < 0 && next < transfers && c->transfer_start.at[next] <= at; next++) {
                if (c->transfer_end.at[next] > at) {
                    current = next;
                }
            }
            if (current >= 0) {
                until = least(until, c->transfer_end.at[current]);
            } else if (next < transfers) {
                until = least(until, c->transfer_start.at[next]);
            }
            which = current;
            phase = current >= 0 ? COPY : UNATTRIBUTED;
        }
        c->start_ps.at[n] = at;
        c->end_ps.at[n] = until;
        c->phase.at[n] = phase;
        c->transfer.at[n] = which;
        at = until;
    }
    return n;
}

struct walk_back {
    /* Spans, each ended by an event: start, end; the thread that launched the event (ON_DEVICE:
     * unknown); when the launch began, and when it returned. */
    COLUMN(const int64_t) span_start, span_end;
    COLUMN(const int32_t) span_thread;
    COLUMN(const int64_t) span_launch_start, span_launch_end;
    /* Threads, each with its segments by time. */
    COLUMN(const int64_t) thread_begin; /* first segment, and their number */
    COLUMN(const uint8_t) is_program;
    COLUMN(const int64_t) segment_start, segment_end;
    COLUMN(const uint8_t) segment_state;
    COLUMN(const int32_t) segment_row;
    COLUMN(const int64_t) segment_call;
    /* Links, by thread, then by time: when the thread began, and its trigger. */
    COLUMN(const int64_t) link_begin, link_at; /* first link of each thread, and their number */
    COLUMN(const int32_t) link_from_thread;
    COLUMN(const int64_t) link_from;
    /* Beginnings of calls and ends of events in them, by call, then by time. */
    COLUMN(const int64_t) call_id, call_ps;
    COLUMN(const int32_t) call_thread;
    /* Calls that ops of other calls made, ascending, and the outermost call around each. */
    COLUMN(const int64_t) nested_call, outermost_call;
    /* Segments of ops in calls, by outermost call, then by end. */
    COLUMN(const int64_t) op_call, op_end, op_segment;
    /* Scratch space, as long as these: of the ops of a call that compute on the host and end then
     * or later, the segment that began first; -1 for none. */
    COLUMN(int64_t) op_earliest;
    /* Device events, by end. */
    COLUMN(const int64_t) device_end;
    /* Parts: start, end, phase, row (-1: none), the phase that may be meant instead. */
    COLUMN(int64_t) part_start, part_end;
    COLUMN(uint8_t) part_phase;
    COLUMN(int32_t) part_row;
    COLUMN(uint8_t) part_other;
    COLUMN(int64_t) done; /* spans, parts; zero at first */
};

/* The position of the walk: time `t` on a thread or, with ON_DEVICE, on the devices. */
typedef struct {
    int64_t t;
    int64_t launched, returned; /* the launch, if `t` is the start of an event that it launched */
    int64_t call;               /* the last call on the way */
    int32_t thread;
    bool at_launch;
} place;

/* The part that one step of the walk adds: [since, t). */
typedef struct {
    int64_t since;
    int32_t row;
    uint8_t phase;
    uint8_t other; /* of an op of the call that ran at the same time, or `phase` */
} part;

/* The ops of the call that a span waited for, from the latest end on: either those that compute
 * on the host, or all others. */
typedef struct {
    bool on_host;
    int64_t call;     /* the outermost one, 0 for none */
    int64_t next;     /* the next op: those with later ends are done with */
    int64_t earliest; /* of those, the segment that began first; -1 for none */
    int64_t late;     /* of the ops that ended after the walk came to the call, the same */
} awaited;

static bool are_threads(const int32_t *thread, int64_t n, int64_t threads)
{
    for (int64_t k = 0; k < n; k++) {
        if (thread[k] < ON_DEVICE || thread[k] >= threads) {
            return false;
        }
    }
    return true;
}

static bool are_segments(const int64_t *segment, int64_t n, int64_t segments)
{
    for (int64_t k = 0; k < n; k++) {
        if (!is_within(segment[k], segments)) {
            return false;
        }
    }
    return true;
}

/* Return whether column lengths match and indices are in range. */
static bool is_sound(const struct walk_back *c)
{
    int64_t spans = c->span_start.size, threads = c->is_program.size;
    int64_t segments = c->segment_start.size, links = c->link_at.size, calls = c->call_id.size;
    int64_t room = c->part_start.size;
    return c->span_end.size == spans && c->span_thread.size == spans &&
           c->span_launch_start.size == spans && c->span_launch_end.size == spans &&
           c->thread_begin.size == threads + 1 && c->segment_end.size == segments &&
           c->segment_state.size == segments && c->segment_row.size == segments &&
           c->segment_call.size == segments && c->link_begin.size == threads + 1 &&
           c->link_from_thread.size == links && c->link_from.size == links &&
           c->call_ps.size == calls && c->call_thread.size == calls &&
           c->outermost_call.size == c->nested_call.size && c->op_end.size == c->op_call.size &&
           c->op_segment.size == c->op_call.size && c->op_earliest.size == c->op_call.size &&
           are_segments(c->op_segment.at, c->op_segment.size, segments) &&
           c->part_end.size == room && c->part_phase.size == room && c->part_row.size == room &&
           c->part_other.size == room &&
           c->done.size == 2 &&
           are_threads(c->span_thread.at, spans, threads) &&
           are_threads(c->link_from_thread.at, links, threads) &&
           are_threads(c->call_thread.at, calls, threads) &&
           are_bounds(c->thread_begin.at, threads + 1, segments) &&
           are_bounds(c->link_begin.at, threads + 1, links);
}

/* Return the last device event that ended by a given time, -1 for none. */
static int64_t last_device_event(const struct walk_back *c, int64_t at_ps)
{
    return search(c->device_end.at, 0, c->device_end.size, at_ps, true) - 1;
}

static void follow_launch(const place *here, part *p, place *next)
{
    if (here->thread == ON_DEVICE) {
        return; /* the launch is unknown: the rest is not attributed */
    }
    if (here->returned < here->t) {
        p->since = here->returned;
        p->phase = QUEUED;
        next->at_launch = true;
    } else if (here->launched < here->t) {
        p->since = here->launched;
        p->phase = LAUNCH;
    } else {
        p->since = here->t;
    }
}

static void follow_device(const struct walk_back *c, const place *here, int64_t floor, part *p)
{
    int64_t d = last_device_event(c, here->t);
    if (d < 0) {
        if (!c->device_end.size) {
            p->phase = OTHER_DEVICE; /* the trace has no events of it */
        }
    } else if (c->device_end.at[d] <= floor) {
        p->phase = RUNTIME; /* the device was idle until the host noticed */
    } else if (c->device_end.at[d] == here->t) {
        p->phase = OTHER_DEVICE;
    } else {
        p->phase = RUNTIME; /* until the host noticed */
        p->since = c->device_end.at[d];
    }
}

/* Go back to the start of a segment or, if the thread waited, to the event that ended last. */
static void
follow_segment(const struct walk_back *c, const place *here, int64_t k, part *p, place *next)
{
    int64_t call = c->segment_call.at[k];
    p->since = c->segment_start.at[k];
    p->phase = c->segment_state.at[k];
    p->row = c->segment_row.at[k];
    if (call != 0) {
        next->call = call;
    }
    if (c->segment_state.at[k] == CALL) {
        int64_t last =
            last_of_call(c->call_id.at, c->call_ps.at, c->call_id.size, call, here->t);
        p->phase = RUNTIME;
        p->row = -1;
        if (call != 0 && last >= 0 && c->call_ps.at[last] > p->since &&
                   c->call_thread.at[last] != here->thread) {
            /* A caller waits for its whole call, so for the event that ended last. */
            p->since = c->call_ps.at[last];
            next->thread = c->call_thread.at[last];
        }
    } else if (c->segment_state.at[k] == WAIT) {
        int64_t d = last_device_event(c, here->t);
        p->phase = RUNTIME;
        p->row = -1;
        if (d >= 0 && c->device_end.at[d] > p->since) {
            p->since = c->device_end.at[d];
            next->thread = ON_DEVICE;
        }
    }
}

/* Lose the trail: all that is known is what the program itself did, on the thread `home`. False if
 * that is unknown, too. */
static bool go_home(const struct walk_back *c, int32_t home, int64_t t, part *p, place *next)
{
    if (home < 0) {
        return false;
    }
    int64_t low = c->thread_begin.at[home], high = c->thread_begin.at[home + 1];
    int64_t k = search(c->segment_start.at, low, high, t, false) - 1;
    next->thread = home;
    p->row = -1;
    if (k >= low && c->segment_end.at[k] >= t) {
        uint8_t state = c->segment_state.at[k];
        bool is_wait = state == CALL || state == WAIT;
        p->since = c->segment_start.at[k];
        p->phase = is_wait ? RUNTIME : state;
        p->row = is_wait ? -1 : c->segment_row.at[k];
        next->call = c->segment_call.at[k];
    } else {
        p->since = k >= low ? c->segment_end.at[k] : LONG_AGO;
        p->phase = PROGRAM;
    }
    return true;
}

static void follow_thread(const struct walk_back *c, int32_t home, const place *here, part *p,
                          place *next)
{
    int64_t low = c->thread_begin.at[here->thread], high = c->thread_begin.at[here->thread + 1];
    int64_t k = search(c->segment_start.at, low, high, here->t, false) - 1;
    int64_t first_link = c->link_begin.at[here->thread];
    int64_t end = c->link_begin.at[here->thread + 1];
    int64_t w = search(c->link_at.at, first_link, end, here->t, true);
    int64_t ended = k >= low ? c->segment_end.at[k] : LONG_AGO;
    w--;
    if (k >= low && ended >= here->t) {
        follow_segment(c, here, k, p, next);
    } else if (w >= first_link && c->link_at.at[w] >= ended) {
        p->phase = RUNTIME;
        p->since = ended; /* if the work was handed over earlier, the thread was busy */
        if (c->link_from.at[w] >= ended) {
            p->since = c->link_from.at[w];
            next->thread = c->link_from_thread.at[w];
        }
    } else if (c->is_program.at[here->thread]) {
        p->since = ended;
        p->phase = PROGRAM;
    } else {
        /* The trigger is not recorded. It cannot be before the last event that ended in the call,
         * or before the call itself. */
        int64_t last =
            last_of_call(c->call_id.at, c->call_ps.at, c->call_id.size, here->call, here->t);
        if (last >= 0) {
            p->since = c->call_ps.at[last];
            next->thread = c->call_thread.at[last];
        } else {
            go_home(c, home, here->t, p, next);
        }
    }
}

/* Add a part that ends at `t`, or extend an equal previous part. False if there is no room. */
static bool add_part(const struct walk_back *c, int64_t first, int64_t *n, const part *p, int64_t t)
{
    int64_t k = *n - 1;
    if (k >= first && c->part_phase.at[k] == p->phase && c->part_row.at[k] == p->row &&
        c->part_other.at[k] == p->other) {
        c->part_start.at[k] = p->since;
    } else if (p->since < t) {
        if (*n >= c->part_start.size) {
            return false;
        }
        k = (*n)++;
        c->part_start.at[k] = p->since;
        c->part_end.at[k] = t;
        c->part_phase.at[k] = p->phase;
        c->part_row.at[k] = p->row;
        c->part_other.at[k] = p->other;
    }
    return true;
}

static bool is_earlier(const struct walk_back *c, int64_t segment, int64_t than)
{
    return than < 0 || c->segment_start.at[segment] < c->segment_start.at[than];
}

static bool is_host_op(const struct walk_back *c, int64_t segment)
{
    return c->segment_state.at[segment] == HOST_OP;
}

static void find_earliest(const struct walk_back *c)
{
    for (int64_t n = c->op_call.size, k = n - 1, found = -1; k >= 0; k--) {
        int64_t segment = c->op_segment.at[k];
        if (k + 1 < n && c->op_call.at[k + 1] != c->op_call.at[k]) {
            found = -1;
        }
        if (is_host_op(c, segment) && is_earlier(c, segment, found)) {
            found = segment;
        }
        c->op_earliest.at[k] = found;
    }
}

/* Follow a call from `t` on. What the walk came from did not wait for ops that ended later. */
static void await(const struct walk_back *c, int64_t call, int64_t t, awaited *ops)
{
    int64_t k = search(c->nested_call.at, 0, c->nested_call.size, call, false);
    if (k < c->nested_call.size && c->nested_call.at[k] == call) {
        call = c->outermost_call.at[k];
    }
    if (call != ops->call) {
        int64_t before = last_of_call(c->op_call.at, c->op_end.at, c->op_call.size, call, t);
        int64_t after = before >= 0 ? before + 1
                                    : search(c->op_call.at, 0, c->op_call.size, call, false);
        bool is_first = ops->call == 0; /* earlier calls have returned */
        bool is_any = is_first && after < c->op_call.size && c->op_call.at[after] == call;
        ops->late = is_any ? c->op_earliest.at[after] : -1;
        ops->call = call;
        ops->next = before;
        ops->earliest = -1;
    }
}

/* Return the segment of an op of the call that ran right before `t`, or -1; of several, the one
 * that began first. In that case, set `until` to the time before `t` at which an op ended. */
static int64_t running(const struct walk_back *c, int64_t t, awaited *ops, int64_t *until)
{
    const int64_t *start = c->segment_start.at;
    int64_t before = LONG_AGO;
    for (; ops->next >= 0 && c->op_call.at[ops->next] == ops->call; ops->next--) {
        int64_t k = c->op_segment.at[ops->next];
        if (is_host_op(c, k) != ops->on_host) {
            continue;
        }
        if (c->op_end.at[ops->next] < t) {
            before = c->op_end.at[ops->next];
            break;
        }
        if (is_earlier(c, k, ops->earliest)) {
            ops->earliest = k;
        }
    }
    bool is_running = ops->earliest >= 0 && start[ops->earliest] < t;
    *until = is_running ? start[ops->earliest] : before;
    return is_running ? ops->earliest : -1;
}

/* Let ops of the call that ran during a part have its time, unless an op already has it; return
 * the earliest time for which that holds. What waits for a call waits for its ops. A launch did not
 * wait for an op that ran on beyond it, but that op may have kept the runtime from going on. */
static int64_t give_to_ops(const struct walk_back *c, int64_t t, awaited *ops, bool is_launch,
                           part *p)
{
    bool is_open = p->phase == RUNTIME || p->phase == UNATTRIBUTED;
    int64_t until[2], k[2], since = p->since;
    for (int which = 0; which < 2; which++) {
        k[which] = running(c, t, &ops[which], &until[which]);
        since = most(since, until[which]);
    }
    int64_t op = k[0] < 0 || (k[1] >= 0 && is_earlier(c, k[1], k[0])) ? k[1] : k[0];
    int64_t late = is_open && op < 0 && is_launch ? ops[0].late : -1;
    if (late >= 0 && c->segment_start.at[late] < t) {
        p->other = p->phase;
        p->phase = HOST_OP;
        p->row = c->segment_row.at[late];
        return most(since, c->segment_start.at[late]);
    }
    if (is_open && op >= 0) {
        p->phase = c->segment_state.at[op];
        p->row = c->segment_row.at[op];
    }
    int64_t instead = k[p->phase == HOST_OP];
    p->other = instead < 0 ? p->phase : c->segment_state.at[instead];
    return since;
}

/* Add a part that ends at `t`, divided by the ops of the call that ran on other threads. */
static bool add_divided(const struct walk_back *c, int64_t first, int64_t *n, const part *p,
                        int64_t t, awaited *ops, bool is_launch)
{
    bool can_be_of_op = p->phase == HOST_OP || p->phase == INPUT || p->phase == LAUNCH ||
                        p->phase == RUNTIME || p->phase == UNPLACED || p->phase == UNATTRIBUTED;
    while (t >= p->since) {
        part of = *p;
        of.other = p->phase;
        if (can_be_of_op && t > p->since) {
            of.since = give_to_ops(c, t, ops, is_launch, &of);
        }
        if (!add_part(c, first, n, &of, t)) {
            return false;
        }
        if (of.since == p->since) {
            break;
        }
        t = of.since;
    }
    return true;
}

static bool walk_span(const struct walk_back *c, int64_t g, int64_t *n)
{
    int64_t floor = c->span_start.at[g], first = *n;
    bool is_launch = c->span_launch_start.at[g] < c->span_end.at[g];
    int32_t home = c->span_thread.at[g];
    if (is_launch || home < 0 || !c->is_program.at[home]) {
        home = ON_DEVICE;
    }
    awaited ops[] = {{true, 0, -1, -1, -1}, {false, 0, -1, -1, -1}};
    int jumps = 0;
    place here = {
        .t = c->span_end.at[g],
        .launched = c->span_launch_start.at[g],
        .returned = c->span_launch_end.at[g],
        .thread = c->span_thread.at[g],
        .at_launch = true,
    };
    while (here.t > floor) {
        part p = {floor, -1, UNATTRIBUTED, UNATTRIBUTED};
        place next = here;
        next.at_launch = false;
        if (here.at_launch) {
            follow_launch(&here, &p, &next);
        } else if (here.thread == ON_DEVICE) {
            follow_device(c, &here, floor, &p);
        } else {
            follow_thread(c, home, &here, &p, &next);
        }
        p.since = least(most(p.since, floor), here.t); /* never go forward, so that the walk ends */
        jumps = p.since < here.t ? 0 : jumps + 1;
        if (jumps > MOST_JUMPS) {
            p = (part){floor, -1, UNATTRIBUTED, UNATTRIBUTED};
            if (go_home(c, home, here.t, &p, &next)) {
                p.since = least(most(p.since, floor), here.t - 1);
                jumps = 0;
            }
        }
        await(c, next.call, here.t, &ops[0]);
        await(c, next.call, here.t, &ops[1]);
        if (!add_divided(c, first, n, &p, here.t, ops, is_launch)) {
            return false;
        }
        here = next;
        here.t = p.since;
    }
    return true;
}

/* Divide each span by what its end waited for; see `walk.walk_back`.
 *
 * The parts of a span are in descending order of time. Stops early if the columns have no room for
 * the parts of a span: call it again, with more room, to continue with that span. A walk ends: each
 * step either goes further back or is one of MOST_JUMPS jumps.
 */
EXPORT int64_t walk_back(const struct walk_back *c)
{
    if (!is_sound(c) || c->done.at[0] < 0 || !is_within(c->done.at[1], c->part_start.size + 1)) {
        return REFUSED;
    }
    find_earliest(c);
    while (c->done.at[0] < c->span_start.size) {
        int64_t n = c->done.at[1];
        if (!walk_span(c, c->done.at[0], &n)) {
            break;
        }
        c->done.at[0]++;
        c->done.at[1] = n;
    }
    return 0;
}

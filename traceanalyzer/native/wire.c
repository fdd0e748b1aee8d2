/* The protobuf encoding of an XSpace, read straight into columns.
 *
 * Only this file knows the encoding. Field numbers are those of
 * tsl/profiler/protobuf/xplane.proto. Reading has six passes over the whole file, so that
 * every column is allocated once, at its final size: scan_space and walk_planes, each called twice,
 * to count and to fill, then scan_lines and fill_lines. A function writes as much as its columns
 * have room for, and counts the rest: with empty columns, it only counts.
 *
 * The counting passes also move the end of a plane or a line up to its first damage. A string is
 * kept as the position of its length.
 *
 * The bytes can be arbitrary, and can change between the passes if the file is being written. The
 * result is then nonsense, but nothing is read or written outside the columns.
 */
#include "common.h"

#ifdef SOURCES
EXPORT const uint32_t sources = SOURCES; /* CRC-32 of the sources of the library */
#endif

enum { DOUBLE = 2, UINT64 = 3, INT64 = 4, STRING = 5, BYTES = 6, REF = 7 }; /* oneof in XStat */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
enum { AT_THE_END = 0, OVERRUN = 1, UNREADABLE = 2 }; /* why scan_space stopped */

typedef struct {
    const uint8_t *at, *end; /* the rest of a message */
} message;

typedef struct {
    int64_t id;
    uint64_t value; /* bits, or the position of a string */
    uint8_t kind;   /* field number of the value, 0 for none */
} stat;

/* The read_* functions return false if the message is damaged; the rest of it is not read. */

static inline bool read_varint(message *m, uint64_t *value)
{
    uint64_t bits = 0;
    if (m->at < m->end && *m->at < 0x80) {
        *value = *m->at++;
        return true;
    }
    /* At most ten bytes; bits beyond the 64th are ignored, as by protobuf. */
    for (unsigned shift = 0; m->at < m->end && shift < 64; shift += 7) {
        uint8_t byte = *m->at++;
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = bits;
            return true;
        }
    }
    return false;
}

static inline bool read_message(message *m, message *inner)
{
    uint64_t size;
    if (!read_varint(m, &size) || size > (uint64_t)(m->end - m->at)) {
        return false;
    }
    inner->at = m->at;
    inner->end = m->at += size;
    return true;
}

/* Field numbers end at 2^29 - 1; zero or above is not protobuf. */
static inline bool read_tag(message *m, uint64_t *field, unsigned *type)
{
    uint64_t tag;
    if (!read_varint(m, &tag) || tag < 8 || tag >> 3 >= (uint64_t)1 << 29) {
        return false;
    }
    *field = tag >> 3;
    *type = tag & 7;
    return true;
}

/* Groups (obsolete) and unknown types count as damage. */
static inline bool skip(message *m, unsigned type)
{
    uint64_t value;
    message inner;
    int64_t size = type == FIXED64 ? 8 : 4;
    if (type == VARINT) {
        return read_varint(m, &value);
    }
    if (type == LENGTH) {
        return read_message(m, &inner);
    }
    if ((type != FIXED64 && type != FIXED32) || m->end - m->at < size) {
        return false;
    }
    m->at += size;
    return true;
}

static inline bool read_stat(message m, const uint8_t *bytes, stat *found)
{
    uint64_t field, value;
    unsigned type;
    *found = (stat){0};
    while (m.at < m.end) {
        if (!read_tag(&m, &field, &type)) {
            return false;
        }
        const uint8_t *at = m.at;
        if (type == VARINT) {
            if (!read_varint(&m, &value)) {
                return false;
            }
            if (field == 1) {
                found->id = (int64_t)value;
            } else if (field == UINT64 || field == INT64 || field == REF) {
                found->kind = (uint8_t)field;
                found->value = value;
            }
            continue;
        }
        if (!skip(&m, type)) {
            return false;
        }
        if (type == FIXED64 && field == DOUBLE) {
            found->kind = DOUBLE;
            found->value = 0;
            for (int k = 0; k < 8; k++) {
                found->value |= (uint64_t)at[k] << (8 * k);
            }
        } else if (type == LENGTH && (field == STRING || field == BYTES)) {
            found->kind = (uint8_t)field;
            found->value = (uint64_t)(at - bytes);
        }
    }
    return true;
}

/* Write a row of a table whose columns follow one another, if it has such a row. */
static void put(int64_t *table, int64_t rows, int64_t row, const int64_t *values, int columns)
{
    for (int k = 0; k < columns && row < rows; k++) {
        table[k * rows + row] = values[k];
    }
}

struct scan_space {
    COLUMN(const uint8_t) bytes;
    COLUMN(int64_t) plane_begin, plane_end;
    COLUMN(uint8_t) string_field; /* 2 errors, 3 warnings, 4 hostnames */
    COLUMN(int64_t) string_at;
    COLUMN(int64_t) found; /* planes, strings, position where it stopped, why */
};

/* Read the top level: where planes begin and end, and the strings. */
EXPORT int64_t scan_space(const struct scan_space *c)
{
    message m = {c->bytes.at, c->bytes.at + c->bytes.size};
    int64_t planes = 0, strings = 0, why = AT_THE_END;
    const uint8_t *start = m.at;
    if (c->plane_end.size != c->plane_begin.size || c->string_at.size != c->string_field.size ||
        c->found.size != 4) {
        return REFUSED;
    }
    while (why == AT_THE_END && m.at < m.end) {
        uint64_t field, size;
        unsigned type;
        start = m.at;
        if (!read_tag(&m, &field, &type)) {
            why = UNREADABLE;
        } else if (type != LENGTH) {
            why = skip(&m, type) ? AT_THE_END : UNREADABLE;
        } else {
            const uint8_t *at = m.at;
            if (!read_varint(&m, &size)) {
                why = m.end - at < 10 ? OVERRUN : UNREADABLE;
            } else if (size > (uint64_t)(m.end - m.at)) {
                why = OVERRUN;
            } else {
                if (field == 1) {
                    if (planes < c->plane_begin.size) {
                        c->plane_begin.at[planes] = m.at - c->bytes.at;
                        c->plane_end.at[planes] = m.at - c->bytes.at + (int64_t)size;
                    }
                    planes++;
                } else if (field <= 4) {
                    if (strings < c->string_at.size) {
                        c->string_field.at[strings] = (uint8_t)field;
                        c->string_at.at[strings] = at - c->bytes.at;
                    }
                    strings++;
                }
                m.at += size;
            }
        }
    }
    c->found.at[0] = planes;
    c->found.at[1] = strings;
    c->found.at[2] = why == AT_THE_END ? c->bytes.size : start - c->bytes.at;
    c->found.at[3] = why;
    return 0;
}

struct walk_planes {
    COLUMN(const uint8_t) bytes;
    COLUMN(const int64_t) begin;
    COLUMN(int64_t) end; /* moved up to the first damage */
    /* Tables; the columns of each one after the other. */
    COLUMN(int64_t) planes;  /* id, name, first line, event metadata, stat metadata, stat, stats */
    COLUMN(int64_t) lines;   /* id, name, timestamp, begin, end */
    COLUMN(int64_t) entries; /* event metadata: id, name, display_name, first stat */
    COLUMN(int64_t) names;   /* stat metadata: id, name */
    COLUMN(int64_t) stat_id; /* stats of planes and event metadata */
    COLUMN(uint8_t) stat_kind;
    COLUMN(uint64_t) stat_value;
    COLUMN(int64_t) found; /* lines, entries, names, stats, bytes lost, places damaged */
};

typedef struct {
    int64_t lines, entries, names, stats;
} counts;

static void put_stat(const struct walk_planes *c, int64_t row, const stat *s)
{
    if (row < c->stat_id.size) {
        c->stat_id.at[row] = s->id;
        c->stat_kind.at[row] = s->kind;
        c->stat_value.at[row] = s->value;
    }
}

/* Read one XEventMetadata. */
static bool
read_entry_value(const struct walk_planes *c, message m, counts *n, int64_t entry[static 4])
{
    uint64_t field;
    unsigned type;
    while (m.at < m.end) {
        message inner;
        stat s;
        if (!read_tag(&m, &field, &type)) {
            return false;
        }
        const uint8_t *at = m.at;
        if (type != LENGTH) {
            if (!skip(&m, type)) {
                return false;
            }
            continue;
        }
        if (!read_message(&m, &inner)) {
            return false;
        }
        if (field == 2) {
            entry[1] = at - c->bytes.at;
        } else if (field == 4) {
            entry[2] = at - c->bytes.at;
        } else if (field == 5) {
            if (!read_stat(inner, c->bytes.at, &s)) {
                return false;
            }
            put_stat(c, n->stats++, &s);
        }
    }
    return true;
}

/* Read one entry of XPlane.event_metadata. */
static bool read_entry(const struct walk_planes *c, message m, counts *n)
{
    counts inside = *n;
    int64_t entry[4] = {0, -1, -1, n->stats};
    uint64_t field, key;
    unsigned type;
    while (m.at < m.end) {
        message value;
        if (!read_tag(&m, &field, &type)) {
            return false;
        }
        if (field == 1 && type == VARINT) {
            if (!read_varint(&m, &key)) {
                return false;
            }
            entry[0] = (int64_t)key;
        } else if (field == 2 && type == LENGTH) {
            if (!read_message(&m, &value) || !read_entry_value(c, value, &inside, entry)) {
                return false;
            }
        } else if (!skip(&m, type)) {
            return false;
        }
    }
    *n = inside;
    put(c->entries.at, c->entries.size / 4, n->entries++, entry, 4);
    return true;
}

/* Read one entry of XPlane.stat_metadata. */
static bool read_name(const struct walk_planes *c, message m, counts *n)
{
    int64_t entry[2] = {0, -1};
    uint64_t field, key;
    unsigned type;
    while (m.at < m.end) {
        message value;
        if (!read_tag(&m, &field, &type)) {
            return false;
        }
        if (field == 1 && type == VARINT) {
            if (!read_varint(&m, &key)) {
                return false;
            }
            entry[0] = (int64_t)key;
        } else if (field == 2 && type == LENGTH) {
            if (!read_message(&m, &value)) {
                return false;
            }
            while (value.at < value.end) {
                if (!read_tag(&value, &field, &type)) {
                    return false;
                }
                const uint8_t *at = value.at;
                if (!skip(&value, type)) {
                    return false;
                }
                if (field == 2 && type == LENGTH) {
                    entry[1] = at - c->bytes.at;
                }
            }
        } else if (!skip(&m, type)) {
            return false;
        }
    }
    put(c->names.at, c->names.size / 2, n->names++, entry, 2);
    return true;
}

/* Read the fields of an XLine except its events, up to its first damage. */
static void read_line_header(const struct walk_planes *c, message m, counts *n)
{
    int64_t line[5] = {0, -1, 0, m.at - c->bytes.at, m.end - c->bytes.at};
    uint64_t field, value;
    unsigned type;
    while (n->lines < c->lines.size / 5 && m.at < m.end && read_tag(&m, &field, &type)) {
        const uint8_t *at = m.at;
        if (type == VARINT) {
            if (!read_varint(&m, &value)) {
                break;
            }
            if (field == 1 || field == 3) {
                line[field == 1 ? 0 : 2] = (int64_t)value;
            }
        } else if (!skip(&m, type)) {
            break;
        } else if (type == LENGTH && field == 2) {
            line[1] = at - c->bytes.at;
        }
    }
    put(c->lines.at, c->lines.size / 5, n->lines++, line, 5);
}

/* Read one field of an XPlane; its own stats are only counted. */
static bool
read_plane_field(const struct walk_planes *c, message *m, counts *n, int64_t plane[static 7])
{
    uint64_t field, value;
    unsigned type;
    message inner;
    stat s;
    if (!read_tag(m, &field, &type)) {
        return false;
    }
    const uint8_t *at = m->at;
    if (field == 1 && type == VARINT) {
        if (!read_varint(m, &value)) {
            return false;
        }
        plane[0] = (int64_t)value;
        return true;
    }
    if (type != LENGTH) {
        return skip(m, type);
    }
    if (!read_message(m, &inner)) {
        return false;
    }
    if (field == 2) {
        plane[1] = at - c->bytes.at;
    } else if (field == 3) {
        read_line_header(c, inner, n);
    } else if (field == 4) {
        return read_entry(c, inner, n);
    } else if (field == 5) {
        return read_name(c, inner, n);
    } else if (field == 6) {
        if (!read_stat(inner, c->bytes.at, &s)) {
            return false;
        }
        plane[6]++;
    }
    return true;
}

/* Write a plane's own stats without gaps; in the file they can be scattered among its metadata. */
static void put_own_stats(const struct walk_planes *c, message m, int64_t row, int64_t end)
{
    uint64_t field;
    unsigned type;
    message inner;
    stat s;
    while (row < end && m.at < m.end && read_tag(&m, &field, &type)) {
        if (field != 6 || type != LENGTH) {
            if (!skip(&m, type)) {
                return;
            }
        } else if (!read_message(&m, &inner) || !read_stat(inner, c->bytes.at, &s)) {
            return;
        } else {
            put_stat(c, row++, &s);
        }
    }
}

/* Read every plane except the events of its lines. */
EXPORT int64_t walk_planes(const struct walk_planes *c)
{
    counts n = {0};
    int64_t lost = 0, places = 0;
    if (c->end.size != c->begin.size || c->stat_kind.size != c->stat_id.size ||
        c->stat_value.size != c->stat_id.size || c->found.size != 6) {
        return REFUSED;
    }
    for (int64_t p = 0; p < c->begin.size; p++) {
        if (c->begin.at[p] < 0 || c->begin.at[p] > c->end.at[p] ||
            c->end.at[p] > c->bytes.size) {
            return REFUSED;
        }
        message m = {c->bytes.at + c->begin.at[p], c->bytes.at + c->end.at[p]};
        int64_t plane[7] = {0, -1, n.lines, n.entries, n.names, 0, 0};
        while (m.at < m.end) {
            const uint8_t *start = m.at;
            if (!read_plane_field(c, &m, &n, plane)) {
                lost += m.end - start;
                places++;
                m.end = start;
                c->end.at[p] = start - c->bytes.at;
                break;
            }
        }
        plane[5] = n.stats;
        n.stats += plane[6];
        m.at = c->bytes.at + c->begin.at[p];
        put_own_stats(c, m, plane[5], least(n.stats, c->stat_id.size));
        put(c->planes.at, c->planes.size / 7, p, plane, 7);
    }
    const int64_t found[6] = {n.lines, n.entries, n.names, n.stats, lost, places};
    for (int k = 0; k < 6; k++) {
        c->found.at[k] = found[k];
    }
    return 0;
}

/* Columns of ids: 4 or 8 bytes each. */
typedef struct {
    void *at;
    int64_t size, width;
} ids;

static inline void put_id(ids column, int64_t row, int64_t id)
{
    if (column.width == 8) {
        ((int64_t *)column.at)[row] = id;
    } else {
        ((int32_t *)column.at)[row] = (int32_t)id; /* keeps the low 32 bits */
    }
}

static inline int64_t id_at(ids column, int64_t row)
{
    return column.width == 8 ? ((const int64_t *)column.at)[row]
                             : ((const int32_t *)column.at)[row];
}

struct fill_lines {
    COLUMN(const uint8_t) bytes;
    int64_t first, last;                       /* lines: from, up to */
    COLUMN(const int64_t) begin, end;          /* of each line, in bytes */
    COLUMN(const int64_t) timestamp_ns;        /* of each line */
    COLUMN(const int64_t) event_begin, stat_begin; /* first row of each line, and their number */
    ids metadata_id;
    COLUMN(int64_t) start_ps, duration_ps;
    COLUMN(int64_t) first_stat;  /* of each event; one more entry, which is not written */
    COLUMN(int64_t) occurrences; /* 1 for a plain event; empty if all are plain */
    ids stat_id;
    COLUMN(uint8_t) stat_kind;
    COLUMN(uint64_t) stat_value;
};

typedef struct {
    int64_t event, event_end, stat, stat_end; /* the next row, and the end */
    uint64_t line_ps;
    int64_t aggregated; /* events with num_occurrences */
    bool is_wide;       /* some id exceeds 32 bits */
} progress;

/* Read one XEvent: count it or, with columns `c`, write it. */
static inline __attribute__((always_inline)) bool
read_event(message m, const uint8_t *bytes, progress *now, const struct fill_lines *c)
{
    uint64_t field, value, offset_ps = 0, duration_ps = 0, occurrences = 1;
    int64_t metadata_id = 0, stat_row = now->stat;
    bool is_aggregated = false;
    unsigned type;
    while (m.at < m.end) {
        if (!read_tag(&m, &field, &type)) {
            return false;
        }
        if (type == VARINT) {
            if (!read_varint(&m, &value)) {
                return false;
            }
            if (field == 1) {
                metadata_id = (int64_t)value;
                now->is_wide |= metadata_id != (int32_t)metadata_id;
            } else if (field == 2) { /* a oneof with field 5: the last value counts */
                offset_ps = value;
                occurrences = 1;
            } else if (field == 3) {
                duration_ps = value;
            } else if (field == 5) {
                offset_ps = 0;
                occurrences = value;
                is_aggregated = true;
            }
        } else if (type == LENGTH && field == 4) {
            message inner;
            stat s;
            if (!read_message(&m, &inner) || !read_stat(inner, bytes, &s)) {
                return false;
            }
            now->is_wide |= s.id != (int32_t)s.id;
            if (c && stat_row < now->stat_end) {
                put_id(c->stat_id, stat_row, s.id);
                c->stat_kind.at[stat_row] = s.kind;
                c->stat_value.at[stat_row] = s.value;
            }
            stat_row++;
        } else if (!skip(&m, type)) {
            return false;
        }
    }
    if (c && now->event < now->event_end) {
        put_id(c->metadata_id, now->event, metadata_id);
        c->start_ps.at[now->event] = (int64_t)(now->line_ps + offset_ps);
        c->duration_ps.at[now->event] = (int64_t)duration_ps;
        c->first_stat.at[now->event] = now->stat;
        if (c->occurrences.size) {
            c->occurrences.at[now->event] = (int64_t)occurrences;
        }
    }
    now->event++;
    now->stat = stat_row;
    now->aggregated += is_aggregated;
    return true;
}

/* Read the events of one XLine; return its end, or where its first damaged field begins. */
static inline __attribute__((always_inline)) const uint8_t *
read_line(message m, const uint8_t *bytes, progress *now, const struct fill_lines *c)
{
    while (m.at < m.end) {
        const uint8_t *start = m.at;
        uint64_t field;
        unsigned type;
        message inner;
        if (!read_tag(&m, &field, &type)) {
            return start;
        }
        if (field == 4 && type == LENGTH) {
            if (!read_message(&m, &inner) || !read_event(inner, bytes, now, c)) {
                return start;
            }
        } else if (!skip(&m, type)) {
            return start;
        }
    }
    return m.end;
}

struct scan_lines {
    COLUMN(const uint8_t) bytes;
    int64_t first, last;
    COLUMN(const int64_t) begin;
    COLUMN(int64_t) end;           /* moved up to the first damage */
    COLUMN(int64_t) events, stats; /* of each line */
    COLUMN(int64_t) found; /* aggregated events, whether ids are wide, bytes lost, places damaged */
};

/* Count the events and stats of the lines from `first` up to `last`. */
EXPORT int64_t scan_lines(const struct scan_lines *c)
{
    progress now = {0};
    int64_t lost = 0, places = 0, n = c->begin.size;
    if (c->end.size != n || c->events.size != n || c->stats.size != n || c->found.size != 4 ||
        c->first < 0 || c->last > n) {
        return REFUSED;
    }
    for (int64_t k = c->first; k < c->last; k++) {
        if (c->begin.at[k] < 0 || c->begin.at[k] > c->end.at[k] ||
            c->end.at[k] > c->bytes.size) {
            return REFUSED;
        }
        message m = {c->bytes.at + c->begin.at[k], c->bytes.at + c->end.at[k]};
        now.event = now.stat = 0;
        const uint8_t *stop = read_line(m, c->bytes.at, &now, NULL);
        if (stop < m.end) {
            lost += m.end - stop;
            places++;
            c->end.at[k] = stop - c->bytes.at;
        }
        c->events.at[k] = now.event;
        c->stats.at[k] = now.stat;
    }
    c->found.at[0] = now.aggregated;
    c->found.at[1] = now.is_wide;
    c->found.at[2] = lost;
    c->found.at[3] = places;
    return 0;
}

/* Write the events and stats of the lines from `first` up to `last`, each line in its own rows.
 *
 * Threads may share the columns if each has its own lines. A start is timestamp_ns * 1000 +
 * offset_ps modulo 2^64; `clock.on_one_clock` undoes that.
 */
EXPORT int64_t fill_lines(const struct fill_lines *c)
{
    int64_t n = c->begin.size, events = c->metadata_id.size, stats = c->stat_id.size;
    if (c->end.size != n || c->timestamp_ns.size != n || c->event_begin.size != n + 1 ||
        c->stat_begin.size != n + 1 || c->start_ps.size != events ||
        c->duration_ps.size != events || c->first_stat.size != events + 1 ||
        (c->occurrences.size && c->occurrences.size != events) || c->stat_kind.size != stats ||
        c->stat_value.size != stats || c->first < 0 || c->last > n ||
        !are_bounds(c->event_begin.at, n + 1, events) ||
        !are_bounds(c->stat_begin.at, n + 1, stats)) {
        return REFUSED;
    }
    for (int64_t k = c->first; k < c->last; k++) {
        if (c->begin.at[k] < 0 || c->begin.at[k] > c->end.at[k] ||
            c->end.at[k] > c->bytes.size) {
            return REFUSED;
        }
        message m = {c->bytes.at + c->begin.at[k], c->bytes.at + c->end.at[k]};
        progress now = {
            .event = c->event_begin.at[k],
            .event_end = c->event_begin.at[k + 1],
            .stat = c->stat_begin.at[k],
            .stat_end = c->stat_begin.at[k + 1],
            .line_ps = (uint64_t)c->timestamp_ns.at[k] * 1000,
        };
        read_line(m, c->bytes.at, &now, c);
    }
    return 0;
}

struct find_stat {
    COLUMN(const int64_t) begin, end; /* stats of each owner */
    ids stat_id;
    COLUMN(const int64_t) wanted; /* ascending, at least one */
    COLUMN(int64_t) rows;         /* written if there is such a stat */
};

/* Find the last stat of each owner that has one of the wanted ids. */
EXPORT int64_t find_stat(const struct find_stat *c)
{
    int64_t n = c->begin.size, several = c->wanted.size;
    if (c->end.size != n || c->rows.size != n || several < 1) {
        return REFUSED;
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t begin = c->begin.at[k], end = c->end.at[k];
        if (begin < end && (begin < 0 || end > c->stat_id.size)) {
            return REFUSED;
        }
        for (int64_t s = begin; s < end; s++) {
            int64_t id = id_at(c->stat_id, s), slot = 0;
            if (several > 1) { /* a name should have one id, but a file can give it a million */
                slot = search(c->wanted.at, 0, several, id, false);
            }
            if (slot < several && c->wanted.at[slot] == id) {
                c->rows.at[k] = s;
            }
        }
    }
    return 0;
}

/* Find the string whose length is at a position; it is empty if it cannot be read. */
static message string_at(const uint8_t *bytes, int64_t size, int64_t at)
{
    message m = {bytes, bytes + size}, found = {bytes, bytes};
    if (is_within(at, size)) {
        m.at += at;
        if (!read_message(&m, &found)) {
            found = (message){bytes, bytes};
        }
    }
    return found;
}

struct string_bounds {
    COLUMN(const uint8_t) bytes;
    COLUMN(const int64_t) at;
    COLUMN(int64_t) begin, end;
};

/* Find where the strings at positions `at` (-1: none) begin and end. */
EXPORT int64_t string_bounds(const struct string_bounds *c)
{
    if (c->begin.size != c->at.size || c->end.size != c->at.size) {
        return REFUSED;
    }
    for (int64_t k = 0; k < c->at.size; k++) {
        message found = string_at(c->bytes.at, c->bytes.size, c->at.at[k]);
        c->begin.at[k] = found.at - c->bytes.at;
        c->end.at[k] = found.end - c->bytes.at;
    }
    return 0;
}

struct intern_strings {
    COLUMN(const uint8_t) bytes;
    int64_t seed; /* if it is secret, no file can contain strings that all collide */
    COLUMN(const int64_t) at;
    COLUMN(int32_t) codes;
    COLUMN(int64_t) first;   /* position of each distinct string, as long as `at` */
    COLUMN(uint64_t) hashes; /* of each distinct string, as long as `at` */
    COLUMN(int32_t) table;   /* scratch space: a power of two */
    COLUMN(int64_t) done;    /* strings, distinct ones; zero at first */
};

static bool is_equal(message a, message b)
{
    if (a.end - a.at != b.end - b.at) {
        return false;
    }
    while (a.at < a.end && *a.at == *b.at) {
        a.at++;
        b.at++;
    }
    return a.at == a.end;
}

/* Number the distinct strings among those at positions `at`, in order of first appearance.
 *
 * Stops early if the table is half full: call it again with a larger one.
 */
EXPORT int64_t intern_strings(const struct intern_strings *c)
{
    if (c->codes.size != c->at.size || c->first.size != c->at.size ||
        c->hashes.size != c->at.size || c->at.size > INT32_MAX || c->done.size != 2) {
        return REFUSED;
    }
    int64_t k = c->done.at[0], n = c->done.at[1], mask = c->table.size - 1;
    if (n < 0 || k < n || k > c->at.size || c->table.size < 2 || (c->table.size & mask) ||
        2 * n > c->table.size) {
        return REFUSED;
    }
    for (int64_t slot = 0; slot <= mask; slot++) {
        c->table.at[slot] = -1;
    }
    for (int64_t m = 0; m < n; m++) {
        int64_t slot = (int64_t)(c->hashes.at[m] & (uint64_t)mask);
        while (c->table.at[slot] >= 0) {
            slot = (slot + 1) & mask;
        }
        c->table.at[slot] = (int32_t)m;
    }
    for (; k < c->at.size && 2 * n <= mask; k++) {
        message text = string_at(c->bytes.at, c->bytes.size, c->at.at[k]);
        uint64_t hash = (uint64_t)c->seed;
        for (const uint8_t *byte = text.at; byte < text.end; byte++) {
            hash = (hash ^ *byte) * 1099511628211u; /* FNV-1a */
        }
        hash ^= hash >> 29;
        int64_t slot = (int64_t)(hash & (uint64_t)mask);
        int32_t code;
        while ((code = c->table.at[slot]) >= 0) {
            if (c->hashes.at[code] == hash &&
                is_equal(text, string_at(c->bytes.at, c->bytes.size, c->first.at[code]))) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        if (code < 0) {
            code = (int32_t)n++;
            c->hashes.at[code] = hash;
            c->first.at[code] = c->at.at[k];
            c->table.at[slot] = code;
        }
        c->codes.at[k] = code;
    }
    c->done.at[0] = k;
    c->done.at[1] = n;
    return 0;
}

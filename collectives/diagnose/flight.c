/* The flight recorder's ring, and its dump as JSON. Called by core/record.c. */
#include "diagnose/flight.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/utf8.h"
#include "common/kinds.h"
#include "common/limits.h"
#include "ringfence/coll_error.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { HEAD_TEXT_BYTES = 4096 };

/* A copy of an entry that a reader has found whole. */
typedef struct seen_entry {
    uint64_t sequence;
    uint64_t what;
    uint64_t count;
    uint64_t bytes;
    uint64_t began;
    uint64_t ended;
    uint64_t comm;
    uint64_t element_bytes; /* of the program's own reduction; else without meaning */
    char name[COLL_REDUCTION_NAME_BYTES];
} seen_entry;

/* In the place of a type. */
enum { OWN_TYPE = 15 };

static uint64_t ticks(const coll_flight *flight)
{
#if defined(__x86_64__)
    if (__builtin_expect(flight->by_tsc, true)) {
        return __rdtsc();
    }
#endif
    (void)flight;
    return (uint64_t)base_now_ns();
}

static int64_t unix_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * BASE_NS_PER_S + now.tv_nsec;
}

void coll_flight_init(coll_flight *flight)
{
    flight->by_tsc = coll_tsc_is_invariant();
    flight->began_ticks = ticks(flight);
    flight->began_unix_ns = unix_now_ns();
}

static void put(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void put_own(coll_flight_own *own, uint64_t element_bytes, const char *name)
{
    uint64_t words[COLL_REDUCTION_NAME_BYTES / sizeof(uint64_t)];
    memcpy(words, name, sizeof words);
    put(&own->element_bytes, element_bytes);
    put(&own->name[0], words[0]);
    put(&own->name[1], words[1]);
}

static void get_own(const coll_flight_own *own, uint64_t *element_bytes, char *name)
{
    const uint64_t words[] = {get(&own->name[0]), get(&own->name[1])};
    memcpy(name, words, sizeof words);
    *element_bytes = get(&own->element_bytes);
}

/* Keeps a pending entry in a free place, else in that of the oldest. */
static void keep(coll_flight *flight, const coll_flight_entry *entry)
{
    char name[COLL_REDUCTION_NAME_BYTES];
    uint64_t element_bytes = 0;
    int free_place = 0;
    for (int i = 1; i < COLL_FLIGHT_KEPT; i++) {
        if (get(&flight->kept[i].number) < get(&flight->kept[free_place].number)) {
            free_place = i;
        }
    }
    coll_flight_entry *place = &flight->kept[free_place];
    (void)atomic_exchange(&place->number, 0);
    get_own(&flight->own[entry - flight->entries], &element_bytes, name);
    put_own(&flight->kept_own[free_place], element_bytes, name);
    put(&place->sequence, get(&entry->sequence));
    put(&place->what, get(&entry->what));
    put(&place->count, get(&entry->count));
    put(&place->bytes, get(&entry->bytes));
    put(&place->began, get(&entry->began));
    put(&place->comm, get(&entry->comm));
    atomic_store_explicit(&place->number, get(&entry->number), memory_order_release);
}

static void end_kept(coll_flight *flight, uint64_t number)
{
    for (int i = 0; i < COLL_FLIGHT_KEPT; i++) {
        if (get(&flight->kept[i].number) == number) {
            put(&flight->kept[i].number, 0);
        }
    }
}

/* How `what` is packed. */
_Static_assert((int)COLL_TYPE_LAST < (int)OWN_TYPE && COLL_REDUCE_OP_LAST < 16 &&
                   COLL_RANKS_MAX <= 256,
               "type, reduce, root");

uint64_t coll_flight_begin(coll_flight *flight, const coll_flight_record *record)
{
    const uint64_t number = get(&flight->number) + 1;
    const bool own = record->element_bytes != 0;
    const uint64_t type = own ? OWN_TYPE : (uint64_t)record->type;
    coll_flight_entry *entry = &flight->entries[number % COLL_FLIGHT_ENTRIES];
    if (__builtin_expect(get(&entry->ended) == 0 && get(&entry->number) != 0, false)) {
        keep(flight, entry);
    }
    put(&entry->number, 0);
    atomic_thread_fence(memory_order_release);
    put(&entry->sequence, record->sequence);
    put(&entry->what, (uint64_t)record->kind | type << 8 | (uint64_t)record->reduce << 12 |
                          (uint64_t)(uint8_t)record->root << 16 |
                          (uint64_t)record->algorithm << 24 | (uint64_t)record->counts << 32);
    put(&entry->count, record->count);
    put(&entry->bytes, record->bytes);
    put(&entry->began, ticks(flight));
    put(&entry->ended, 0);
    put(&entry->comm, record->comm);
    if (own) {
        put_own(&flight->own[number % COLL_FLIGHT_ENTRIES], record->element_bytes, record->name);
    }
    atomic_store_explicit(&entry->number, number, memory_order_release);
    put(&flight->number, number);
    return number;
}

void coll_flight_end(coll_flight *flight, uint64_t number)
{
    coll_flight_entry *entry = &flight->entries[number % COLL_FLIGHT_ENTRIES];
    if (get(&entry->number) == number) {
        put(&entry->ended, ticks(flight));
    } else {
        end_kept(flight, number);
    }
}

static bool see_entry(const coll_flight_entry *entry, const coll_flight_own *own, uint64_t number,
                      seen_entry *seen)
{
    if (atomic_load_explicit(&entry->number, memory_order_acquire) != number) {
        return false;
    }
    *seen = (seen_entry){.sequence = get(&entry->sequence),
                         .what = get(&entry->what),
                         .count = get(&entry->count),
                         .bytes = get(&entry->bytes),
                         .began = get(&entry->began),
                         .ended = get(&entry->ended),
                         .comm = get(&entry->comm)};
    get_own(own, &seen->element_bytes, seen->name);
    atomic_thread_fence(memory_order_acquire);
    return get(&entry->number) == number;
}

static bool see(const coll_flight *flight, uint64_t number, seen_entry *seen)
{
    const uint64_t at = number % COLL_FLIGHT_ENTRIES;
    return see_entry(&flight->entries[at], &flight->own[at], number, seen);
}

/* ---- writing it down ---- */

typedef struct flight_writer {
    int fd;
    coll_status status;
    coll_error *reterr;
    double ns_per_tick;
    const coll_flight *flight;
} flight_writer;

static void say(flight_writer *writer, const char *format, ...) BASE_PRINTF(2, 3);
static void say(flight_writer *writer, const char *format, ...)
{
    char text[HEAD_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (writer->status == COLL_OK && length > 0) {
        const size_t bytes = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        writer->status = (coll_status)base_fd_write(writer->fd, "the flight record", text, bytes,
                                                    base_error_of(writer->reterr));
    }
}

/* A JSON string's inside; what does not fit is left out. What is not UTF-8 becomes U+FFFD. */
static void escape(const char *text, char *escaped, size_t size_bytes)
{
    size_t used = 0;
    while (*text != '\0' && used + 7 < size_bytes) {
        const unsigned char c = (unsigned char)*text;
        const size_t length = base_utf8_length(text, SIZE_MAX); /* 0: not UTF-8 */
        if (c == '"' || c == '\\') {
            escaped[used++] = '\\';
            escaped[used++] = (char)c;
        } else if (length == 0 || c < 0x20 || c == 0x7f) {
            used += (size_t)snprintf(escaped + used, size_bytes - used, "\\u%04x",
                                     length == 0 ? 0xfffdU : c);
        } else {
            memcpy(escaped + used, text, length);
            used += length;
        }
        text += length > 0 ? length : 1;
    }
    escaped[used] = '\0';
}

static int64_t to_unix_us(const flight_writer *writer, uint64_t at)
{
    const double ns = (double)(int64_t)(at - writer->flight->began_ticks) * writer->ns_per_tick;
    return (writer->flight->began_unix_ns + (int64_t)ns) / 1000;
}

/* A name, or null where the operation has no such thing (0): a barrier has no type. */
static void say_name(flight_writer *writer, const char *key, int value, const char *name)
{
    if (value == 0) {
        say(writer, "\"%s\":null,", key);
    } else {
        say(writer, "\"%s\":\"%s\",", key, name);
    }
}

static void say_entry(flight_writer *writer, const seen_entry *seen, bool first)
{
    const coll_kind kind = (coll_kind)(seen->what & 0xff);
    const coll_type type = (coll_type)(seen->what >> 8 & 0xf);
    const coll_reduce_op reduce = (coll_reduce_op)(seen->what >> 12 & 0xf);
    const unsigned root = (unsigned)(seen->what >> 16 & 0xff);
    const coll_algorithm algorithm = (coll_algorithm)(seen->what >> 24 & 0xff);
    const uint32_t counts = (uint32_t)(seen->what >> 32);
    say(writer, "%s\n  {\"comm\":\"%016" PRIx64 "\",\"sequence\":%" PRIu64 ",\"operation\":\"%s\",",
        first ? "" : ",", seen->comm, seen->sequence, coll_kind_name(kind));
    if ((int)type == OWN_TYPE) {
        say(writer, "\"type\":\"%" PRIu64 "-byte\",\"reduce\":\"%.*s\",", seen->element_bytes,
            (int)sizeof seen->name, seen->name);
    } else {
        say_name(writer, "type", (int)type, coll_type_name(type));
        say_name(writer, "reduce", (int)reduce, coll_reduce_op_name(reduce));
    }
    if (counts == COLL_COUNTS_PAIRWISE) {
        say(writer, "\"counts\":\"pairwise\",");
    } else if (counts != 0) {
        say(writer, "\"counts\":\"%08" PRIx32 "\",", counts);
    }
    say(writer,
        "\"count\":%" PRIu64 ",\"bytes\":%" PRIu64
        ",\"root\":%u,\"algorithm\":\"%s\",\"began_unix_us\":%" PRId64,
        seen->count, seen->bytes, root, coll_algorithm_name(algorithm),
        to_unix_us(writer, seen->began));
    if (seen->ended != 0) {
        /* Not by %f, which writes a comma where the program's locale has one. */
        const double ns = (double)(seen->ended - seen->began) * writer->ns_per_tick;
        const uint64_t took_ns = ns > 0 ? (uint64_t)(ns + 0.5) : 0;
        say(writer, ",\"took_us\":%" PRIu64 ".%03u", took_ns / 1000, (unsigned)(took_ns % 1000));
    }
    say(writer, "}");
}

/* Pending entries that are older than the ring. True: there were some. */
static bool say_kept(flight_writer *writer)
{
    bool any = false;
    for (int i = 0; i < COLL_FLIGHT_KEPT; i++) {
        const coll_flight_entry *entry = &writer->flight->kept[i];
        const uint64_t number = get(&entry->number);
        seen_entry seen;
        if (number != 0 && see_entry(entry, &writer->flight->kept_own[i], number, &seen)) {
            say_entry(writer, &seen, !any);
            any = true;
        }
    }
    return any;
}

/* Entries that have ended, or have not; of the former the newest COLL_FLIGHT_COMPLETED. */
static void say_entries(flight_writer *writer, bool ended)
{
    const uint64_t newest = get(&writer->flight->number);
    const uint64_t oldest = newest > COLL_FLIGHT_ENTRIES ? newest - COLL_FLIGHT_ENTRIES + 1 : 1;
    seen_entry seen;
    uint64_t skip = 0;
    bool first = ended || !say_kept(writer);
    for (uint64_t number = oldest; ended && number <= newest; number++) {
        skip += see(writer->flight, number, &seen) && seen.ended != 0 ? 1 : 0;
    }
    skip = skip > COLL_FLIGHT_COMPLETED ? skip - COLL_FLIGHT_COMPLETED : 0;
    for (uint64_t number = oldest; number <= newest; number++) {
        if (!see(writer->flight, number, &seen) || (seen.ended != 0) != ended) {
            continue;
        }
        if (skip > 0) {
            skip--;
            continue;
        }
        say_entry(writer, &seen, first);
        first = false;
    }
}

/* Nothing where there is no device. */
static void say_devices(flight_writer *writer, const coll_flight_head *head)
{
    for (int i = 0; i < head->device_count; i++) {
        const coll_flight_device *device = &head->devices[i];
        say(writer,
            "%s{\"comm\":\"%016" PRIx64 "\",\"backend\":\"%s\",\"started\":%" PRIu64
            ",\"finished\":%" PRIu64 "}%s",
            i == 0 ? "\n \"devices\":[\n  " : ",\n  ", device->comm, device->backend,
            device->started, device->finished, i + 1 == head->device_count ? "]," : "");
    }
}

coll_status coll_flight_write(const coll_flight *flight, const coll_flight_head *head, int fd,
                              coll_error *reterr)
{
    char escaped[HEAD_TEXT_BYTES / 2];
    const uint64_t now = ticks(flight);
    const uint64_t passed = now - flight->began_ticks;
    flight_writer writer = {.fd = fd, .reterr = reterr, .flight = flight};
    writer.ns_per_tick =
        passed > 0 ? (double)(unix_now_ns() - flight->began_unix_ns) / (double)passed : 0;
    escape(head->host, escaped, sizeof escaped);
    say(&writer,
        "{\"version\":1,\"rank\":%d,\"world_size\":%d,\"host\":\"%s\",\"pid\":%u,"
        "\"transport\":\"%s\",\"written_unix_us\":%" PRId64 ",\"operations_started\":%" PRIu64,
        head->rank, head->world_size, escaped, head->pid, coll_transport_name(head->transport),
        to_unix_us(&writer, now), get(&flight->number));
    escape(head->reason, escaped, sizeof escaped);
    say(&writer, ",\n \"reason\":\"%s\"", escaped);
    escape(head->doing, escaped, sizeof escaped);
    say(&writer, ",\n \"doing\":\"%s\",\n \"pending\":[", escaped);
    say_entries(&writer, false);
    say(&writer, "],");
    say_devices(&writer, head);
    say(&writer, "\n \"completed\":[");
    say_entries(&writer, true);
    say(&writer, "]}\n");
    return writer.status;
}

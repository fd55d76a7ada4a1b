/* What a simulation stores: the events to come, and the messages under way. All grow as needed.
 * Called by network.c. */
#include "network_store.h"

#include <stdlib.h>

#include "base/grow.h"
#include "network.h"

enum { FIRST_STREAMS = 1 << 12, FIRST_ITEMS = 1024 };

void network_push_event(network_store *store, float at, int32_t track)
{
    event *events = base_grow(store->events, (size_t)store->event_count, &store->event_room,
                              FIRST_ITEMS, sizeof *events);
    if (events == NULL) {
        store->no_memory = true;
        return;
    }
    store->events = events;
    int64_t i = store->event_count++;
    for (; i > 0 && store->events[(i - 1) / 2].at > at; i = (i - 1) / 2) {
        store->events[i] = store->events[(i - 1) / 2];
    }
    store->events[i] = (event){at, track};
}

int32_t network_pop_event(network_store *store)
{
    const int32_t number = store->events[0].track;
    const event last = store->events[--store->event_count];
    int64_t i = 0;
    for (int64_t child = 1; child < store->event_count; child = 2 * i + 1) {
        if (child + 1 < store->event_count &&
            store->events[child + 1].at < store->events[child].at) {
            child++;
        }
        if (store->events[child].at >= last.at) {
            break;
        }
        store->events[i] = store->events[child];
        i = child;
    }
    store->events[i] = last;
    return number;
}

static stream *find_slot(stream *streams, uint64_t slots, uint64_t key)
{
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
    while (streams[at % slots].key != 0 && streams[at % slots].key != key) {
        at++;
    }
    return &streams[at % slots];
}

static void widen_streams(network_store *store)
{
    const uint64_t slots = store->stream_slots == 0 ? FIRST_STREAMS : 2 * store->stream_slots;
    stream *wider = calloc(slots, sizeof *wider);
    if (wider == NULL) {
        store->no_memory = true;
        return;
    }
    for (uint64_t i = 0; i < store->stream_slots; i++) {
        if (store->streams[i].key != 0) {
            *find_slot(wider, slots, store->streams[i].key) = store->streams[i];
        }
    }
    free(store->streams);
    store->streams = wider;
    store->stream_slots = slots;
}

stream *network_stream_of(network_store *store, int from, int to, int channel)
{
    if (2 * (store->stream_count + 1) > store->stream_slots) {
        widen_streams(store);
    }
    const uint64_t key =
        1 + (uint64_t)channel + 2 * ((uint64_t)from * SIMULATE_RANKS_MAX + (uint64_t)to);
    stream *found = find_slot(store->streams, store->stream_slots, key);
    if (found->key == 0) {
        *found = (stream){.key = key, .head = NONE, .tail = NONE, .waiting = NONE};
        store->stream_count++;
    }
    return found;
}

int32_t network_new_message(network_store *store)
{
    if (store->message_free == NONE) {
        const size_t old = store->message_room;
        message *messages =
            base_grow(store->messages, old, &store->message_room, FIRST_ITEMS, sizeof *messages);
        if (messages == NULL) {
            store->no_memory = true;
            return NONE;
        }
        store->messages = messages;
        for (size_t i = old; i < store->message_room; i++) {
            messages[i].next = i + 1 < store->message_room ? (int32_t)i + 1 : NONE;
        }
        store->message_free = (int32_t)old;
    }
    const int32_t number = store->message_free;
    store->message_free = store->messages[number].next;
    return number;
}

bool network_store_make(network_store *store)
{
    *store = (network_store){.message_free = NONE};
    widen_streams(store);
    return !store->no_memory;
}

void network_store_free(network_store *store)
{
    free(store->streams);
    free(store->messages);
    free(store->events);
}

/* What a simulation stores: the events to come, and the messages under way. All grow as needed.
 * Called by network.c. */
#include "network_store.h"

#include <stdlib.h>

#include "network.h"

enum { FIRST_STREAMS = 1 << 12 };

/* Doubles an array; false, and no_memory is set, where there is no memory. */
static bool grow(network_store *store, void **array, size_t count, size_t item_bytes)
{
    void *grown = realloc(*array, count * item_bytes);
    if (grown == NULL) {
        store->no_memory = true;
        return false;
    }
    *array = grown;
    return true;
}

void network_push_event(network_store *store, float at, int32_t track)
{
    if (store->event_count == store->event_room) {
        const int64_t room = store->event_room == 0 ? 1024 : 2 * store->event_room;
        if (!grow(store, (void **)&store->events, (size_t)room, sizeof *store->events)) {
            return;
        }
        store->event_room = room;
    }
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
        const int32_t old = store->message_room;
        const int32_t room = old == 0 ? 1024 : 2 * old;
        if (!grow(store, (void **)&store->messages, (size_t)room, sizeof *store->messages)) {
            return NONE;
        }
        for (int32_t i = old; i < room; i++) {
            store->messages[i].next = i + 1 < room ? i + 1 : NONE;
        }
        store->message_room = room;
        store->message_free = old;
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

/* What a simulation keeps: the events to come, and the messages under way. All grow as needed. */
#ifndef COLL_SIMULATE_NETWORK_STORE_H
#define COLL_SIMULATE_NETWORK_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NONE = -1 };

/* When something has begun to be there, and when it is whole, in microseconds. */
typedef struct span {
    float begin;
    float end;
} span;

typedef struct message {
    span times;
    int32_t next;
} message;

/* What is under way from a rank to another in a channel. */
typedef struct stream {
    uint64_t key; /* 0: free */
    int32_t head; /* messages, in order */
    int32_t tail;
    int32_t waiting; /* the track that needs the next one; NONE */
} stream;

typedef struct event {
    float at;
    int32_t track;
} event;

typedef struct network_store {
    stream *streams;
    uint64_t stream_slots;
    uint64_t stream_count;
    message *messages;
    size_t message_room;
    int32_t message_free; /* list */
    event *events;        /* a binary heap, the earliest first */
    int64_t event_count;
    size_t event_room;
    bool no_memory; /* once set, nothing that this keeps is whole any more */
} network_store;

/* False without memory. */
bool network_store_make(network_store *store);
void network_store_free(network_store *store);

void network_push_event(network_store *store, float at, int32_t track);

/* The earliest event's track; there must be one. */
int32_t network_pop_event(network_store *store);

stream *network_stream_of(network_store *store, int from, int to, int channel);

/* A number in store->messages; NONE if there is no memory. */
int32_t network_new_message(network_store *store);

#endif

/* What the two halves of rank_control share: the rank's own thread (control.c) and the control
 * thread (control_thread.c). Private.
 *
 * Everything in rank_control below `lock` is guarded by it; `changed` is signalled on every change
 * that the rank's thread may wait for. The bus belongs to the control thread from start to join. */
#ifndef RANK_CONTROL_IMPL_H
#define RANK_CONTROL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/limits.h"
#include "control_queue.h"
#include "proto/bus.h"
#include "rank/control.h"

enum {
    RANK_CONTROL_QUEUE_BYTES = 256 * 1024,
    RANK_CONTROL_PEER_NAME_BYTES = BASE_HOSTNAME_BYTES + 32,
    RANK_CONTROL_ABORT_GRACE_MS = 300, /* abort heard until the process is ended */
};

struct rank_control {
    rank_identity identity;
    proto_key_file key;
    int lifeline_fd;
    int wake_fd; /* eventfd: the queue has something, or closing is set */
    proto_bus *bus;
    pthread_t thread;
    bool thread_started;
    char (*peer_names)[RANK_CONTROL_PEER_NAME_BYTES]; /* (world_size), set before joined */
    uint8_t *outgoing; /* (PROTO_RANK_MESSAGE_BYTES_MAX) the control thread's */
    uint8_t *packing;  /* (PROTO_RANK_MESSAGE_BYTES_MAX) the rank's thread's */
    uint64_t exchange_sequence;
    _Atomic bool stop_requested;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    control_queue queue;
    bool connected; /* the handshake is done */
    bool joined;
    bool goodbye;
    bool closing; /* the rank's thread wants the control thread to end */
    bool ended;   /* the link to the launcher is over: broken says why */
    base_error broken;
    rank_on_abort on_abort;
    void *on_abort_user;
    /* the exchange under way: where its parts go, once they are there */
    bool exchange_waits;
    bool exchange_done;
    void *exchange_all;
    size_t exchange_part_bytes;
    base_error exchange_error;
};

/* The control thread; user is the rank_control. */
void *rank_control_thread(void *user);

#endif

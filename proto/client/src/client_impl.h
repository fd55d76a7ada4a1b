/* The parts that the two threads of proto_client share: the rank's own thread (client.c) and the
 * control thread (thread.c). Private.
 *
 * `lock` guards every member below it. `changed` is signalled on every change that the rank's
 * thread may wait for. The bus belongs to the control thread from its start until it is joined. */
#ifndef PROTO_CLIENT_IMPL_H
#define PROTO_CLIENT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "proto/bus.h"
#include "proto/client.h"
#include "queue.h"
#include "work.h"

enum {
    PROTO_CLIENT_QUEUE_BYTES = 256 * 1024,
    PROTO_CLIENT_ABORT_GRACE_MS = 300, /* from the receipt of Abort until the process is ended */
};

struct proto_client {
    proto_identity identity;
    void *job_bytes; /* JOB.json */
    size_t job_size;
    proto_key_file key;
    int lifeline_fd;
    int wake_fd; /* eventfd: the queue has something, or closing is set */
    proto_bus *bus;
    pthread_t thread;
    bool thread_started;
    uint8_t *outgoing;      /* (PROTO_RANK_MESSAGE_BYTES_MAX) the control thread's */
    size_t unsent_bytes;    /* bytes of a message in it that the socket had no room for */
    bool connected;         /* the control thread's: the handshake is done, */
    bool said;              /* and something was sent; before that, */
    int64_t again_ns;       /* when to connect again; 0: a connection is there, */
    int64_t again_until_ns; /* and until when that is tried */
    uint8_t *packing;       /* (PROTO_RANK_MESSAGE_BYTES_MAX) the rank's thread's */
    uint64_t exchange_sequence;
    _Atomic bool stop_requested;
    _Atomic bool pause_requested;
    _Atomic bool dumped; /* the flight record was sent, after a failure */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    client_queue queue;
    bool joined;
    bool goodbye;
    bool closing; /* the rank's thread wants the control thread to end */
    bool ended;   /* nothing more will come; broken says why */
    bool aborted; /* the launcher aborted the job, and still listens */
    base_error broken;
    proto_on_abort on_abort;
    void *on_abort_user;
    proto_on_dump on_dump;
    void *on_dump_user;
    /* the current exchange: where its parts are copied to when they come */
    bool exchange_waits;
    bool exchange_done;
    void *exchange_all;
    size_t exchange_part_bytes;
    base_error exchange_error;
    client_work *work; /* rank 0 of a job with infer.requests; else NULL */
};

/* flight.c: writes the flight record and passes it to `send` in pieces. The last piece may be
 * empty. */
typedef void (*proto_send_piece)(proto_client *client, struct ProtobufCMessage *body);
void proto_client_send_flight(proto_client *client, const char *reason, proto_send_piece send);

/* The control thread; user is the proto_client. */
void *proto_client_thread(void *user);

#endif

/* A bounded queue of packed messages between the rank's thread and its control thread. Private.
 *
 * A ring of bytes: frames of a 32-bit size and that many bytes, wrapping around. No lock of its own
 * and no allocation after init: proto_client guards it. */
#ifndef PROTO_CLIENT_QUEUE_H
#define PROTO_CLIENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct client_queue {
    uint8_t *data;
    size_t size_bytes;
    size_t head; /* bytes ever taken */
    size_t tail; /* bytes ever put */
} client_queue;

bool client_queue_init(client_queue *queue, size_t size_bytes);
void client_queue_fini(client_queue *queue);
bool client_queue_empty(const client_queue *queue);

/* False when there is no room now. */
bool client_queue_put(client_queue *queue, const void *message, size_t message_bytes);

/* Copies the oldest message out; its size, or 0 when the queue is empty. size_bytes is at least the
 * largest ever put. */
size_t client_queue_take(client_queue *queue, void *message, size_t size_bytes);

#endif

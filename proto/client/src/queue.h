/* A bounded queue of packed messages from the rank's thread to its control thread. Private.
 *
 * It is a ring of bytes. A frame is a 32-bit size and that many bytes, and may wrap around. It has
 * no lock and allocates nothing after init. proto_client guards it. */
#ifndef PROTO_CLIENT_QUEUE_H
#define PROTO_CLIENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct client_queue {
    uint8_t *data;
    size_t size_bytes;
    size_t head; /* bytes taken since init */
    size_t tail; /* bytes put since init */
} client_queue;

bool client_queue_init(client_queue *queue, size_t size_bytes);
void client_queue_fini(client_queue *queue);
bool client_queue_empty(const client_queue *queue);

/* Appends a message. False if there is no room now. */
bool client_queue_put(client_queue *queue, const void *message, size_t message_bytes);

/* Copies the oldest message and returns its size; 0 if the queue is empty. size_bytes is at least
 * the largest message that was ever put. */
size_t client_queue_take(client_queue *queue, void *message, size_t size_bytes);

#endif

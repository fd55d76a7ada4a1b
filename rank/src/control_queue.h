/* A bounded queue of packed messages between the rank's thread and its control thread. Private.
 *
 * A ring of bytes: frames of a 32-bit size and that many bytes, wrapping around. No lock of its own
 * and no allocation after init: rank_control guards it. */
#ifndef RANK_CONTROL_QUEUE_H
#define RANK_CONTROL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct control_queue {
    uint8_t *data;
    size_t size_bytes;
    size_t head; /* bytes ever taken */
    size_t tail; /* bytes ever put */
} control_queue;

bool control_queue_init(control_queue *queue, size_t size_bytes);
void control_queue_fini(control_queue *queue);
bool control_queue_empty(const control_queue *queue);

/* False when there is no room now. */
bool control_queue_put(control_queue *queue, const void *message, size_t message_bytes);

/* Copies the oldest message out; its size, or 0 when the queue is empty. size_bytes is at least the
 * largest ever put. */
size_t control_queue_take(control_queue *queue, void *message, size_t size_bytes);

#endif

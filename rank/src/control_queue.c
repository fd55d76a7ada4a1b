#include "control_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

bool control_queue_init(control_queue *queue, size_t size_bytes)
{
    *queue = (control_queue){.data = malloc(size_bytes), .size_bytes = size_bytes};
    return queue->data != NULL;
}

void control_queue_fini(control_queue *queue)
{
    free(queue->data);
    *queue = (control_queue){0};
}

bool control_queue_empty(const control_queue *queue)
{
    return queue->head == queue->tail;
}

/* Bytes from position `at` up to the end of the ring, at most `wanted`. */
static size_t until_end(const control_queue *queue, size_t at, size_t wanted)
{
    const size_t left = queue->size_bytes - at % queue->size_bytes;
    return wanted < left ? wanted : left;
}

static void copy_in(control_queue *queue, const void *from, size_t size_bytes)
{
    const uint8_t *bytes = from;
    const size_t first = until_end(queue, queue->tail, size_bytes);
    memcpy(queue->data + queue->tail % queue->size_bytes, bytes, first);
    memcpy(queue->data, bytes + first, size_bytes - first);
    queue->tail += size_bytes;
}

static void copy_out(control_queue *queue, void *into, size_t size_bytes)
{
    uint8_t *bytes = into;
    const size_t first = until_end(queue, queue->head, size_bytes);
    memcpy(bytes, queue->data + queue->head % queue->size_bytes, first);
    memcpy(bytes + first, queue->data, size_bytes - first);
    queue->head += size_bytes;
}

bool control_queue_put(control_queue *queue, const void *message, size_t message_bytes)
{
    const uint32_t size = (uint32_t)message_bytes;
    BASE_ASSERT(message_bytes > 0 && message_bytes < queue->size_bytes - sizeof size);
    if (queue->size_bytes - (queue->tail - queue->head) < sizeof size + message_bytes) {
        return false;
    }
    copy_in(queue, &size, sizeof size);
    copy_in(queue, message, message_bytes);
    return true;
}

size_t control_queue_take(control_queue *queue, void *message, size_t size_bytes)
{
    uint32_t size = 0;
    if (control_queue_empty(queue)) {
        return 0;
    }
    copy_out(queue, &size, sizeof size);
    BASE_ASSERT(size <= size_bytes);
    copy_out(queue, message, size);
    return size;
}

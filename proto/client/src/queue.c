/* The ring of bytes between the rank's thread and the control thread. client.c puts packed messages
 * in, and thread.c takes them out. The client's lock guards it. */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

bool client_queue_init(client_queue *queue, size_t size_bytes)
{
    *queue = (client_queue){.data = malloc(size_bytes), .size_bytes = size_bytes};
    return queue->data != NULL;
}

void client_queue_fini(client_queue *queue)
{
    free(queue->data);
    *queue = (client_queue){0};
}

bool client_queue_empty(const client_queue *queue)
{
    return queue->head == queue->tail;
}

/* How many bytes of `wanted` there are from position `at` to the end of the ring. */
static size_t until_end(const client_queue *queue, size_t at, size_t wanted)
{
    const size_t left = queue->size_bytes - at % queue->size_bytes;
    return wanted < left ? wanted : left;
}

static void copy_in(client_queue *queue, const void *from, size_t size_bytes)
{
    const uint8_t *bytes = from;
    const size_t first = until_end(queue, queue->tail, size_bytes);
    memcpy(queue->data + queue->tail % queue->size_bytes, bytes, first);
    memcpy(queue->data, bytes + first, size_bytes - first);
    queue->tail += size_bytes;
}

static void copy_out(client_queue *queue, void *into, size_t size_bytes)
{
    uint8_t *bytes = into;
    const size_t first = until_end(queue, queue->head, size_bytes);
    memcpy(bytes, queue->data + queue->head % queue->size_bytes, first);
    memcpy(bytes + first, queue->data, size_bytes - first);
    queue->head += size_bytes;
}

bool client_queue_put(client_queue *queue, const void *message, size_t message_bytes)
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

size_t client_queue_take(client_queue *queue, void *message, size_t size_bytes)
{
    uint32_t size = 0;
    if (client_queue_empty(queue)) {
        return 0;
    }
    copy_out(queue, &size, sizeof size);
    BASE_ASSERT(size <= size_bytes);
    copy_out(queue, message, size);
    return size;
}

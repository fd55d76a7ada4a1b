/* A message of the zmq transport, from a peer that says what it likes: frames are taken out of it
 * within its bounds, each once, until the sizes do not fit;
 * what was written comes back as it was. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "transport/zmq/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_any(const uint8_t *message, size_t size_bytes)
{
    coll_frame_head head;
    const uint8_t *body = NULL;
    size_t at = 0;
    size_t before = 0;
    unsigned sum = 0;
    while (coll_zmq_frames_read(message, size_bytes, &at, &head, &body)) {
        BASE_ASSERT(at <= size_bytes);
        BASE_ASSERT(at - before == sizeof head + head.body_bytes);
        BASE_ASSERT(body == message + before + sizeof head);
        for (uint32_t i = 0; i < head.body_bytes; i++) {
            sum += body[i];
        }
        before = at;
    }
    BASE_ASSERT(at == before);
    BASE_ASSERT(sum <= 255 * size_bytes);
}

/* The first bytes say how long the bodies are that the rest is cut into. */
static void write_and_read(const uint8_t *data, size_t size_bytes)
{
    coll_frame_head heads[COLL_FRAMES_AT_ONCE] = {{.magic = COLL_FRAME_MAGIC}};
    const coll_net_frames frames = {
        .heads = heads, .count = COLL_FRAMES_AT_ONCE, .bodies = data + COLL_FRAMES_AT_ONCE};
    size_t left = size_bytes - COLL_FRAMES_AT_ONCE;
    for (int i = 0; i < COLL_FRAMES_AT_ONCE; i++) {
        heads[i].body_bytes = data[i] < left ? data[i] : (uint32_t)left;
        heads[i].number = (uint64_t)i;
        left -= heads[i].body_bytes;
    }
    const size_t bytes = coll_zmq_frames_bytes(&frames);
    uint8_t *message = malloc(bytes);
    BASE_ASSERT(message != NULL);
    coll_zmq_frames_write(&frames, message);
    const uint8_t *expected = frames.bodies;
    size_t at = 0;
    for (int i = 0; i < COLL_FRAMES_AT_ONCE; i++) {
        coll_frame_head head;
        const uint8_t *body = NULL;
        BASE_ASSERT(coll_zmq_frames_read(message, bytes, &at, &head, &body));
        BASE_ASSERT(memcmp(&head, &heads[i], sizeof head) == 0);
        BASE_ASSERT(memcmp(body, expected, head.body_bytes) == 0);
        expected += head.body_bytes;
    }
    BASE_ASSERT(at == bytes);
    free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t *message = malloc(size_bytes + 1); /* heap, so that its end is watched */
    BASE_ASSERT(message != NULL);
    memcpy(message + 1, data, size_bytes);
    read_any(message + 1, size_bytes);
    free(message);
    if (size_bytes >= COLL_FRAMES_AT_ONCE) {
        write_and_read(data, size_bytes);
    }
    return 0;
}

/* Reads and writes the frames of one zmq message. Called by zmq.c. */
#include "transport/zmq/frames.h"

#include <string.h>

size_t coll_zmq_frames_bytes(const coll_net_frames *frames)
{
    size_t bytes = 0;
    for (int i = 0; i < frames->count; i++) {
        bytes += sizeof frames->heads[i] + frames->heads[i].body_bytes;
    }
    return bytes;
}

void coll_zmq_frames_write(const coll_net_frames *frames, uint8_t *target)
{
    const uint8_t *body = frames->bodies;
    for (int i = 0; i < frames->count; i++) {
        const coll_frame_head *head = &frames->heads[i];
        memcpy(target, head, sizeof *head);
        target += sizeof *head;
        if (head->body_bytes > 0) {
            memcpy(target, body, head->body_bytes);
            target += head->body_bytes;
            body += head->body_bytes;
        }
    }
}

bool coll_zmq_frames_read(const uint8_t *message, size_t size_bytes, size_t *at,
                          coll_frame_head *head, const uint8_t **body)
{
    if (size_bytes - *at < sizeof *head) {
        return false;
    }
    memcpy(head, message + *at, sizeof *head);
    if (head->body_bytes > size_bytes - *at - sizeof *head) {
        return false;
    }
    *body = message + *at + sizeof *head;
    *at += sizeof *head + head->body_bytes;
    return true;
}

/* A message of the zmq transport: one frame or several, one behind the other, each a head and its
 * body. What is sent to a rank at the same time goes as one message, since each costs the hand-over
 * to a thread of ZeroMQ's at this end and from one at the other. */
#ifndef COLL_SRC_ZMQ_FRAMES_H
#define COLL_SRC_ZMQ_FRAMES_H

#include "transport/socket/net.h"

enum {
    COLL_ZMQ_KEPT_BYTES = 2048, /* of frames that wait to be coalesced */
    COLL_ZMQ_MESSAGE_BYTES_MAX = COLL_ZMQ_KEPT_BYTES + COLL_FRAMES_AT_ONCE * COLL_FRAME_BYTES_MAX,
};

/* What frames take in a message. */
size_t coll_zmq_frames_bytes(const coll_net_frames *frames);

/* Writes them to target, which has room for so much. */
void coll_zmq_frames_write(const coll_net_frames *frames, uint8_t *target);

/* The frame at *at of a message from a peer; *at goes to the next. False: there is no whole one,
 * and the rest means nothing. Only the sizes are checked. */
bool coll_zmq_frames_read(const uint8_t *message, size_t size_bytes, size_t *at,
                          coll_frame_head *head, const uint8_t **body);

#endif

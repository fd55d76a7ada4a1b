/* Limits of the HTTP server. docs/SERVE.md explains them. */
#ifndef LAUNCH_SERVE_LIMITS_H
#define LAUNCH_SERVE_LIMITS_H

enum {
    LAUNCH_SERVE_BODY_BYTES_MAX = 1 << 20, /* a prompt of the largest size, escaped or as tokens */
    LAUNCH_SERVE_SMALL_BYTES_MAX = 64 * 1024,  /* of a body that finds room in any case */
    LAUNCH_SERVE_LARGE_BYTES_MAX = 64 << 20,   /* of all larger ones that are on their way */
    LAUNCH_SERVE_HEADER_BYTES_MAX = 32 * 1024, /* MHD's memory of one connection */
    LAUNCH_SERVE_CONNECTIONS_MAX = 512,
    LAUNCH_SERVE_CONNECTIONS_SPARE = 64, /* of them: else one that waits for a request is closed */
    LAUNCH_SERVE_BACKLOG = 128,
    LAUNCH_SERVE_IDLE_SECONDS = 10,             /* a connection on which nothing moves is closed, */
    LAUNCH_SERVE_USED_SECONDS = 60,             /* or so if it has had a completion */
    LAUNCH_SERVE_UNREAD_BYTES_MAX = 1 << 20,    /* of a stream whose reader is slow */
    LAUNCH_SERVE_ANSWER_BYTES_MAX = 4 << 20,    /* of an answer that is sent as a whole */
    LAUNCH_SERVE_FINISHED_BYTES_MAX = 64 << 20, /* of all finished answers that are not read */
    LAUNCH_SERVE_CHOICES_MAX = 64,              /* of one request: n times its prompts */
    LAUNCH_SERVE_LOGPROBS_MAX = 64 * 1024,      /* that wait to be sent */
    LAUNCH_SERVE_CHUNK_BYTES = 16 * 1024,       /* handed to MHD at a time */
    LAUNCH_SERVE_KEY_BYTES_MIN = 16,
    LAUNCH_SERVE_KEY_BYTES_MAX = 512,
    LAUNCH_SERVE_HASH_BYTES = 32, /* of a key */
    LAUNCH_SERVE_MODEL_BYTES = 128,
    LAUNCH_SERVE_ORIGIN_BYTES = 300,
    LAUNCH_SERVE_URL_BYTES = 128,
    LAUNCH_SERVE_DRAIN_MS = 30 * 1000, /* --serve-drain */
    LAUNCH_SERVE_FLUSH_MS = 2000,      /* at the end, for answers that are on their way */
};

#endif

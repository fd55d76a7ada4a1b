/* Limits of the control plane. docs/WIRE.md explains them. */
#ifndef PROTO_LIMITS_H
#define PROTO_LIMITS_H

#include "base/limits.h"

enum {
    PROTO_CONTROL_VERSION = 2,

    /* one message from a rank; the largest are an Output and a Piece (a text, or a part of one) */
    PROTO_RANK_MESSAGE_BYTES_MAX = 64 * 1024,
    /* one message from the launcher, without parts for each rank; the largest is a Request */
    PROTO_LAUNCHER_MESSAGE_BYTES_MAX = (256 + 12 + 32) * 1024,
    /* one rank's part of a message from the launcher: a part of an exchange */
    PROTO_LAUNCHER_PART_BYTES_MAX = 4096 + 1024,
    /* one rank's part of an exchange */
    PROTO_MICRO_BATCHES_MAX = 256, /* of a rank and step */
    PROTO_TENSOR_RANKS_MAX = 16,   /* that share a stage of a training */
    PROTO_CONTEXT_RANKS_MAX = 64,  /* that share a micro-batch of a training */
    PROTO_EXPERT_RANKS_MAX = 64,   /* that share out the experts of a model */
    PROTO_EXCHANGE_BYTES_MAX = 4096,
    /* one piece of a rank's flight record, and the whole record */
    PROTO_FLIGHT_PIECE_BYTES_MAX = 32 * 1024,
    PROTO_FLIGHT_BYTES_MAX = 1024 * 1024,

    PROTO_TEXT_BYTES_MAX = 32 * 1024,    /* a part of a generated text */
    PROTO_OUTPUT_BYTES_MAX = 64 << 20,   /* all parts of one */
    PROTO_PROMPT_BYTES_MAX = 256 * 1024, /* a prompt that a user gives: PROTO_CONTEXT_MAX tokens of
                                          * 4 bytes */
    PROTO_PROMPTS_MAX = 64 * 1024,       /* prompts of one job */
    PROTO_REASON_BYTES_MAX = 4096,       /* the message of an error */
    PROTO_HOST_TIMEOUT_MAX_MS = 3600 * 1000,
    PROTO_CPU_BITS_BYTES_MAX = 128,      /* a set of CPUs, a bit for each */
    PROTO_MEMORY_USES_MAX = 16,          /* uses of a GPU's memory that are told apart */
    PROTO_EXCHANGE_USES_MAX = 4,         /* kinds of collectives in a step that are counted */
    PROTO_MEMORY_NAME_BYTES_MAX = 23,    /* the name of one */
    PROTO_GPU_TEXT_BYTES_MAX = 8 * 1024, /* the libraries, or the environment, of a GPU's rank */
    PROTO_NAME_BYTES_MAX = 256,          /* a transport, an algorithm, the beginning of a
                                         * sentence */

    /* requests that come while a job runs */
    PROTO_PROMPT_TOKENS_MAX = 64 * 1024,                /* of a prompt that is given as tokens */
    PROTO_STOP_TOKENS_MAX = 15,                         /* of one request */
    PROTO_LOGIT_BIASES_MAX = 300,                       /* of one request */
    PROTO_CHAT_MESSAGES_MAX = 256,                      /* of one chat */
    PROTO_CHAT_TEXTS_MAX = 2 * PROTO_CHAT_MESSAGES_MAX, /* roles and contents; together at most
                                                         * PROTO_PROMPT_BYTES_MAX */
    PROTO_NEW_TOKENS_MAX = 65536,
    PROTO_VOCAB_MAX = 1 << 20,
    PROTO_CONTEXT_MAX = 65536,
    PROTO_WIDTH_MAX = 1 << 14,
    PROTO_LAYERS_MAX = 512,
    PROTO_EXPERTS_MAX = 512, /* of a block */
    PROTO_LOADS_MAX = 4096,  /* experts of all layers, whose shares of tokens the record has */
    PROTO_BATCH_TOKENS_MAX = 1 << 20, /* of one micro-batch */
    PROTO_TOP_K_MAX = 1024,
    PROTO_SEQUENCES_MAX = 1024, /* --max-num-seqs */
    PROTO_CACHE_TOKENS_MAX = PROTO_SEQUENCES_MAX * PROTO_CONTEXT_MAX,
    PROTO_DRAFT_TOKENS_MAX = 16,      /* --speculate */
    PROTO_DRAFT_TOKENS = 4,           /* … where --draft alone is given */
    PROTO_REQUESTS_WAITING_MAX = 64,  /* beyond those that run */
    PROTO_REQUESTS_UNJUDGED_MAX = 32, /* sent, without a verdict yet */
    PROTO_REQUESTS_OPEN_MAX = PROTO_SEQUENCES_MAX + PROTO_REQUESTS_WAITING_MAX, /* not answered */
    PROTO_EVENTS_AHEAD_MAX = 256,              /* sent beyond the launcher's credit */
    PROTO_EVENT_TOKENS_MAX = 256,              /* in one Tokens */
    PROTO_LOGPROBS_MAX = 21,                   /* of a token: its own, and those of the 20 best */
    PROTO_EVENT_LOGPROBS_MAX = 512,            /* in one Tokens */
    PROTO_TOKEN_BYTES_MAX = 1024,              /* of a token's text, among these */
    PROTO_EVENT_LOGPROB_BYTES_MAX = 24 * 1024, /* of all their texts */
    PROTO_EVENT_TEXT_BYTES_MAX = 16 * 1024,

    /* messages queued for one peer before sending fails (launcher) or waits (rank) */
    PROTO_SEND_MESSAGES_MAX = 8192,
    PROTO_RECV_MESSAGES_MAX = 8192,

    /* between the launchers of several hosts */
    PROTO_NODES_MAX = 256,
    PROTO_HOST_MESSAGE_BYTES_MAX = 256 * 1024, /* the largest is an Assign: JOB.json, files */
    PROTO_PRINTED_BYTES_MAX = 32 * 1024,       /* of a rank's output in one message */
    PROTO_PRINTED_AHEAD_BYTES = 256 * 1024,    /* by one agent, and not taken by the head yet */
    PROTO_PRINTED_LAST_MESSAGES_MAX = 64, /* of an ended rank's stream: all of the largest pipe */
    PROTO_FILES_MAX = 256 + 32, /* that a job on several hosts reads: shards, and others */
    PROTO_FILE_KEY_BYTES_MAX = 64,
    PROTO_CHUNK_BYTES_MAX = 64 * 1024, /* of a file in one message */
    PROTO_CHUNKS_AHEAD_MAX = 8, /* asked for and not there yet; other messages wait behind them */
    PROTO_SIGNAL_MAX = 64,
    PROTO_FLAG_DIGEST_BYTES = 8, /* of one flag of a job */
    PROTO_FLAG_DIGESTS_MAX = 128,

    PROTO_HANDSHAKE_MS = 10 * 1000, /* from the TCP connection to the end of the CURVE handshake */
    PROTO_LINGER_MS = 200,          /* a closing socket waits so long for its last messages */
    PROTO_BACKLOG = 128,            /* connections waiting in the kernel */
    PROTO_PENDING_EXTRA_MAX =
        64, /* connections to a job's socket that are no rank's yet, beyond one
                                     * for each rank; then the oldest is closed */

    /* a service whose clients come and go */
    PROTO_SERVICE_MESSAGES_MAX = 16, /* queued per connection and direction; then it waits */
    PROTO_SERVICE_HEARTBEAT_MS = 5 * 1000,
    PROTO_SERVICE_SILENCE_MS = 15 * 1000, /* a connection is closed after so long without a
                                           * message */

    PROTO_ENDPOINT_BYTES = 128, /* with the final NUL */
};

#endif

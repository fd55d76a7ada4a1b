/* The whole configuration of a job, as one canonical JSON text: JOB.json.
 *
 * The launcher makes it from its command line, the rank parses its whole configuration from those
 * very bytes; nothing else configures a rank. Canonical: keys sorted, no spaces, every field
 * present. Reading is strict: unknown or missing keys, duplicate keys, wrong types and values out
 * of range are refused by name.
 *
 * Plain data, no pointers; pure functions. */
#ifndef PROTO_JOB_H
#define PROTO_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/digest.h"

enum {
    PROTO_JOB_BYTES_MAX = 64 * 1024,
    PROTO_JOB_NAME_BYTES = 32, /* of a mode, an algorithm, … */
    PROTO_JOB_PROMPT_BYTES = 4096,
    PROTO_JOB_INTERFACE_BYTES = 256,
};

typedef struct proto_job {
    /* what runs */
    char mode[PROTO_JOB_NAME_BYTES]; /* ddp-cpu, generate, program, gate-check */
    int64_t world_size;
    int64_t seed;
    /* the model */
    int64_t vocab_size;
    int64_t width;
    int64_t layers;
    int64_t heads;
    int64_t context;
    /* the data */
    char data[BASE_PATH_BYTES];               /* absolute path of the training JSONL */
    char data_sha256[PROTO_DIGEST_HEX_BYTES]; /* of that file, in hex; empty: not pinned */
    char heldout[BASE_PATH_BYTES];            /* absolute path for eval; empty: none */
    char tokenizer[BASE_PATH_BYTES];          /* absolute path of tokenizer.json */
    char loss_on[PROTO_JOB_NAME_BYTES];       /* correction, all */
    /* training */
    int64_t steps;
    int64_t batch;         /* rows of `context` tokens per rank and micro-batch */
    int64_t micro_batches; /* per rank and step */
    double learning_rate;
    double learning_rate_min;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    double clip_norm; /* 0: no clipping */
    int64_t warmup_steps;
    char schedule[PROTO_JOB_NAME_BYTES]; /* constant, cosine */
    /* parallelism */
    char transport[PROTO_JOB_NAME_BYTES];      /* auto, shm, tcp, zmq */
    char interface[PROTO_JOB_INTERFACE_BYTES]; /* as libcoll's option of that name; empty: none */
    char tcp_auth[PROTO_JOB_NAME_BYTES];       /* mac, encrypt, off */
    char algorithm[PROTO_JOB_NAME_BYTES];      /* auto, or a name of libcoll */
    char timing[PROTO_JOB_NAME_BYTES];         /* overlapped, bracketed */
    int64_t bucket_bytes;
    int64_t timeout_ms; /* of one collective */
    int64_t join_timeout_ms;
    int64_t threads_per_rank;
    /* what it writes and reads */
    char out[BASE_PATH_BYTES];        /* absolute folder for states; empty: nothing is written */
    char checkpoint[BASE_PATH_BYTES]; /* absolute folder to start from; empty: fresh parameters */
    char
        checkpoint_sha256[PROTO_DIGEST_HEX_BYTES]; /* of its model.safetensors; empty: not pinned */
    bool eval;                                     /* exact-match accuracy on heldout at the end */
    char prompt[PROTO_JOB_PROMPT_BYTES];           /* generate: one prompt per line; empty: none */
    int64_t new_tokens_max;
} proto_job;

/* Whether a mode may cost money: every *-nccl mode, and gate-check, which stands in for them. Its
 * ranks pass the gate (rank/gate.h) before anything else. */
bool proto_mode_is_cloud(const char *mode);

/* The defaults of `launcher --mode ddp-cpu`; paths empty. */
void proto_job_defaults(proto_job *job);

/* Every field is in its range and the fields agree (width divisible by heads, say). */
BASE_MUST_CHECK base_status proto_job_check(const proto_job *job, base_error *reterr);

/* Sets one field, by its key, from a text as it stands on a command line, and checks its range. The
 * message says what the value must be, without the key. BASE_ERR_NOTFOUND: no such key. */
BASE_MUST_CHECK base_status proto_job_set(proto_job *job, const char *key, const char *value,
                                          base_error *reterr);

/* Writes the canonical text, NUL-terminated; *text is malloc'ed, freed by the caller. */
BASE_MUST_CHECK base_status proto_job_write(const proto_job *job, char **text, size_t *text_bytes,
                                            base_error *reterr);

/* Strict parse and check. job is untouched on failure. */
BASE_MUST_CHECK base_status proto_job_parse(const void *text, size_t text_bytes, proto_job *job,
                                            base_error *reterr);

#endif

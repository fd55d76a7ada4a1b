/* Encodes files of text, and writes their tokens. Called by encode_main.c. */
#include "encode.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/thread.h"
#include "encode_batch.h"
#include "out.h"
#include "proto/digest.h"
#include "texts.h"

enum {
    BATCH_BYTES = 1 << 20,  /* of texts, or one longer part */
    BATCH_PARTS = 1 << 16,  /* which may be empty */
    BATCHES_PER_THREAD = 2, /* so that threads which are done early take another one */
    PROGRESS_EVERY_S = 5,
};

/* The batches are filled in the order of the texts, encoded in any, and written in the first one. */
typedef struct encoder {
    int threads;
    rank_tokenizer **tokenizers; /* (threads) */
    rank_encode_batch *batches;  /* (threads × BATCHES_PER_THREAD) */
    int filled;                  /* batches, without the one that is being filled */
    atomic_int taken;            /* … that some thread encodes, or has */
    char tokenizer_sha256[PROTO_DIGEST_HEX_BYTES];
    rank_token_writer *writer;
    rank_token_summary summary;
    base_error why; /* a round has failed: that is no flaw of the text that was read then */
    int64_t began_ns;
    int64_t said_ns;
} encoder;

/* A thread of one round. */
typedef struct encode_thread {
    encoder *of;
    rank_tokenizer *tokenizer;
    pthread_t thread;
} encode_thread;

static void *encode_some(void *argument)
{
    const encode_thread *self = argument;
    encoder *of = self->of;
    for (int i = atomic_fetch_add(&of->taken, 1); i < of->filled;
         i = atomic_fetch_add(&of->taken, 1)) {
        rank_encode_batch_run(&of->batches[i], self->tokenizer);
    }
    return NULL;
}

/* Encodes the batches on this thread and others. */
static base_status encode_all(encoder *self, base_error *reterr)
{
    encode_thread threads[RANK_ENCODE_THREADS_MAX];
    base_status status = BASE_OK;
    int started = 1;
    atomic_store(&self->taken, 0);
    threads[0] = (encode_thread){.of = self, .tokenizer = self->tokenizers[0]};
    for (; status == BASE_OK && started < self->threads && started < self->filled; started++) {
        threads[started] = (encode_thread){.of = self, .tokenizer = self->tokenizers[started]};
        status = base_thread_start(&threads[started].thread, encode_some, &threads[started],
                                   "a thread that encodes", reterr);
        started -= status != BASE_OK;
    }
    (void)encode_some(&threads[0]);
    for (int i = 1; i < started; i++) {
        (void)pthread_join(threads[i].thread, NULL);
    }
    return status;
}

static void say(encoder *self)
{
    const int64_t now_ns = base_now_ns();
    if (now_ns - self->said_ns < PROGRESS_EVERY_S * BASE_NS_PER_S) {
        return;
    }
    self->said_ns = now_ns;
    const double seconds = (double)(now_ns - self->began_ns) / BASE_NS_PER_S;
    const double megabytes = (double)self->summary.text_bytes / 1e6;
    base_log(BASE_LOG_INFO, "encoded %.0f MB: %" PRIu64 " tokens, %.1f MB/s", megabytes,
             self->summary.token_count, megabytes / seconds);
}

/* Encodes what is filled, and writes it. */
static base_status finish_round(encoder *self, base_error *reterr)
{
    base_status status = encode_all(self, reterr);
    for (int i = 0; status == BASE_OK && i < self->filled; i++) {
        rank_encode_batch *batch = &self->batches[i];
        status = batch->status;
        if (status != BASE_OK) {
            return base_fail(reterr, status, "%s", batch->error.message);
        }
        status = rank_token_writer_put(self->writer, batch->ids, batch->id_count, reterr);
        self->summary.token_count += batch->id_count;
        self->summary.text_bytes += batch->text_bytes;
        rank_encode_batch_clear(batch);
    }
    self->filled = 0;
    say(self);
    return status;
}

static base_status take_part(void *user, const rank_text_part *part, base_error *reterr)
{
    encoder *self = user;
    rank_encode_batch *batch = &self->batches[self->filled];
    if (part->is_asked) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "prompts and chats are not cut into windows: train on the lines themselves");
    }
    const base_status status = rank_encode_batch_add(batch, part, reterr);
    if (status != BASE_OK) {
        return status;
    }
    self->summary.documents += part->ends ? 1 : 0;
    self->filled += batch->text_bytes >= BATCH_BYTES || batch->part_count >= BATCH_PARTS ? 1 : 0;
    return self->filled < self->threads * BATCHES_PER_THREAD ? BASE_OK
                                                             : finish_round(self, &self->why);
}

static base_status encode_texts(encoder *self, const rank_encode_options *options,
                                base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < options->text_count; i++) {
        status = rank_texts_read(options->text_paths[i], take_part, self, reterr);
    }
    if (self->why.message[0] != '\0') {
        return base_fail(reterr, status, "%s", self->why.message);
    }
    if (status == BASE_OK) {
        self->filled += self->batches[self->filled].part_count > 0;
        status = finish_round(self, reterr);
    }
    if (status == BASE_OK && self->summary.documents == 0) {
        status = base_fail(reterr, BASE_ERR_INVALID, "there is no text in these files");
    }
    return status;
}

static base_status open_tokenizers(encoder *self, const char *path, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < self->threads; i++) {
        status = rank_tokenizer_load(path, &self->tokenizers[i], reterr);
    }
    if (status == BASE_OK && rank_tokenizer_end_id(self->tokenizers[0]) < 0) {
        status =
            base_fail(reterr, BASE_ERR_INVALID,
                      "%s has no <|endoftext|>, <|end_of_text|> or </s> to end texts with", path);
    }
    return status;
}

static base_status open_writer(encoder *self, const rank_encode_options *options,
                               base_error *reterr)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    const rank_token_writer_options writer = {
        .vocab_size = rank_tokenizer_vocab_size(self->tokenizers[0]),
        .tokenizer_sha256 = self->tokenizer_sha256,
        .sources = options->text_paths,
        .source_count = options->text_count,
    };
    base_status status = proto_sha256_file(options->tokenizer_path, digest, reterr);
    if (status == BASE_OK) {
        proto_digest_hex(digest, self->tokenizer_sha256);
        status = rank_token_writer_open(options->out_path, &writer, &self->writer, reterr);
    }
    if (status == BASE_OK && options->opened != NULL) {
        options->opened();
    }
    return status;
}

static base_status encode(encoder *self, const rank_encode_options *options, base_error *reterr)
{
    self->tokenizers = calloc((size_t)self->threads, sizeof *self->tokenizers);
    self->batches = calloc((size_t)self->threads * BATCHES_PER_THREAD, sizeof *self->batches);
    if (self->tokenizers == NULL || self->batches == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d threads", self->threads);
    }
    base_status status = open_tokenizers(self, options->tokenizer_path, reterr);
    status = status == BASE_OK ? open_writer(self, options, reterr) : status;
    status = status == BASE_OK ? encode_texts(self, options, reterr) : status;
    if (status == BASE_OK) {
        status = rank_token_writer_commit(self->writer, &self->summary, reterr);
        self->writer = NULL;
    }
    return status;
}

base_status rank_encode_run(const rank_encode_options *options, rank_token_summary *summary,
                            base_error *reterr)
{
    encoder self = {.threads = options->threads, .began_ns = base_now_ns()};
    self.said_ns = self.began_ns;
    if (!base_path_has_tokens(options->out_path)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--out %s: a file of tokens has a name that ends in .safetensors: else "
                         "--data would take it for a text",
                         options->out_path);
    }
    base_status status = rank_out_prepare(options->out_path, reterr);
    status = status == BASE_OK ? encode(&self, options, reterr) : status;
    rank_token_writer_abandon(self.writer);
    for (int i = 0; self.tokenizers != NULL && i < self.threads; i++) {
        rank_tokenizer_destroy(self.tokenizers[i]);
    }
    for (int i = 0; self.batches != NULL && i < self.threads * BATCHES_PER_THREAD; i++) {
        rank_encode_batch_fini(&self.batches[i]);
    }
    free(self.tokenizers);
    free(self.batches);
    *summary = self.summary;
    return status;
}

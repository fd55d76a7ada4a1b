/* gpu-measure: figures and checks that tests/gpu/run.sh needs and no other program gives. Each
 * prints lines "NAME NUMBER". One thread. */
#ifndef GPU_MEASURE_H
#define GPU_MEASURE_H

#include "open.h"

/* A queue on the plugin's backend of this name, or on the CPU's ("cpu"; `plugin` is not read). */
BASE_MUST_CHECK base_status measure_open(const char *plugin, const char *backend,
                                         gpu_plugin *opened, rank_device *device,
                                         base_error *reterr);

/* Tries one thing that all else depends on: "kernels", "graph" (that is captured cold), "signals"
 * between graphs, "collective" (of NCCL, on one rank). */
BASE_MUST_CHECK base_status measure_contact(const char *plugin, const char *what,
                                            base_error *reterr);

/* A chain of decoding's kernels on rows of so many floats (a multiple of 4), so many times in each of
 * three ways: with a wait after each kernel, with overlap, and in a graph. BASE_ERR_IO: the bytes
 * differ. */
BASE_MUST_CHECK base_status measure_overlap(const char *plugin, size_t width, int times,
                                            base_error *reterr);

/* Bytes per second of a copy inside the device's memory, read and written bytes both counted. */
BASE_MUST_CHECK base_status measure_copy(const char *plugin, size_t size_bytes, base_error *reterr);

/* Host time of one all-reduce on one rank: through libcoll, and through NCCL's own call; launched
 * one by one, and replayed as part of a graph. */
BASE_MUST_CHECK base_status measure_all_reduce(const char *plugin, base_error *reterr);

/* In each rank of a job of the launcher, a GPU each: times of all-reduces of 4 KiB, 1 MiB and so many
 * bytes through libcoll and through NCCL's own call, from rank 0. BASE_ERR_MISMATCH: a sum in a graph is wrong. */
BASE_MUST_CHECK base_status measure_all_reduces(const char *plugin, size_t size_bytes,
                                                base_error *reterr);

/* The directory's model over some tokens: logits (tokens, V) as raw float32 into the file `out`.
 * Token i is (7919 i + 13) mod V. */
BASE_MUST_CHECK base_status measure_logits(const rank_device *device, const char *checkpoint,
                                           int token_count, const char *out, base_error *reterr);

/* Compares the token ids of two results.json of the same prompts. Where an answer parts from the
 * expected one, the CPU's logits say how close the two tokens were. */
BASE_MUST_CHECK base_status measure_answers(const char *checkpoint, const char *expected,
                                            const char *found, base_error *reterr);

/* Writes tokenizer.json with 29169 tokens, and train.jsonl with sentences of `words` of them each,
 * into the directory. `tokenizer` is any of ours, for its first 256 tokens. */
BASE_MUST_CHECK base_status measure_write_data(const char *tokenizer, const char *directory,
                                               int words, base_error *reterr);

#endif

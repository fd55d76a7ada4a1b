/* Checkpoints: safetensors files and a Hugging Face folder.
 *
 * A safetensors file is: header length (u64 little-endian), JSON header padded with spaces to 8
 * bytes, tensors without holes. Files are written under a temporary name and renamed. Reading is
 * strict: sizes, offsets, types and shapes are checked against the configuration before anything is
 * copied. */
#ifndef RANK_CHECKPOINT_H
#define RANK_CHECKPOINT_H

#include "base/status.h"
#include "rank/model.h"

enum { RANK_SAFETENSORS_HEADER_BYTES_MAX = 1 << 20 };

/* Writes all tensors as float32 under GPT-2's names, each with `prefix` ("" or "transformer.")
 * before it. */
BASE_MUST_CHECK base_status rank_safetensors_write(const char *path,
                                                   const rank_model_config *config,
                                                   const float *params, const char *prefix,
                                                   base_error *reterr);

/* Reads them back; the prefix may be present or not. */
BASE_MUST_CHECK base_status rank_safetensors_read(const char *path, const rank_model_config *config,
                                                  float *params, base_error *reterr);

/* Writes model.safetensors, config.json, generation_config.json, tokenizer_config.json and a copy
 * of tokenizer.json into folder, which exists: GPT2LMHeadModel.from_pretrained(folder) gives our
 * logits. */
BASE_MUST_CHECK base_status rank_checkpoint_write(const char *folder,
                                                  const rank_model_config *config,
                                                  const float *params, const char *tokenizer_path,
                                                  base_error *reterr);

/* Reads the configuration from folder/config.json. */
BASE_MUST_CHECK base_status rank_checkpoint_config(const char *folder, rank_model_config *config,
                                                   base_error *reterr);

#endif

/* Checkpoints: safetensors files, and directories in Hugging Face's form. The names of a model's
 * tensors and settings belong to its family (model/family.h).
 *
 * A safetensors file is: header length (u64 little-endian), JSON header padded with spaces to 8
 * bytes, tensors without holes. Files are written under a temporary name and renamed. Reading is
 * strict: sizes, offsets, types and shapes are checked against the configuration before anything is
 * copied. */
#ifndef RANK_CHECKPOINT_H
#define RANK_CHECKPOINT_H

#include "base/status.h"
#include "rank/model.h"

/* Writes all tensors under the family's names, each with `prefix` ("" or the family's) before it. As
 * bfloat16 they are rounded to nearest, ties to even. */
BASE_MUST_CHECK base_status rank_safetensors_write(const char *path,
                                                   const rank_model_config *config,
                                                   const float *params, const char *prefix,
                                                   rank_type type, base_error *reterr);

/* Reads them back. The prefix may be missing. If there is PATH.index.json, as large models of
 * Hugging Face have it, the files that it names are read instead. Tensors may be F32, BF16 or
 * F16. An infinity or a NaN is BASE_ERR_INVALID. Errors name the file and the tensor. */
BASE_MUST_CHECK base_status rank_safetensors_read(const char *path, const rank_model_config *config,
                                                  float *params, base_error *reterr);

/* The same of what a training saved of itself, parameters or moments, which it goes on with whatever
 * their values are. */
BASE_MUST_CHECK base_status rank_safetensors_read_saved(const char *path,
                                                        const rank_model_config *config,
                                                        float *params, base_error *reterr);

/* What a directory holds besides the parameters. */
typedef struct rank_checkpoint_about {
    const rank_model_config *config;
    const char *tokenizer_path;
    int32_t end_id;            /* what ends a text: eos_token_id */
    const char *prompt_suffix; /* what followed each prompt in training; "": nothing */
    int32_t begin_id;          /* what begins one: bos_token_id, */
    char begin_token[64];      /* and its name; "": end_id */
    const char *end_token;     /* the name of end_id; NULL: <|endoftext|> */
    const char *source;        /* the directory of the model that training began from; NULL: none */
    rank_type type;            /* of the numbers in the file */
} rank_checkpoint_about;

/* Writes model.safetensors, config.json, generation_config.json, tokenizer_config.json and a copy
 * of the tokenizer's file as tokenizer.json into directory, which exists. transformers'
 * from_pretrained(directory) then gives our logits. What the source says of the tokens that begin and end
 * a text, of drawing, and of chats, is kept; end_id then ends a text, too. */
BASE_MUST_CHECK base_status rank_checkpoint_write(const char *directory,
                                                  const rank_checkpoint_about *about,
                                                  const float *params, base_error *reterr);

/* Adapters (rank/adapters.h) and what their directory says of them. */
typedef struct rank_adapter_about {
    rank_checkpoint_about
        checkpoint; /* config: of the model that has them; source: its directory */
    double alpha;   /* their scale times their rank */
} rank_adapter_about;

/* Writes adapter_config.json and adapter_model.safetensors, which PEFT reads, and generation_config.json
 * into directory, which exists. */
BASE_MUST_CHECK base_status rank_adapter_write(const char *directory,
                                               const rank_adapter_about *about,
                                               const float *adapters, base_error *reterr);

/* Reads adapter_config.json, and says in model->adapters which adapters there are for the model.
 * BASE_ERR_UNSUPPORTED and BASE_ERR_INVALID name what they are not. */
BASE_MUST_CHECK base_status rank_adapter_config(const char *directory, rank_model_config *model,
                                                base_error *reterr);

/* The same, and adapter_model.safetensors. *adapters is malloc'ed and the caller's. */
BASE_MUST_CHECK base_status rank_adapter_load(const char *directory, rank_model_config *model,
                                              float **adapters, base_error *reterr);

/* Reads the configuration from directory/config.json. */
BASE_MUST_CHECK base_status rank_checkpoint_config(const char *directory, rank_model_config *config,
                                                   base_error *reterr);

enum { RANK_GENERATION_STOPS_MAX = 15, RANK_PROMPT_SUFFIX_BYTES = 64 };

/* The origin of prompt_suffix. */
typedef enum rank_suffix {
    RANK_SUFFIX_GIVEN,    /* the checkpoint has it; "" in one that does not know the key */
    RANK_SUFFIX_NOT_SAID, /* the checkpoint is ours, but older than the key: the job's loss_on
                           * decides */
} rank_suffix;

/* What the checkpoint says about prompts and stops. */
typedef struct rank_generation_config {
    int32_t stops[RANK_GENERATION_STOPS_MAX]; /* eos_token_id: an id or a list */
    int stop_count;
    rank_suffix suffix;
    char prompt_suffix[RANK_PROMPT_SUFFIX_BYTES];
} rank_generation_config;

/* Reads directory/generation_config.json. Without the file there is no suffix, and the stops are those
 * of config.json, if there is that one. BASE_ERR_INVALID names an id that is not below vocab_size, or another flaw. */
BASE_MUST_CHECK base_status rank_checkpoint_generation(const char *directory, int vocab_size,
                                                       rank_generation_config *config,
                                                       base_error *reterr);

enum { RANK_CHAT_TOKEN_NAME_BYTES = 64 };

/* How the checkpoint writes chats: a program in Jinja, which data/chat.h runs. */
typedef struct rank_chat_template {
    char *text;                                   /* NULL: it does not say */
    char begin_token[RANK_CHAT_TOKEN_NAME_BYTES]; /* the name of bos_token; "": there is none */
    char end_token[RANK_CHAT_TOKEN_NAME_BYTES];   /* … of eos_token */
} rank_chat_template;

/* Reads directory/chat_template.jinja, or without it tokenizer_config.json. BASE_ERR_INVALID names a
 * flaw. template->text is the caller's to free, also NULL after a failure. */
BASE_MUST_CHECK base_status rank_checkpoint_chat_template(const char *directory,
                                                          rank_chat_template *template,
                                                          base_error *reterr);

#endif

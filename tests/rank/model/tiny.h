/* A small model with parameters of some size, and batches for it. */
#ifndef TEST_TINY_H
#define TEST_TINY_H

#include "rank/model.h"

enum { TINY_TOKENS_MAX = 96, TINY_SEGMENTS_MAX = 16 };

typedef struct tiny {
    rank_model_config config;
    rank_device device;
    rank_model *model;
    rank_hooks hooks; /* params, and nobody to tell */
    float *params;
    float *grads; /* NAN before each tiny_train */
    size_t param_count;
    int32_t ids[TINY_TOKENS_MAX];
    int32_t targets[TINY_TOKENS_MAX];
    int32_t segments[TINY_SEGMENTS_MAX + 1];
    rank_batch batch;
} tiny;

/* A config.json: a Llama whose heads share keys and values, and are together wider than the stream. */
#define TINY_LLAMA(more)                                                                           \
    "{\"model_type\":\"llama\",\"vocab_size\":37,\"hidden_size\":20,\"intermediate_size\":48,"     \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6,"  \
    "\"rms_norm_eps\":1e-5,\"max_position_embeddings\":24,\"hidden_act\":\"silu\"," more "}"
#define TINY_LLAMA_TIED TINY_LLAMA("\"tie_word_embeddings\":true")
#define TINY_LLAMA_LINEAR                                                                          \
    TINY_LLAMA("\"rope_theta\":500.0,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}")
#define TINY_LLAMA_LLAMA3                                                                          \
    TINY_LLAMA(                                                                                    \
        "\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500.0,\"factor\":8.0,"       \
        "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"                                        \
        "\"original_max_position_embeddings\":64}")

/* Qwen2s: with a head's width of its own, and without. */
#define TINY_QWEN2                                                                                 \
    "{\"model_type\":\"qwen2\",\"vocab_size\":37,\"hidden_size\":20,\"intermediate_size\":48,"     \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6,"  \
    "\"rms_norm_eps\":1e-6,\"rope_theta\":1e6,\"max_position_embeddings\":24,"                     \
    "\"hidden_act\":\"silu\",\"use_sliding_window\":false,\"sliding_window\":8}"
#define TINY_QWEN2_TIED                                                                            \
    "{\"model_type\":\"qwen2\",\"vocab_size\":37,\"hidden_size\":24,\"intermediate_size\":48,"     \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,"                 \
    "\"rms_norm_eps\":1e-6,\"rope_theta\":1e6,\"max_position_embeddings\":24,"                     \
    "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true}"

/* Qwen3s: heads that are together wider than the stream and share keys, and heads that do not. */
#define TINY_QWEN3                                                                                 \
    "{\"model_type\":\"qwen3\",\"vocab_size\":37,\"hidden_size\":20,\"intermediate_size\":48,"     \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6,"  \
    "\"rms_norm_eps\":1e-6,\"rope_theta\":1e6,\"max_position_embeddings\":24,"                     \
    "\"hidden_act\":\"silu\",\"attention_bias\":false,\"tie_word_embeddings\":true}"
#define TINY_QWEN3_UNTIED                                                                          \
    "{\"model_type\":\"qwen3\",\"vocab_size\":37,\"hidden_size\":24,\"intermediate_size\":48,"     \
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":2,\"head_dim\":18," \
    "\"rms_norm_eps\":1e-6,\"rope_theta\":1e4,\"max_position_embeddings\":24,"                     \
    "\"hidden_act\":\"silu\"}"

/* A SmolLM3, whose second layer has no rope. */
#define TINY_SMOLLM3                                                                               \
    "{\"model_type\":\"smollm3\",\"vocab_size\":37,\"hidden_size\":20,\"intermediate_size\":48,"   \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6,"  \
    "\"rms_norm_eps\":1e-6,\"rope_theta\":1e4,\"max_position_embeddings\":24,"                     \
    "\"hidden_act\":\"silu\",\"no_rope_layer_interval\":2}"

/* Phi-3s of whose heads rope turns a part, and a Llama, all with longrope, as in phi3.fixture: the first and the last one
 * have the factors of long texts. */
#define TINY_LONGROPE(type, more)                                                                  \
    "{\"model_type\":\"" type "\",\"vocab_size\":37,\"hidden_size\":16,"                           \
    "\"intermediate_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":2,"                  \
    "\"num_key_value_heads\":1,\"rms_norm_eps\":1e-5,\"max_position_embeddings\":24,"              \
    "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true," more "}"
#define TINY_PHI3                                                                                  \
    TINY_LONGROPE("phi3", "\"original_max_position_embeddings\":12,\"rope_theta\":500.0,"          \
                          "\"partial_rotary_factor\":0.75,\"rope_scaling\":{\"type\":"             \
                          "\"longrope\",\"short_factor\":[1.0,1.1,1.3],"                           \
                          "\"long_factor\":[0.75,2.25,5.0]}")
#define TINY_PHI3_SHORT                                                                            \
    TINY_LONGROPE("phi3", "\"original_max_position_embeddings\":24,"                               \
                          "\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":"              \
                          "\"longrope\",\"short_factor\":[1.0,1.5],"                               \
                          "\"long_factor\":[3.0,4.0],\"attention_factor\":1.25}")
#define TINY_LLAMA_LONGROPE                                                                        \
    TINY_LONGROPE("llama", "\"rope_parameters\":{\"rope_type\":\"longrope\","                      \
                           "\"rope_theta\":1e4,\"factor\":8.0,"                                    \
                           "\"original_max_position_embeddings\":16,"                              \
                           "\"short_factor\":[1.0,1.0,1.0,1.0],"                                   \
                           "\"long_factor\":[1.0,1.5,2.0,4.0]}")

/* Gemmas, as in gemma3.fixture: with one head of keys and values, and with more. */
#define TINY_GEMMA3                                                                                \
    "{\"model_type\":\"gemma3_text\",\"vocab_size\":37,\"hidden_size\":20,"                        \
    "\"intermediate_size\":48,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                  \
    "\"num_key_value_heads\":1,\"head_dim\":6,\"rms_norm_eps\":1e-6,\"sliding_window\":5,"         \
    "\"max_position_embeddings\":24,\"query_pre_attn_scalar\":9,\"sliding_window_pattern\":2,"     \
    "\"rope_theta\":1e5,\"rope_local_base_freq\":100}"
#define TINY_GEMMA3_LINEAR                                                                         \
    "{\"model_type\":\"gemma3_text\",\"vocab_size\":37,\"hidden_size\":24,"                        \
    "\"intermediate_size\":48,\"num_hidden_layers\":3,\"num_attention_heads\":4,"                  \
    "\"num_key_value_heads\":2,\"head_dim\":18,\"rms_norm_eps\":1e-6,\"sliding_window\":8,"        \
    "\"max_position_embeddings\":24,\"query_pre_attn_scalar\":18,\"dtype\":\"bfloat16\","          \
    "\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\"],"                  \
    "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8.0,"            \
    "\"rope_theta\":1e4},\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}}"

/* Models with experts, as in experts.fixture; `loss`: how much of the router's loss training adds. */
#define TINY_EXPERTS(loss)                                                                         \
    "\"vocab_size\":37,\"hidden_size\":20,\"num_hidden_layers\":2,\"num_attention_heads\":4,"      \
    "\"num_key_value_heads\":2,\"head_dim\":6,\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\","      \
    "\"rope_theta\":1e4,\"max_position_embeddings\":24,\"router_aux_loss_coef\":" loss ","
#define TINY_MIXTRAL_WITH(loss)                                                                    \
    "{\"model_type\":\"mixtral\"," TINY_EXPERTS(                                                   \
        loss) "\"intermediate_size\":16,"                                                          \
              "\"num_local_experts\":4,\"num_experts_per_tok\":2}"
#define TINY_MIXTRAL TINY_MIXTRAL_WITH("0.05")
#define TINY_QWEN3_MOE                                                                             \
    "{\"model_type\":\"qwen3_moe\"," TINY_EXPERTS(                                                 \
        "0.05") "\"moe_intermediate_size\":16,"                                                    \
                "\"num_experts\":5,\"num_experts_per_tok\":3,\"norm_topk_prob\":true,"             \
                "\"tie_word_embeddings\":true}"
#define TINY_QWEN3_MOE_RAW                                                                         \
    "{\"model_type\":\"qwen3_moe\"," TINY_EXPERTS(                                                 \
        "0.05") "\"moe_intermediate_size\":16,"                                                    \
                "\"num_experts\":4,\"num_experts_per_tok\":2,\"norm_topk_prob\":false}"

/* NULL, which is a GPT-2, the Llamas, the Qwens, the SmolLM3, a Phi-3 and the Gemmas above; and behind these the models
 * with experts. */
enum { TINY_DENSE_CONFIGS = 12, TINY_CONFIGS = 15 };
extern const char *const tiny_configs[TINY_CONFIGS];

/* Of config.json's text; NULL: a GPT-2. */
void tiny_config(rank_model_config *config, const char *text);

void tiny_open(tiny *t); /* a GPT-2 */
void tiny_open_as(tiny *t, const char *config);
/* Makes the model again, after its configuration has changed, or for activations that are computed again. */
void tiny_make_model(tiny *t, bool recompute);
void tiny_close(tiny *t);

/* Tokens and targets, every one with a target, in segments of the given lengths (0 ends). */
void tiny_fill(tiny *t, const int *lengths, uint64_t seed);

/* Forward and backward, no callback; the sum of the losses. */
double tiny_train(tiny *t);

/* The sum of the losses without gradients. */
double tiny_loss(tiny *t);

/* Fails the test unless t->grads are differences of `loss`, in about `samples` elements of each of the configuration's
 * tensors, which begin at params. `loss` may overwrite t->grads. */
void tiny_check_gradients(tiny *t, const rank_model_config *config, float *params, size_t samples,
                          double (*loss)(tiny *t));

/* The largest |a - b| / the largest |b|. */
double tiny_difference(const float *a, const float *b, size_t count);

#endif

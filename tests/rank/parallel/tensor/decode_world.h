/* A model that is decoded by several ranks, which all run the same script of steps. */
#ifndef TEST_DECODE_WORLD_H
#define TEST_DECODE_WORLD_H

#include "checkpoint/shards.h"
#include "coll/coll.h"

enum {
    VOCAB = 100,
    PADDED = 32 * RANK_TP_LEAVES,
    SEQUENCES = 3,
    TOKENS = 40, /* of each sequence */
    BLOCK_TOKENS = 8,
    TABLE_WIDTH = 6,
    ROWS_MAX = SEQUENCES * TOKENS,
    SUM_LEAVES = 4, /* of a sum, with the heads of all models below */
};

/* A GPT-2, three Llamas, the last with experts, and a Gemma. */
extern const rank_model_config config_of_4;
extern const rank_model_config qwen2;
extern const rank_model_config qwen3;
extern const rank_model_config mixtral;
/* Windows are shorter than the texts, and all ranks have the one head of keys and values. */
extern const rank_model_config gemma3;

/* How the tokens of all sequences are handed in. */
typedef struct script {
    int sequences_at_once; /* they take turns otherwise */
    int chunk;             /* tokens in a step */
} script;

typedef struct world {
    rank_model_config config;
    rank_type type; /* of matrices */
    float *params;
    float *adapters; /* of the configuration; NULL: none */
    script script;
    float (*logits)[SEQUENCES][TOKENS][PADDED]; /* every rank writes its ids */
} world;

/* The token of a sequence at a position. */
int32_t world_token(int sequence, int position);

/* Random parameters, and adapters if the configuration has some; the caller frees it. */
world new_world(const rank_model_config *config, rank_type type);
void free_world(world *w);

/* Runs the script on so many ranks. Checks how often they have exchanged something. */
void run_world(world *w, int ranks, coll_transport transport, script steps);

/* A copy of the logits, which the caller frees. */
float (*keep(const world *w))[SEQUENCES][TOKENS][PADDED];

#endif

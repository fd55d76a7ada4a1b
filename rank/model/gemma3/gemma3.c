/* The table of Gemma 3's text models, which rank/model/families.c lists. They decode on CPUs; there is no training
 * yet, whose passes have none of what is Gemma's own (transformer/). */
#include "model/gemma3/gemma3.h"

#include "model/gemma3/parts.h"

static const char *const model_types[] = {"gemma3_text", NULL};

static const char *const ignored[] = {NULL};

/* Decoding keeps nothing for backward. */
static size_t saved_floats(const rank_shape *shape)
{
    (void)shape;
    return 0;
}

const rank_family rank_gemma3 = {
    .model_types = model_types,
    .ignored = ignored,
    .file_prefix = "",
    .configure = gemma3_configure,
    .describe = gemma3_describe,
    .check = gemma3_check,
    .tensor_count = gemma3_tensor_count,
    .tensor = gemma3_tensor,
    .init = gemma3_init,
    .block_begin = gemma3_block_begin,
    .adapted = "q_proj,v_proj",
    .saved_floats = saved_floats,
    .work_floats = rank_decoder_work_floats,
    .decoder = &gemma3_decoder,
    .decode = rank_decoder_decode,
    .cpus_only = true,
};

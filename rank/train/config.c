/* Finds the configuration of the model that a job trains, and compares it with a checkpoint's. Called
 * by check.c before ranks start, by prepare.c and by resume.c. */
#include "train/config.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "generate/mode.h"
#include "model/family.h"
#include "rank/adapters.h"
#include "rank/checkpoint.h"

/* config.json has nine digits of a number. */
static const double ROUNDING = 1e-8;

static const float SCALE_ROUNDING =
    1e-6f; /* of lora_alpha / sqrt(r), which a job has as alpha / r */

static base_status check_shape(const proto_job_model *model, const rank_model_config *config,
                               base_error *reterr)
{
    const struct {
        const char *what;
        int64_t job;
        int64_t checkpoint;
    } sizes[] = {
        {"vocab_size", model->vocab_size, config->vocab_size},
        {"width", model->width, config->width},
        {"layers", model->layers, config->layers},
        {"heads", model->heads, config->heads},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].job != sizes[i].checkpoint) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "the job has model.%s %" PRId64 ", and %s/config.json %" PRId64,
                             sizes[i].what, sizes[i].job, model->checkpoint, sizes[i].checkpoint);
        }
    }
    return model->context <= config->context
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "the job has model.context %" PRId64 ", more than the %d that "
                           "%s/config.json allows (its context, or its sliding window)",
                           model->context, config->context, model->checkpoint);
}

/* --adapter: what the job says of adapters must be what their directory says. Takes the layers from there. */
static base_status take_targets(const proto_job *job, rank_model_config *config, base_error *reterr)
{
    const proto_job_lora *lora = &job->lora;
    const char *directory = job->model.adapter;
    rank_model_config read = *config;
    char names[RANK_ADAPTERS_NAMES_BYTES];
    const base_status status = rank_adapter_config(directory, &read, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--adapter");
    }
    if (read.adapters.rank != config->adapters.rank) {
        return base_fail(reterr, BASE_ERR_INVALID, "--lora %d: %s/adapter_config.json has r %d",
                         config->adapters.rank, directory, read.adapters.rank);
    }
    if (fabsf(read.adapters.scale - config->adapters.scale) >
        SCALE_ROUNDING * fabsf(read.adapters.scale)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--lora-alpha %g: %s/adapter_config.json has adapters times %g / %d",
                         proto_job_lora_alpha(lora), directory,
                         (double)read.adapters.scale * read.adapters.rank, read.adapters.rank);
    }
    rank_adapters_names(&read, names);
    if (lora->targets[0] != '\0' && read.adapters.targets != config->adapters.targets) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--lora-targets %s: %s/adapter_config.json has %s", lora->targets,
                         directory, names);
    }
    config->adapters.targets = read.adapters.targets;
    return BASE_OK;
}

/* --lora */
static base_status choose_adapters(const proto_job *job, rank_model_config *config,
                                   base_error *reterr)
{
    const proto_job_lora *lora = &job->lora;
    config->adapters = (rank_adapters){
        .rank = (int)lora->rank,
        .scale = (float)(proto_job_lora_alpha(lora) / (double)lora->rank),
    };
    const base_status status =
        rank_adapters_choose(config, lora->targets, &config->adapters.targets, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--lora-targets");
    }
    return job->model.adapter[0] != '\0' ? take_targets(job, config, reterr) : BASE_OK;
}

/* --experts: a Mixtral. It has as many heads of keys as of queries, and a tied embedding. */
static base_status new_experts(const proto_job_model *model, rank_model_config *config,
                               base_error *reterr)
{
    const rank_family *family = rank_family_find("mixtral");
    json_t *shape = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b}", "model_type", "mixtral",
        "hidden_act", "silu", "vocab_size", (json_int_t)model->vocab_size, "hidden_size",
        (json_int_t)model->width, "intermediate_size", (json_int_t)proto_job_expert_width(model),
        "num_hidden_layers", (json_int_t)model->layers, "num_attention_heads",
        (json_int_t)model->heads, "max_position_embeddings", (json_int_t)model->context,
        "num_local_experts", (json_int_t)model->experts, "num_experts_per_tok",
        (json_int_t)proto_job_experts_per_token(model), "router_aux_loss_coef", PROTO_ROUTER_LOSS,
        "tie_word_embeddings", 1);
    const base_status status = shape != NULL ? family->configure(shape, config, reterr)
                                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory");
    json_decref(shape);
    return status;
}

/* --router-loss */
static base_status set_router_loss(const proto_job_model *model, rank_model_config *config,
                                   base_error *reterr)
{
    if (model->router_loss == 0.0) {
        return BASE_OK;
    }
    if (rank_model_experts(config).count == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "--router-loss: the model has no experts");
    }
    config->router_loss = model->router_loss > 0.0 ? model->router_loss : 0.0;
    return BASE_OK;
}

static base_status new_model(const proto_job_model *model, rank_model_config *config,
                             base_error *reterr)
{
    if (model->experts > 0) {
        const base_status status = new_experts(model, config, reterr);
        return status == BASE_OK ? set_router_loss(model, config, reterr) : status;
    }
    *config = (rank_model_config){
        .family = rank_family_default(),
        .vocab_size = (int)model->vocab_size,
        .width = (int)model->width,
        .layers = (int)model->layers,
        .heads = (int)model->heads,
        .context = (int)model->context,
    };
    return rank_model_config_check(config, reterr);
}

/* The model of --checkpoint, with adapters if the job has some. */
static base_status known_model(const proto_job *job, rank_model_config *config, int *own_context,
                               base_error *reterr)
{
    const proto_job_model *model = &job->model;
    base_status status = rank_checkpoint_config(model->checkpoint, config, reterr);
    if (status == BASE_OK) {
        status = check_shape(model, config, reterr);
    }
    if (status == BASE_OK) {
        status = set_router_loss(model, config, reterr);
    }
    if (status == BASE_OK && job->gpu.precision == PROTO_PRECISION_BFLOAT16) {
        status = rank_model_check_type(config, RANK_BFLOAT16, reterr);
    }
    if (status == BASE_OK) {
        *own_context = config->context;
        config->context = (int)model->context;
    }
    return status == BASE_OK && job->lora.rank > 0 ? choose_adapters(job, config, reterr) : status;
}

base_status rank_train_config(const proto_job *job, rank_model_config *config, int *own_context,
                              base_error *reterr)
{
    const bool known = job->model.checkpoint[0] != '\0';
    *own_context = 0;
    const base_status status = known ? known_model(job, config, own_context, reterr)
                                     : new_model(&job->model, config, reterr);
    if (status == BASE_OK) {
        config->dropout = job->train.dropout;
    }
    return status;
}

base_status rank_train_config_check(const rank_model_config *saved, const rank_model_config *now,
                                    base_error *reterr)
{
    bool same = saved->family == now->family && saved->vocab_size == now->vocab_size &&
                saved->width == now->width && saved->layers == now->layers &&
                saved->heads == now->heads;
    for (int i = 0; i < RANK_FAMILY_SETTINGS; i++) {
        const double most = ROUNDING * fabs(now->settings[i]);
        same = same && fabs(saved->settings[i] - now->settings[i]) <= most;
    }
    same = same && memcmp(saved->rope_factors, now->rope_factors, sizeof saved->rope_factors) == 0;
    same = same && fabs(saved->router_loss - now->router_loss) <= ROUNDING * now->router_loss;
    return same ? BASE_OK
                : base_fail(reterr, BASE_ERR_INVALID,
                            "its config.json says another model than this job has "
                            "(--checkpoint, --width, --layers, --heads, --experts, --router-loss)");
}

const rank_chat *rank_train_chat(const proto_job *job, rank_tokenizer *tokenizer, rank_chat *chat)
{
    base_error unread;
    bool has_one = false;
    if (job->model.checkpoint[0] == '\0') {
        return NULL;
    }
    const base_status status = rank_mode_find_chat(job, tokenizer, chat, &has_one, &unread);
    if (status != BASE_OK) {
        chat->why = unread;
    }
    return chat;
}

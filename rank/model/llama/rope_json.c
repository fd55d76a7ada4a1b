/* What Llama's config.json says of rope, read and written. Called by config_json.c. */
#include <jansson.h>
#include <string.h>

#include "model/config_read.h"
#include "model/llama/parts.h"

static const char PARTIAL[] =
    "partial_rotary_factor"; /* of a head's elements, rope turns so many */
static const char LINEAR[] = "linear";
static const char LLAMA3[] = "llama3";
static const char LONGROPE[] = "longrope";
static const char ORIGINAL[] = "original_max_position_embeddings";
static const char ATTENTION_FACTOR[] = "attention_factor";
static const char *const FACTORS[] = {"short_factor", "long_factor"};

enum { PHI3_ORIGINAL = 4096 }; /* of a Phi-3 that says nothing, as in transformers */

size_t llama_rotated(const rank_model_config *config)
{
    const double partial = config->settings[LLAMA_PARTIAL];
    return (size_t)(config->settings[LLAMA_HEAD_WIDTH] * (partial > 0.0 ? partial : 1.0));
}

/* LLAMA_ATTENTION_FACTOR of a file that does not say it: by how much the context became longer (arXiv:2402.13753). */
static double attention_factor(double longer, double original)
{
    return longer > 1.0 ? sqrt(1.0 + log(longer) / log(original)) : 1.0;
}

/* What the context was before it was made longer, and whether Llama 3's bounds are in order. */
static base_status read_original(const json_t *rope, double *of, base_error *reterr)
{
    int original = 0;
    const base_status status = rank_config_int(rope, ORIGINAL, &original, reterr);
    of[LLAMA_ORIGINAL] = original;
    return status != BASE_OK || of[LLAMA_LOW] < of[LLAMA_HIGH]
               ? status
               : base_fail(reterr, BASE_ERR_INVALID,
                           "low_freq_factor is not below high_freq_factor");
}

/* One positive number for each pair. */
static base_status read_factors(const json_t *rope, const char *key, size_t pairs, double *factors,
                                base_error *reterr)
{
    const json_t *list = json_object_get(rope, key);
    if (pairs > RANK_ROPE_PAIRS_MAX || json_array_size(list) != pairs) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is no list of %zu numbers", key, pairs);
    }
    for (size_t i = 0; i < pairs; i++) {
        const json_t *factor = json_array_get(list, i);
        factors[i] = json_number_value(factor);
        if (!json_is_number(factor) || !(factors[i] > 0.0)) {
            return base_fail(reterr, BASE_ERR_INVALID, "%s: number %zu is not positive", key, i);
        }
    }
    return BASE_OK;
}

/* longrope: the context before it was made longer may stand beside the object. */
static base_status read_longrope(const json_t *object, const json_t *rope, rank_model_config *read,
                                 base_error *reterr)
{
    double *of = read->settings;
    const bool phi3 = of[LLAMA_PHI3] != 0.0;
    const json_t *where =
        phi3 || rank_config_given(json_object_get(object, ORIGINAL)) ? object : rope;
    int longest = 0;
    base_status status = rank_config_int(object, "max_position_embeddings", &longest, reterr);
    if (status == BASE_OK) {
        status = rank_config_optional(where, ORIGINAL, phi3 ? PHI3_ORIGINAL : longest,
                                      &of[LLAMA_ORIGINAL], reterr);
    }
    for (int i = 0; status == BASE_OK && i < 2; i++) {
        status =
            read_factors(rope, FACTORS[i], llama_rotated(read) / 2, read->rope_factors[i], reterr);
    }
    double longer = longest / of[LLAMA_ORIGINAL];
    if (status == BASE_OK && rank_config_given(json_object_get(rope, "factor"))) {
        status = rank_config_number(rope, "factor", &longer, reterr);
    }
    of[LLAMA_ATTENTION_FACTOR] = attention_factor(longer, of[LLAMA_ORIGINAL]);
    return status == BASE_OK && rank_config_given(json_object_get(rope, ATTENTION_FACTOR))
               ? rank_config_number(rope, ATTENTION_FACTOR, &of[LLAMA_ATTENTION_FACTOR], reterr)
               : status;
}

static base_status read_partial(const json_t *object, const json_t *rope, double *of,
                                base_error *reterr)
{
    const json_t *entry = json_object_get(rope, PARTIAL);
    entry = entry != NULL ? entry : json_object_get(object, PARTIAL);
    const double partial = rank_config_given(entry) ? json_number_value(entry) : 1.0;
    if (of[LLAMA_PHI3] == 0.0 && partial != 1.0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be 1", PARTIAL);
    }
    of[LLAMA_PARTIAL] = partial == 1.0 ? 0.0 : partial;
    return partial > 0.0 && partial <= 1.0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s is %g, it must be above 0, and at most 1",
                           PARTIAL, partial);
}

static base_status read_scaling(const json_t *rope, bool linear, double *of, base_error *reterr)
{
    static const struct {
        const char *key;
        int setting;
    } numbers[] = {
        {"factor", LLAMA_FACTOR},
        {"low_freq_factor", LLAMA_LOW},
        {"high_freq_factor", LLAMA_HIGH},
    };
    const size_t count = linear ? 1 : sizeof numbers / sizeof *numbers;
    base_status status = BASE_OK;
    of[LLAMA_SCALING] = linear ? LLAMA_SCALING_LINEAR : LLAMA_SCALING_LLAMA3;
    for (size_t i = 0; status == BASE_OK && i < count; i++) {
        status = rank_config_number(rope, numbers[i].key, &of[numbers[i].setting], reterr);
    }
    return status == BASE_OK && !linear ? read_original(rope, of, reterr) : status;
}

/* What is missing is as in transformers.
 *
 * rope_parameters, as newer files have it, with rope_theta in it, or rope_scaling. If a file has both,
 * rope_scaling counts, as in transformers. */
base_status llama_read_rope(const json_t *object, rank_model_config *read, base_error *reterr)
{
    double *of = read->settings;
    const json_t *rope = json_object_get(object, "rope_scaling");
    rope = json_object_size(rope) > 0 ? rope : json_object_get(object, "rope_parameters");
    const json_t *type = json_object_get(rope, "rope_type");
    const char *name = json_string_value(type != NULL ? type : json_object_get(rope, "type"));
    const json_t *with_theta = json_object_get(rope, "rope_theta") != NULL ? rope : object;
    base_status status = read_partial(object, rope, of, reterr);
    if (status == BASE_OK) {
        status = rank_config_number(with_theta, "rope_theta", &of[LLAMA_THETA], reterr);
    }
    if (status == BASE_OK && name == NULL && json_object_get(rope, "factor") != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "a factor of rope without a rope_type");
    }
    /* "dynamic" turns otherwise only beyond max_position_embeddings, where no text goes here */
    if (status != BASE_OK || name == NULL || strcmp(name, "default") == 0 ||
        strcmp(name, "dynamic") == 0) {
        return status;
    }
    if (strcmp(name, LONGROPE) == 0) {
        of[LLAMA_SCALING] = LLAMA_SCALING_LONGROPE;
        return read_longrope(object, rope, read, reterr);
    }
    const bool linear = strcmp(name, LINEAR) == 0;
    return linear || strcmp(name, LLAMA3) == 0
               ? read_scaling(rope, linear, of, reterr)
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "rope_type \"%s\" is none of default, dynamic, linear, llama3 and "
                           "longrope",
                           name);
}

static json_t *describe_factors(const rank_model_config *config, int which)
{
    json_t *list = json_array();
    for (size_t i = 0; i < llama_rotated(config) / 2; i++) {
        (void)json_array_append_new(list, json_real(config->rope_factors[which][i]));
    }
    return list;
}

/* An older transformers takes these three members alone. */
static json_t *describe_longrope(const rank_model_config *config)
{
    const double *of = config->settings;
    json_t *scaling =
        json_pack("{s:s, s:o, s:o}", "type", LONGROPE, FACTORS[0], describe_factors(config, 0),
                  FACTORS[1], describe_factors(config, 1));
    if (of[LLAMA_ATTENTION_FACTOR] !=
        attention_factor(config->context / of[LLAMA_ORIGINAL], of[LLAMA_ORIGINAL])) {
        (void)json_object_set_new(scaling, ATTENTION_FACTOR, json_real(of[LLAMA_ATTENTION_FACTOR]));
    }
    return scaling;
}

/* The object that scales rope's frequencies; NULL: nothing does. */
static json_t *describe_scaling(const rank_model_config *config)
{
    const double *of = config->settings;
    switch ((llama_scaling)of[LLAMA_SCALING]) {
    case LLAMA_SCALING_LINEAR:
        return json_pack("{s:s, s:f}", "rope_type", LINEAR, "factor", of[LLAMA_FACTOR]);
    case LLAMA_SCALING_LLAMA3:
        return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", LLAMA3, "factor",
                         of[LLAMA_FACTOR], "low_freq_factor", of[LLAMA_LOW], "high_freq_factor",
                         of[LLAMA_HIGH], ORIGINAL, (json_int_t)of[LLAMA_ORIGINAL]);
    case LLAMA_SCALING_LONGROPE:
        return describe_longrope(config);
    case LLAMA_SCALING_NONE:
        break;
    }
    return NULL;
}

json_t *llama_describe_rope(const rank_model_config *config)
{
    const double *of = config->settings;
    json_t *object = json_pack("{s:f, s:o*}", "rope_theta", of[LLAMA_THETA], "rope_scaling",
                               describe_scaling(config));
    if (of[LLAMA_PHI3] != 0.0) {
        const double partial = of[LLAMA_PARTIAL] > 0.0 ? of[LLAMA_PARTIAL] : 1.0;
        (void)json_object_set_new(object, PARTIAL, json_real(partial));
    }
    if (of[LLAMA_SCALING] == (double)LLAMA_SCALING_LONGROPE) {
        (void)json_object_set_new(object, ORIGINAL, json_integer((json_int_t)of[LLAMA_ORIGINAL]));
    }
    return object;
}

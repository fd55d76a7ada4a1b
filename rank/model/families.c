/* The table of families. No other file names them. Called by checkpoint/, train/ and bench/ when
 * they make a model. */
#include <stdio.h>
#include <string.h>

#include "model/family.h"
#include "model/gemma3/gemma3.h"
#include "model/gpt2/gpt2.h"
#include "model/llama/llama.h"

static const rank_family *const families[] = {&rank_gpt2, &rank_llama, &rank_gemma3};

const rank_family *rank_family_find(const char *model_type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        for (const char *const *type = families[i]->model_types; *type != NULL; type++) {
            if (strcmp(*type, model_type) == 0) {
                return families[i];
            }
        }
    }
    return NULL;
}

void rank_family_list(char *list, size_t list_bytes)
{
    size_t used = 0;
    list[0] = '\0';
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        for (const char *const *type = families[i]->model_types; *type != NULL; type++) {
            const int length =
                snprintf(list + used, list_bytes - used, "%s%s", used > 0 ? ", " : "", *type);
            used += length > 0 && (size_t)length < list_bytes - used ? (size_t)length : 0;
        }
    }
}

const rank_family *rank_family_default(void)
{
    return families[0];
}

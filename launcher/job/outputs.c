/* Collects generated texts by the index of their prompt, so that they print in order. Called by
 * messages.c for each output message. */
#include "job/outputs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

base_status launch_outputs_add(launch_outputs *outputs, uint64_t index, const char *prompt,
                               const char *text, base_error *reterr)
{
    if (outputs->texts == NULL) {
        outputs->texts = calloc(LAUNCH_OUTPUTS_MAX, sizeof outputs->texts[0]);
        if (outputs->texts == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for generated texts");
        }
    }
    if (index >= LAUNCH_OUTPUTS_MAX || outputs->texts[index].prompt != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "a text for prompt #%" PRIu64 " that %s", index,
                         index >= LAUNCH_OUTPUTS_MAX ? "does not exist" : "has one already");
    }
    launch_output *output = &outputs->texts[index];
    output->prompt = strdup(prompt);
    output->text = strdup(text);
    if (output->prompt == NULL || output->text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a generated text");
    }
    while (outputs->next < LAUNCH_OUTPUTS_MAX && outputs->texts[outputs->next].prompt != NULL) {
        outputs->next++;
    }
    return BASE_OK;
}

void launch_outputs_fini(launch_outputs *outputs)
{
    for (uint64_t i = 0; outputs->texts != NULL && i < LAUNCH_OUTPUTS_MAX; i++) {
        free(outputs->texts[i].prompt);
        free(outputs->texts[i].text);
    }
    free(outputs->texts);
    *outputs = (launch_outputs){0};
}

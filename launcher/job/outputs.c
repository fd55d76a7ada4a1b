/* Collects generated texts by the index of their prompt, so that they print in order. Called by
 * messages.c for each output message. */
#include "job/outputs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Adds the text, with a NUL behind it. */
static base_status append(launch_output *output, const char *text, base_error *reterr)
{
    const size_t bytes = strlen(text);
    const size_t needed = output->bytes + bytes + 1;
    if (needed > (size_t)PROTO_OUTPUT_BYTES_MAX + 1) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a text of more than %d bytes",
                         PROTO_OUTPUT_BYTES_MAX);
    }
    if (output->text == NULL || needed > output->room) {
        const size_t room = needed > 2 * (size_t)output->room ? needed : 2 * (size_t)output->room;
        char *more = realloc(output->text, room);
        if (more == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a generated text");
        }
        output->text = more;
        output->room = (uint32_t)room;
    }
    memcpy(output->text + output->bytes, text, bytes + 1);
    output->bytes += (uint32_t)bytes;
    return BASE_OK;
}

base_status launch_outputs_add(launch_outputs *outputs, int rank, const launch_output_part *part,
                               base_error *reterr)
{
    if (outputs->texts == NULL) {
        outputs->texts = calloc(LAUNCH_OUTPUTS_MAX, sizeof outputs->texts[0]);
        if (outputs->texts == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for generated texts");
        }
    }
    if (part->index >= LAUNCH_OUTPUTS_MAX || outputs->texts[part->index].whole) {
        return base_fail(reterr, BASE_ERR_INVALID, "a text for prompt #%" PRIu64 " that %s",
                         part->index,
                         part->index >= LAUNCH_OUTPUTS_MAX ? "does not exist" : "has one already");
    }
    launch_output *output = &outputs->texts[part->index];
    if (output->text != NULL && output->rank != rank) {
        return base_fail(reterr, BASE_ERR_INVALID, "a text for prompt #%" PRIu64 " of rank %d",
                         part->index, output->rank);
    }
    const base_status status = append(output, part->text, reterr);
    if (status != BASE_OK) {
        return status;
    }
    output->rank = rank;
    output->whole = !part->more;
    while (outputs->next < LAUNCH_OUTPUTS_MAX && outputs->texts[outputs->next].whole) {
        outputs->next++;
    }
    return BASE_OK;
}

void launch_outputs_release(launch_outputs *outputs, uint64_t index)
{
    free(outputs->texts[index].text);
    outputs->texts[index].text = NULL;
}

void launch_outputs_fini(launch_outputs *outputs)
{
    for (uint64_t i = 0; outputs->texts != NULL && i < LAUNCH_OUTPUTS_MAX; i++) {
        free(outputs->texts[i].text);
    }
    free(outputs->texts);
    *outputs = (launch_outputs){0};
}

/* Recognises on which condition a chat template begins an answer. Called by chat_form.c. */
#include "chat_answer.h"

#include <stdio.h>
#include <string.h>

#include "chat_tag.h"

typedef enum condition {
    ALWAYS,       /* behind the last message it is true, or what it sets is known */
    IF_DEFINED,   /* what is defined is not set */
    NOT_ANSWERED, /* true behind a last message that is no answer */
} condition;

/* In the form of chat_tag.h. */
static const struct {
    const char *text;
    condition when;
} statements[] = {
    {"if add_generation_prompt", ALWAYS},
    {"if(add_generation_prompt)", ALWAYS},
    {"if add_generation_prompt==true", ALWAYS},
    {"if add_generation_prompt is true", ALWAYS},
    {"if add_generation_prompt is defined and add_generation_prompt", ALWAYS},
    {"if loop.last and add_generation_prompt", ALWAYS},
    {"if add_generation_prompt and loop.last", ALWAYS},
    {"if(loop.last and add_generation_prompt) or not loop.last", ALWAYS},
    {"if not add_generation_prompt is defined", ALWAYS},
    {"if add_generation_prompt is not defined", ALWAYS},
    {"set add_generation_prompt=true", ALWAYS},
    {"set add_generation_prompt=True", ALWAYS},
    {"set add_generation_prompt=false", IF_DEFINED},
    {"set add_generation_prompt=False", IF_DEFINED},
    {"if add_generation_prompt and messages[-1]['role']!='assistant'", NOT_ANSWERED},
    {"if add_generation_prompt and messages[-1].role!='assistant'", NOT_ANSWERED},
    {"if messages[-1]['role']!='assistant' and add_generation_prompt", NOT_ANSWERED},
    {"if messages[-1].role!='assistant' and add_generation_prompt", NOT_ANSWERED},
};

bool rank_chat_answer_read(const char *tag, bool if_defined, rank_chat_habits *habits)
{
    const rank_chat_tag normal = rank_chat_tag_read(tag);
    const char *asks = strstr(tag, "add_generation_prompt");
    if (asks == NULL || (normal.end != NULL && asks >= normal.end)) {
        return true;
    }
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        const condition when = statements[i].when;
        if (strcmp(normal.text, statements[i].text) == 0 && (when != IF_DEFINED || if_defined)) {
            habits->ends_answered = habits->ends_answered || when == NOT_ANSWERED;
            return true;
        }
    }
    (void)snprintf(habits->unknown, sizeof habits->unknown, "%s", normal.text);
    return false;
}

/* Recognises how a chat template treats thoughts, and does it to messages. Called by chat_form.c and chat.c. */
#include "chat_thinking.h"

#include <string.h>

#include "chat_tag.h"

/* ---- the template ---- */

enum {
    CONTENT = 1 << 0, /* a variable has the message's content */
    QUESTION = 1 << 1,
    BACKWARDS = 1 << 2, /* from the last message to the first, */
    INDEX = 1 << 3,
    IS_QUESTION = 1 << 4,
    FOUND = 1 << 5, /* the first question that is met is the last one */
    KEPT = 1 << 6,
    NO_THOUGHT = 1 << 7,
    IS_GIVEN = 1 << 8, /* thoughts may stand beside the content; here they never do */
    GIVEN = 1 << 9,
    HAS_THOUGHT = 1 << 10, /* an answer has thoughts: they are taken, and the rest is */
    THOUGHT = 1 << 11,
    SAID = 1 << 12,
    IS_LATER = 1 << 13, /* behind the last question thoughts are written, */
    IS_LAST = 1 << 14,
    WRITTEN = 1 << 15,
    BEGUN = 1 << 16,                                  /* behind the beginning of the answer, */
    IS_OFF = 1 << 17,                                 /* with the switch, */
    OFF = 1 << 18,                                    /* the model does not think */
    EITHER = IS_GIVEN | GIVEN | BEGUN | IS_OFF | OFF, /* a template may do without these */
    ALL = (OFF << 1) - 1,
};

/* In the form of chat_tag.h. */
static const struct {
    const char *text;
    unsigned bit;
    unsigned behind; /* the tag before is one of these; 0: any */
} statements[] = {
    {"set content=content", CONTENT, 0},
    {"set ns=namespace(multi_step_tool=true,last_query_index=messages|length-1)", QUESTION, 0},
    {"for message in messages[::-1]", BACKWARDS, QUESTION},
    {"set index=(messages|length-1)-loop.index0", INDEX, BACKWARDS},
    {"if ns.multi_step_tool and message.role=='user' and content is string and "
     "not(content.startswith('<tool_response>') and content.endswith('</tool_response>'))",
     IS_QUESTION, INDEX},
    {"if ns.multi_step_tool and message.role=='user' and "
     "not(content.startswith('<tool_response>') and content.endswith('</tool_response>'))",
     IS_QUESTION, INDEX},
    {"set ns.multi_step_tool=false", FOUND, IS_QUESTION},
    {"set ns.last_query_index=index", KEPT, FOUND},
    {"set reasoning_content=''", NO_THOUGHT, 0},
    {"if message.reasoning_content is string", IS_GIVEN, NO_THOUGHT},
    {"if message.reasoning_content is defined and message.reasoning_content is not none", IS_GIVEN,
     NO_THOUGHT},
    {"set reasoning_content=message.reasoning_content", GIVEN, IS_GIVEN},
    {"if '</think>' in content", HAS_THOUGHT, 0},
    {"set reasoning_content=content.split('</think>')[0].rstrip('\\n').split('<think>')[-1]"
     ".lstrip('\\n')",
     THOUGHT, HAS_THOUGHT | SAID},
    {"set content=content.split('</think>')[-1].lstrip('\\n')", SAID, HAS_THOUGHT | THOUGHT},
    {"if loop.index0>ns.last_query_index", IS_LATER, 0},
    {"if loop.last or(not loop.last and reasoning_content)", IS_LAST, IS_LATER},
    {"'<|im_start|>'+message.role+'\\n<think>\\n'+reasoning_content.strip('\\n')+"
     "'\\n</think>\\n\\n'+content.lstrip('\\n')",
     WRITTEN, IS_LAST},
    {"if enable_thinking is defined and enable_thinking is false", IS_OFF, BEGUN},
    {"'<think>\\n\\n</think>\\n\\n'", OFF, IS_OFF},
};

/* Whether the tag decides something of thoughts. */
static bool is_watched(const char *tag, const char *end)
{
    static const char *const words[] = {"<think>",          "</think>",        "reasoning_content",
                                        "last_query_index", "multi_step_tool", "enable_thinking",
                                        "[::-1]",           "set index"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = strstr(tag, words[i]);
        if (found != NULL && found < end) {
            return true;
        }
    }
    return false;
}

rank_chat_statement rank_chat_thinking_read(rank_chat_thinking *read, const char *tag,
                                            const char **end)
{
    const rank_chat_tag normal = rank_chat_tag_read(tag);
    const unsigned before = read->before;
    read->before = 0;
    if (normal.end == NULL) {
        return RANK_CHAT_UNKNOWN;
    }
    *end = normal.end;
    if ((read->seen & OFF) != 0 && strcmp(normal.text, "endif") != 0) {
        return RANK_CHAT_UNKNOWN; /* nothing may stand behind it */
    }
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        const unsigned bit = statements[i].bit;
        if (strcmp(normal.text, statements[i].text) != 0 || (!read->thinks && bit != CONTENT)) {
            continue;
        }
        /* the thoughts are in the variable only until it has the rest */
        const bool late = bit == THOUGHT && !normal.of_message && (read->seen & SAID) != 0;
        if (late || (statements[i].behind != 0 && (before & statements[i].behind) == 0) ||
            (bit == CONTENT && !normal.of_message)) {
            return RANK_CHAT_UNKNOWN;
        }
        read->seen |= bit;
        read->before = bit;
        return RANK_CHAT_KNOWN;
    }
    read->other_content = read->other_content || (strncmp(normal.text, "set content=", 12) == 0 &&
                                                  strcmp(normal.text, "set content=''") != 0);
    return read->thinks && is_watched(tag, normal.end) ? RANK_CHAT_UNKNOWN : RANK_CHAT_OTHER;
}

void rank_chat_thinking_answer_begins(rank_chat_thinking *read)
{
    read->before = BEGUN;
}

bool rank_chat_thinking_has_switch(const rank_chat_thinking *read)
{
    return (read->seen & OFF) != 0;
}

bool rank_chat_thinking_has_content(const rank_chat_thinking *read)
{
    return (read->seen & CONTENT) != 0 && !read->other_content;
}

bool rank_chat_thinking_is_whole(const rank_chat_thinking *read)
{
    const bool all = ((read->seen | EITHER) & ALL) == ALL;
    return (all || !read->thinks) && !((read->seen & CONTENT) != 0 && read->other_content);
}

/* ---- messages ---- */

/* The last place of the mark before `end`; NULL: there is none. */
static const char *find_last(const char *text, const char *end, const char *mark)
{
    const char *last = NULL;
    for (const char *at = strstr(text, mark); at != NULL && at + strlen(mark) <= end;
         at = strstr(at + 1, mark)) {
        last = at;
    }
    return last;
}

static const char *skip_lines(const char *at, const char *end)
{
    while (at < end && *at == '\n') {
        at++;
    }
    return at;
}

rank_chat_thought rank_chat_thought_of(const char *content)
{
    static const char opens[] = "<think>";
    static const char closes[] = "</think>";
    const char *end = content + strlen(content);
    const char *close = strstr(content, closes);
    if (close == NULL) {
        return (rank_chat_thought){.thought = content, .said = content};
    }
    const char *open = find_last(content, close, opens);
    const char *thought = skip_lines(open != NULL ? open + sizeof opens - 1 : content, close);
    while (close > thought && close[-1] == '\n') {
        close--;
    }
    return (rank_chat_thought){
        .thought = thought,
        .thought_bytes = (size_t)(close - thought),
        .said = skip_lines(find_last(content, end, closes) + sizeof closes - 1, end)};
}

static bool is_answer_of_tool(const char *content)
{
    static const char opens[] = "<tool_response>";
    static const char closes[] = "</tool_response>";
    const size_t bytes = strlen(content);
    return bytes >= sizeof closes - 1 && strncmp(content, opens, sizeof opens - 1) == 0 &&
           strcmp(content + bytes - (sizeof closes - 1), closes) == 0;
}

uint32_t rank_chat_last_question(const char *texts, uint32_t message_count)
{
    uint32_t last = message_count - 1;
    for (uint32_t i = 0; i < message_count; i++) {
        const char *content = texts + strlen(texts) + 1;
        if (strcmp(texts, "user") == 0 && !is_answer_of_tool(content)) {
            last = i;
        }
        texts = content + strlen(content) + 1;
    }
    return last;
}

/* What the tests of chats share: tokenizers with marks, and templates. */
#ifndef TEST_CHAT_CASE_H
#define TEST_CHAT_CASE_H

#include "data/chat.h"

/* Templates of each form, between which and whose parts something may be put. */
#define CHATML                                                                                     \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m['content'] + '<|im_end|>\\n' "  \
    "}}"                                                                                           \
    "{% endfor %}"
#define CHATML_ANSWER "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
#define LLAMA3_CONTENT(content)                                                                    \
    "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' "        \
    "+ " content " + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"                    \
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
#define LLAMA3 LLAMA3_CONTENT("m.content | trim")

/* A tokenizer of that kind (tests/oracle/hub_KIND.json), to which the marks of both forms are added. The caller
 * destroys it. */
rank_tokenizer *chat_case_load_marks(const char *kind, int special);
rank_tokenizer *chat_case_load(const char *kind);

/* A template whose bos_token is `begin`. The caller ends it with rank_chat_fini. */
rank_chat chat_case_read(const char *text, const char *begin, rank_tokenizer *tokenizer);

/* The id of an added token. */
int32_t chat_case_id(const rank_tokenizer *tokenizer, const char *name);

#endif

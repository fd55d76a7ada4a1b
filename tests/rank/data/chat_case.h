/* What the tests of chats share: tokenizers with marks, and templates. */
#ifndef TEST_CHAT_CASE_H
#define TEST_CHAT_CASE_H

#include "data/chat.h"

/* Templates of each form, between which and whose parts something may be put. */
#define CHATML                                                                                     \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m['content'] + '<|im_end|>\\n' "  \
    "}}"                                                                                           \
    "{% endfor %}"
#define CHATML_ANSWER "{{ '<|im_start|>assistant\\n' }}"
#define LLAMA3_CONTENT(content)                                                                    \
    "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' "        \
    "+ " content                                                                                   \
    " + '<|eot_id|>' }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
#define LLAMA3        LLAMA3_CONTENT("m.content | trim")
#define SYSTEM_HEADER "{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"

/* A tokenizer of that kind (tests/oracle/hub_KIND.json), to which the marks of both forms are added. The caller
 * destroys it. */
rank_tokenizer *chat_case_load_marks(const char *kind, int special);
rank_tokenizer *chat_case_load(const char *kind);

/* What is found in a template whose bos_token is `begin`. */
rank_chat chat_case_read(const char *text, const char *begin, rank_tokenizer *tokenizer);

#endif

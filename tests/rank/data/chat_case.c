/* Loads tokenizers and reads templates for the tests of chats. */
#include "chat_case.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

rank_tokenizer *chat_case_load_marks(const char *kind, int special)
{
    /* behind the marks those of line ends, which Gemma's tokenizer has beside them */
    enum { MARKS = 5, NAMES = 7 };
    static const char *const names[NAMES] = {"<|start_header_id|>",
                                             "<|end_header_id|>",
                                             "<|eot_id|>",
                                             "<start_of_turn>",
                                             "<end_of_turn>",
                                             "\n",
                                             "\n\n"};
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    test_directory scratch;
    char path[256];
    (void)snprintf(path, sizeof path, ORACLE_DIRECTORY "/hub_%s.json", kind);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    json_t *added = json_object_get(root, "added_tokens");
    json_int_t next = 0;
    const char *text = NULL;
    json_t *id = NULL;
    size_t index = 0;
    json_object_foreach(vocab, text, id)
    {
        next = json_integer_value(id) >= next ? json_integer_value(id) + 1 : next;
    }
    json_array_foreach(added, index, id)
    {
        const json_int_t its = json_integer_value(json_object_get(id, "id"));
        next = its >= next ? its + 1 : next;
    }
    const size_t count = strcmp(kind, "gemma") == 0 ? NAMES : MARKS;
    for (size_t i = 0; i < count; i++) {
        const json_t *known = json_object_get(vocab, names[i]);
        const json_int_t its = known != NULL ? json_integer_value(known) : next + (json_int_t)i;
        json_t *token = json_pack("{s:I, s:s, s:b, s:b}", "id", its, "content", names[i], "special",
                                  i < MARKS ? special : 0, "normalized", 0);
        assert_int_equal(json_array_append_new(added, token), 0);
    }
    test_directory_make(&scratch);
    const char *copy = test_directory_path(&scratch, "tokenizer.json");
    assert_int_equal(json_dump_file(root, copy, 0), 0);
    assert_ok(rank_tokenizer_load(copy, &tokenizer, &error), &error);
    test_directory_remove(&scratch);
    json_decref(root);
    return tokenizer;
}

rank_tokenizer *chat_case_load(const char *kind)
{
    return chat_case_load_marks(kind, 1);
}

rank_chat chat_case_read(const char *text, const char *begin, rank_tokenizer *tokenizer)
{
    rank_chat chat;
    const char *end = strcmp(begin, "<s>") == 0 ? "</s>" : begin;
    rank_chat_init(&(rank_chat_source){.text = text, .begin_token = begin, .end_token = end},
                   tokenizer, &chat);
    return chat;
}

int32_t chat_case_id(const rank_tokenizer *tokenizer, const char *name)
{
    size_t bytes = 0;
    const int32_t id = rank_tokenizer_added_at(tokenizer, name, strlen(name), &bytes);
    assert_true(id >= 0);
    assert_int_equal(bytes, strlen(name));
    return id;
}

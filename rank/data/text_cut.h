/* Where a text can be cut into blocks. Pure. */
#ifndef RANK_DATA_TEXT_CUT_H
#define RANK_DATA_TEXT_CUT_H

#include <stddef.h>

/* How many of the text's bytes can be cut off so that both parts together have the tokens of the whole: up to
 * the last space between two visible ASCII characters. A word begins with such a space in our own splits, in
 * those of GPT-2, and in Llama 3's and its relatives'. (Not so behind the letters of an added token that is not special
 * and takes the spaces beside it, as "</s>" of Phi-3.) Where there is none, up to the last end of a line
 * between two such characters, which is a piece of its own in all but our own splits. 0: there is no such
 * place. */
size_t rank_text_cut(const char *text, size_t text_bytes);

/* How much of a full block is tokenized before its text is read on: up to that place. In a text without one, up to
 * its last character, which may go on behind the block, or all of it where its end is no character. Not 0. */
size_t rank_text_block(const char *block, size_t bytes);

#endif

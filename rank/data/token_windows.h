/* Windows of a file of tokens (token_file.h). Window w has the tokens from w × context on, and their targets are the
 * tokens behind them: as those that windows.h makes of a text. Where they begin is arithmetic, so that none is kept.
 * Private to rank/data. */
#ifndef RANK_DATA_TOKEN_WINDOWS_H
#define RANK_DATA_TOKEN_WINDOWS_H

#include "data_parts.h"

/* Opens the file, and counts its windows. Statuses as rank_data_open. */
BASE_MUST_CHECK base_status rank_token_windows_open(rank_data *data, const char *path,
                                                    base_error *reterr);

/* Window `number` of a slot of this rank's, as a sentence whose offset is in the file. */
sentence rank_token_window(const rank_data *data, int slot_index, uint64_t number);

#endif

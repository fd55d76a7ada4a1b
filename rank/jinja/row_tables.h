/* The tables of rows. Each ends with a row without a name. */
#ifndef RANK_JINJA_ROW_TABLES_H
#define RANK_JINJA_ROW_TABLES_H

#include "rows.h"

extern const jinja_row jinja_text_filters[];
extern const jinja_row jinja_number_filters[];
extern const jinja_row jinja_list_filters[];
extern const jinja_row jinja_choice_filters[];
extern const jinja_row jinja_tests[];
extern const jinja_row jinja_globals[];
extern const jinja_row jinja_string_methods[];
extern const jinja_row jinja_split_methods[];
extern const jinja_row jinja_list_methods[];
extern const jinja_row jinja_dict_methods[];

/* No global: a variable of templates that are given a date. */
extern const jinja_row jinja_strftime_now;

#endif

/* What filters take of the items of a list. */
#ifndef RANK_JINJA_ATTRIBUTE_H
#define RANK_JINJA_ATTRIBUTE_H

#include "run.h"

/* The item's member by a path, "a.b.0", or by an index. attribute: none or not given: the item itself. */
jinja_value jinja_attribute(jinja_run *run, jinja_value item, jinja_value attribute);
/* The same to sort by: strings in small letters, unless case_sensitive. */
jinja_value jinja_sort_key(jinja_run *run, jinja_value item, jinja_value attribute,
                           jinja_value case_sensitive);

#endif

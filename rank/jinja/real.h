/* Floating-point numbers as Python writes and reads them, in every locale. */
#ifndef RANK_JINJA_REAL_H
#define RANK_JINJA_REAL_H

#include <stdbool.h>
#include <stddef.h>

/* The shortest decimal number that is this one, as repr() writes it: "1.0", "1e+16", "inf"; or for
 * JSON: "Infinity", "NaN". bytes >= 32. */
void jinja_real_text(char *text, size_t bytes, double real, bool json);
/* Reads digits, a point, digits and an exponent, some of which may lack; a sign may be before. Ends with a NUL.
 * false: it is no number. */
bool jinja_real_read(const char *text, double *real);

#endif

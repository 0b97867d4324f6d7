/* JSON numbers: fast reading and writing, exact in both directions. */
#ifndef XCVM_SERVER_JSON_NUMBER_H
#define XCVM_SERVER_JSON_NUMBER_H

#include "server/json/text.h"

/* A number as written: (-1)^negative * digits * 10^exponent. */
typedef struct xcs_number {
    uint64_t digits;
    int64_t exponent;
    bool negative;
    bool exact; /* `digits` has all digits */
    const char *begin, *end;
} xcs_number;

/* Scans a number by the grammar of RFC 8259. Returns false if there is none at `at`. */
bool xcs_number_scan(const char *at, const char *end, xcs_number *number);
/* Returns the nearest double. A number beyond the greatest double gives infinity. */
double xcs_number_double(const xcs_number *number);
/* Reads a number without an exponent and with at most 19 digits, the common case, as the float nearest to its nearest
 * double. Returns its end, or NULL if it has another form or is in doubt; the functions above then decide. */
const char *xcs_number_read_plain(const char *at, const char *end, float *value);
/* Stores the value of an integer. Returns false if the number has a fraction or does not fit. */
bool xcs_number_signed(const xcs_number *number, int64_t *value);
bool xcs_number_unsigned(const xcs_number *number, uint64_t *value);

/* Append the shortest text that reads as the same float or double; null if the number is not finite. */
void xcs_number_write_float(xcs_text *text, float value);
void xcs_number_write_double(xcs_text *text, double value);

#endif

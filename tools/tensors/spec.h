/* SPEC, the grammar of tensors on the command line; `xcvm help spec` explains it to users. */
#ifndef XCVM_TOOLS_TENSORS_SPEC_H
#define XCVM_TOOLS_TENSORS_SPEC_H

#include "tensors/tensor_file.h"

enum spec_form {
    SPEC_LITERAL, /* elements, or seq(...), optional(...), map(...) */
    SPEC_FILE,
    SPEC_RANDOM,
    SPEC_ZEROS,
    SPEC_ONES,
    SPEC_DASH,   /* - : standard input, or print */
    SPEC_NOTHING /* empty */
};

/* A SPEC taken apart. It lends from the text that it was parsed from, except `path` and `key`. */
struct spec {
    enum spec_form form;
    bool typed; /* `type` was written in front */
    xcvm_type type;
    const char *body; /* of a literal: the elements */
    char *path, *key; /* of a file; key is NULL if there is none */
    bool seeded;
    uint64_t seed;
};

/* Fails with INVALID_ARGUMENT and a message that says what a SPEC is. */
xcvm_status spec_parse(const char *text, struct spec *spec, xcvm_error *error);
void spec_release(struct spec *spec);

/* How values are made: what elements that are made up are, and what they may take. */
struct filling {
    uint64_t seed;
    int64_t int_max;             /* integers are below it */
    struct value_budget *budget; /* may be NULL */
};

/* Whether the SPEC gets its shape from what is declared, and so can't tell the size of an open dimension. */
bool spec_needs_dims(const struct spec *spec);

/* The value that a SPEC stands for, converted to the declared element type. `wanted->type` may have open dimensions,
 * except where spec_needs_dims. */
xcvm_status spec_value(const struct spec *spec, const struct wanted *wanted, const struct filling *filling,
                       xcvm_value **value, xcvm_error *error);

/* A tensor of random elements: floats from -0.5 to 0.5, integers from 0 on. */
xcvm_status spec_random(const xcvm_type *type, const struct filling *filling, xcvm_value **value, xcvm_error *error);

#endif

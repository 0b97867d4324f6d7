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
    SPEC_DASH,   /* "-": standard input, or print */
    SPEC_NOTHING /* empty */
};

/* A parsed SPEC. It borrows from its text, except `path` and `key`. */
struct spec {
    enum spec_form form;
    bool typed; /* `type` was given */
    xcvm_type type;
    const char *body; /* of a literal: the elements */
    char *path, *key; /* of a file; key is NULL if there is none */
    double factor;    /* of the file's numbers; 0: none */
    bool seeded;
    uint64_t seed;
};

/* Parses a SPEC. Fails with INVALID_ARGUMENT. */
xcvm_status spec_parse(const char *text, struct spec *spec, xcvm_error *error);
void spec_release(struct spec *spec);

/* How to make random elements, and the budget. */
struct filling {
    uint64_t seed;
    int64_t int_max;             /* limit of random integers */
    struct value_budget *budget; /* may be NULL */
};

/* True if the SPEC takes its shape from the declaration, so that it does not determine open dimensions. */
bool spec_needs_dims(const struct spec *spec);

/* Makes the value of a SPEC, converted to the declared element type. `wanted->type` may have open dimensions,
 * unless spec_needs_dims. */
xcvm_status spec_value(const struct spec *spec, const struct wanted *wanted, const struct filling *filling,
                       xcvm_value **value, xcvm_error *error);

/* Makes a tensor of random elements: floats from -0.5 to 0.5, integers of at least 0. */
xcvm_status spec_random(const xcvm_type *type, const struct filling *filling, xcvm_value **value, xcvm_error *error);

#endif

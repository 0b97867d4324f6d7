/* Optimizers by name: settings, moments, and the instruction that performs the step. */
#ifndef XCVM_COMPILER_TRAINING_OPTIMIZER_H
#define XCVM_COMPILER_TRAINING_OPTIMIZER_H

#include "ops/op.h"
#include "xcvm/compiler.h"

/* Added to the norm of all gradients before the clipping limit is divided by it, as in PyTorch. */
#define XCC_NORM_EPSILON 1e-6
/* Prefix of the names of optimizer states. */
#define XCC_OPTIMIZER_PREFIX "optimizer@"

enum { XCC_OPTIMIZER_SETTINGS = 10, XCC_OPTIMIZER_MOMENTS = 3 };

typedef enum xcc_setting_kind {
    XCC_SETTING_NUMBER,
    XCC_SETTING_FLAG, /* true or false; 1 or 0 */
    XCC_SETTING_PAIR  /* two numbers separated by a slash */
} xcc_setting_kind;

typedef struct xcc_setting {
    xcc_setting_info info; /* name, and default as text */
    xcc_setting_kind kind;
    double least, most;    /* range of a number, inclusive */
    const char *fields[2]; /* attributes of the instruction; NULL: none */
} xcc_setting;

/* A moment of each parameter, named after the instruction's operand. */
typedef struct xcc_moment {
    const char *field;
    const char *setting; /* the setting that must not be 0 for the moment to exist; NULL: it always exists */
    const char *initial; /* the setting that is the initial value; NULL: 0 */
} xcc_moment;

typedef struct xcc_optimizer_row {
    xcc_optimizer_info info;
    xcvm_opcode opcode;
    bool decoupled;                               /* the instruction's attribute of that name */
    bool norms;                                   /* uses norms of each parameter and gradient */
    xcc_setting settings[XCC_OPTIMIZER_SETTINGS]; /* the last one has no name; the first two are lr and weight_decay */
    xcc_moment moments[XCC_OPTIMIZER_MOMENTS];    /* the last one has no name */
} xcc_optimizer_row;

/* An optimizer with the values of its settings. */
typedef struct xcc_optimizer_spec {
    const xcc_optimizer_row *row;
    double values[XCC_OPTIMIZER_SETTINGS][2]; /* in the order of the row; the second number belongs to pairs */
} xcc_optimizer_spec;

/* Parses "adam:lr=1e-3,betas=0.9/0.999". Fails with INVALID_ARGUMENT for unknown names and values out of range. The
 * message lists what is allowed. */
xcvm_status xcc_optimizer_read(const char *text, xcc_optimizer_spec *spec, xcvm_error *error);
/* Returns the value of a setting; 0 if the optimizer has none of that name. */
double xcc_optimizer_value(const xcc_optimizer_spec *spec, const char *name);
/* Returns the value of an attribute of the instruction; 0 if no setting determines it. */
double xcc_optimizer_attribute(const xcc_optimizer_spec *spec, const char *name);
/* Returns whether a moment exists, and its initial value. */
bool xcc_optimizer_keeps(const xcc_optimizer_spec *spec, const xcc_moment *moment);
double xcc_optimizer_initial(const xcc_optimizer_spec *spec, const xcc_moment *moment);
/* Writes all settings as a text that parses to the same optimizer, truncated to `size`. Returns text. */
const char *xcc_optimizer_write(const xcc_optimizer_spec *spec, char *text, size_t room);

#endif

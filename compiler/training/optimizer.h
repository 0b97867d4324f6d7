/* Optimizers by name: their settings, what they keep, and the instruction that they become. */
#ifndef XCVM_COMPILER_TRAINING_OPTIMIZER_H
#define XCVM_COMPILER_TRAINING_OPTIMIZER_H

#include "ops/op.h"
#include "xcvm/compiler.h"

/* What is added to the norm of all gradients before it divides the limit that they are clipped to, as in PyTorch. */
#define XCC_NORM_EPSILON 1e-6
/* What the names of all states begin with that are no parameters. */
#define XCC_OPTIMIZER_PREFIX "optimizer@"

enum { XCC_OPTIMIZER_SETTINGS = 10, XCC_OPTIMIZER_MOMENTS = 3 };

typedef enum xcc_setting_kind {
    XCC_SETTING_NUMBER,
    XCC_SETTING_FLAG, /* true or false; 1 or 0 */
    XCC_SETTING_PAIR  /* two numbers with a slash between them */
} xcc_setting_kind;

typedef struct xcc_setting {
    xcc_setting_info info; /* name and default as text */
    xcc_setting_kind kind;
    double least, most;    /* of a number, both allowed */
    const char *fields[2]; /* attributes of the instruction that it becomes; NULL: none */
} xcc_setting;

/* What is kept of each parameter, named after the instruction's operand. */
typedef struct xcc_moment {
    const char *field;
    const char *setting; /* kept only where that is not 0; NULL: always */
    const char *initial; /* the setting that it begins with; NULL: 0 */
} xcc_moment;

typedef struct xcc_optimizer_row {
    xcc_optimizer_info info;
    xcvm_opcode opcode;
    bool decoupled;                               /* the instruction's attribute of that name */
    bool norms;                                   /* takes norms of each parameter and gradient */
    xcc_setting settings[XCC_OPTIMIZER_SETTINGS]; /* up to one without name; the first two are lr and weight_decay */
    xcc_moment moments[XCC_OPTIMIZER_MOMENTS];    /* likewise */
} xcc_optimizer_row;

/* An optimizer with its settings' values. */
typedef struct xcc_optimizer_spec {
    const xcc_optimizer_row *row;
    double values[XCC_OPTIMIZER_SETTINGS][2]; /* in the row's order; the second is that of a pair */
} xcc_optimizer_spec;

/* Reads "adam:lr=1e-3,betas=0.9/0.999". INVALID_ARGUMENT, saying what there is, for what is unknown or out of range. */
xcvm_status xcc_optimizer_read(const char *text, xcc_optimizer_spec *spec, xcvm_error *error);
/* The value of a setting; 0 if the optimizer has none of that name. */
double xcc_optimizer_value(const xcc_optimizer_spec *spec, const char *name);
/* The value of an attribute of the instruction that the optimizer becomes; 0 for one that no setting stands for. */
double xcc_optimizer_attribute(const xcc_optimizer_spec *spec, const char *name);
/* Whether a moment of the row's is kept, and what its elements begin with. */
bool xcc_optimizer_keeps(const xcc_optimizer_spec *spec, const xcc_moment *moment);
double xcc_optimizer_initial(const xcc_optimizer_spec *spec, const xcc_moment *moment);
/* Writes all settings as a text that reads back as the same; cut off where there is no room. Returns text. */
const char *xcc_optimizer_write(const xcc_optimizer_spec *spec, char *text, size_t room);

#endif

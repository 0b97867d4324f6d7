/* Sessions of the command: options for them, and their inputs. */
#ifndef XCVM_TOOLS_RUN_SESSION_H
#define XCVM_TOOLS_RUN_SESSION_H

#include "run/program.h"
#include "tensors/spec.h"

/* Options of every subcommand that runs a program. */
struct session_flags {
    int64_t threads, fuel, seed;
    bool strict_types;
};
extern const struct option session_options[];

/* Options of every subcommand that takes inputs. */
struct input_flags {
    struct text_list inputs; /* NAME=SPEC */
    bool random;
    int64_t int_max;
};
extern const struct option input_options[];
enum { DEFAULT_INT_MAX = 8000 };

/* The values of a program's inputs, in order, and their budget. The struct must not move, and must outlive
 * sessions that use the values. */
struct inputs {
    xcvm_value **values;
    bool random_integers; /* some elements are random integers */
    struct value_budget budget;
};

/* Creates a session. The instruction Print writes to standard output. The memory limit excludes the bytes of
 * `inputs` (may be NULL). */
xcvm_status session_open(const struct program *program, const struct limit_flags *limits, const struct inputs *inputs,
                         const struct session_flags *flags, xcvm_session **session, xcvm_error *error);
/* Warns if more threads are requested than this process may use. */
void session_warn_of_threads(const struct session_flags *flags);
xcvm_run_options session_run_options(const struct limit_flags *limits, const struct session_flags *flags);

/* NAME=SPEC for an input or output. */
struct binding {
    const char *name; /* borrowed from the program */
    size_t index;
    struct spec spec;
};
struct bindings {
    struct binding *items;
    size_t count;
};
/* The option of a binding: --input, --output or --expect. */
enum binding_kind { BIND_INPUT, BIND_OUTPUT, BIND_EXPECT };
/* Parses `texts`. NAME= may be omitted if there is only one input or output. */
xcvm_status bindings_parse(const struct text_list *texts, const xcvm_program *program, enum binding_kind kind,
                           struct bindings *bindings, xcvm_error *error);
/* The binding of a parameter, or NULL. */
const struct binding *bindings_find(const struct bindings *bindings, size_t index);
void bindings_release(struct bindings *bindings);

/* Makes the value of every input within the limits. Inputs without a SPEC are random if flags->random; otherwise
 * the error names all of them. Open dimensions have the size from other inputs or --dim, or 1, which a note
 * reports. Fails with INVALID_ARGUMENT for a wrong command line, and then makes no values. */
xcvm_status inputs_make(const struct program *program, const struct input_flags *flags,
                        const struct limit_flags *limits, int64_t seed, struct inputs *inputs, xcvm_error *error);
/* After a failed run: prints hints about random integers that are out of range, and about the memory of inputs. */
void inputs_hint(const struct input_flags *flags, const struct inputs *inputs, const xcvm_error *error);
xcvm_status inputs_bind(const xcvm_program *program, xcvm_session *session, xcvm_value *const *values,
                        xcvm_error *error);
/* Releases the values, if there are any. */
void inputs_release(const xcvm_program *program, struct inputs *inputs);

#endif

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

/* The values of a program's inputs, in their order, and what they may take. Sessions that have been given them end
 * before it does, and it must stay in place. */
struct inputs {
    xcvm_value **values;
    struct value_budget budget;
};

/* Creates a session as the flags say; what Print prints goes to standard output. Its memory is what the limit leaves
 * beside `inputs`, which may be NULL. */
xcvm_status session_open(const struct program *program, const struct limit_flags *limits, const struct inputs *inputs,
                         const struct session_flags *flags, xcvm_session **session, xcvm_error *error);
/* Says so if more threads are asked for than this process may use at once, whose times mean little. */
void session_warn_of_threads(const struct session_flags *flags);
xcvm_run_options session_run_options(const struct limit_flags *limits, const struct session_flags *flags);

/* NAME=SPEC for an input or output. */
struct binding {
    const char *name; /* lent from the program */
    size_t index;
    struct spec spec;
};
struct bindings {
    struct binding *items;
    size_t count;
};
/* What an option of NAME=SPEC is about: --input, --output and --expect. */
enum binding_kind { BIND_INPUT, BIND_OUTPUT, BIND_EXPECT };
/* Takes `texts` apart. NAME= may be left out if there is only one input or output. */
xcvm_status bindings_parse(const struct text_list *texts, const xcvm_program *program, enum binding_kind kind,
                           struct bindings *bindings, xcvm_error *error);
/* The binding of a parameter, NULL if it has none. */
const struct binding *bindings_find(const struct bindings *bindings, size_t index);
void bindings_release(struct bindings *bindings);

/* Makes the value of every input, one reference each, within the limits. Those without a SPEC are filled at random if
 * flags->random, else all of them are named in the error. Open dimensions take what the other inputs and --dim say, or
 * 1, which is told on stderr. Statuses: INVALID_ARGUMENT for a wrong command line. In failure there are none. */
xcvm_status inputs_make(const struct program *program, const struct input_flags *flags,
                        const struct limit_flags *limits, int64_t seed, struct inputs *inputs, xcvm_error *error);
/* After a run that failed: says what helps where random integers were too large for what they index, and what part of
 * a memory limit the inputs take. */
void inputs_hint(const struct input_flags *flags, const struct inputs *inputs, const xcvm_error *error);
xcvm_status inputs_bind(const xcvm_program *program, xcvm_session *session, xcvm_value *const *values,
                        xcvm_error *error);
/* There need not be any. */
void inputs_release(const xcvm_program *program, struct inputs *inputs);

#endif

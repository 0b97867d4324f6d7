/* Checks at the entry of public functions: entries.def lists the tapes that each may be called on. */
#ifndef XCVM_TAPE_ENTRY_H
#define XCVM_TAPE_ENTRY_H

#include "xcvm/tape.h"

enum { TAPE_BUILDS = 1, TAPE_EXECUTES = 2, TAPE_IN_BACKWARD = 4, TAPE_FAILED_TOO = 8, TAPE_ENDED = 16 };
enum {
#define BUILDS TAPE_BUILDS
#define EXECUTES TAPE_EXECUTES
#define IN_BACKWARD TAPE_IN_BACKWARD
#define FAILED TAPE_FAILED_TOO
#define ENDED TAPE_ENDED
#define TAPE_NO_ENTRY(function)
#define TAPE_ENTRY(function, rules) TAPE_RULES_##function = (rules),
#include "tape/entries.def"
#undef TAPE_ENTRY
#undef TAPE_NO_ENTRY
#undef ENDED
#undef FAILED
#undef IN_BACKWARD
#undef EXECUTES
#undef BUILDS
};
/* True if the function may be called. Otherwise the failure is set; t may be NULL. */
bool tape_enter(xcvm_tape *t, int rules, const char *function);
/* The same for functions that return a status, which return the failure. */
xcvm_status tape_begin(xcvm_tape *t, int rules, const char *function, xcvm_error *error);
#define TAPE_ENTER(tape, function) tape_enter((tape), TAPE_RULES_##function, #function)
#define TAPE_BEGIN(tape, function, error) XCVM_TRY(tape_begin((tape), TAPE_RULES_##function, #function, (error)))
/* The tape of an object, or NULL. */
#define TAPE_OF(object) ((object) != NULL ? (object)->tape : NULL)

#endif

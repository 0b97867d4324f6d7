/* Failures of a tape, and the checks at the entry of public functions. */
#include "tape/mode.h"
#include "tape/tracer.h"

#include <stdarg.h>
#include <stdio.h>

/* Without memory a graph or a trace is incomplete, though the host may continue after the report. */
static void end_if_incomplete(xcvm_tape *t, xcvm_status status)
{
    if (status != XCVM_OUT_OF_MEMORY)
        return;
    t->out_of_memory_count++;
    tape_refuse_trace(t, "memory ran out while it was recorded");
    if (t->mode->builds && t->ended == NULL)
        t->ended = "memory ran out while the graph was built, which is incomplete; the tape can only be destroyed";
}

xcvm_status tape_latch_failure(xcvm_tape *t, xcvm_status status)
{
    t->failed = t->failed || status != XCVM_OK;
    end_if_incomplete(t, status);
    return status;
}

xcvm_status tape_fail(xcvm_tape *t, xcvm_status status, const char *format, ...)
{
    if (t->failed)
        return t->error.status;
    va_list arguments;
    char message[sizeof t->error.message];
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    xcvm_error_set(&t->error, status, "%s", message);
    return tape_latch_failure(t, status);
}

bool tape_enter(xcvm_tape *t, int rules, const char *function)
{
    xcvm_status status = XCVM_OK;
    if (t == NULL || (t->failed && (rules & TAPE_FAILED_TOO) == 0))
        return false;
    if ((rules & TAPE_EXECUTES) != 0 && !t->mode->builds && t->pass == NULL)
        return true;
    if (t->ended != NULL && (rules & TAPE_ENDED) == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "%s", t->ended);
    else if (t->mode->builds && (rules & TAPE_BUILDS) == 0)
        status = tape_fail(t, XCVM_UNSUPPORTED, "a building tape has no elements, which %s needs", function);
    else if (!t->mode->builds && (rules & TAPE_EXECUTES) == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "%s needs a building tape (xcvm_tape_options.mode)", function);
    else if (t->pass != NULL && (rules & TAPE_IN_BACKWARD) == 0)
        status = tape_fail(t, XCVM_INVALID_ARGUMENT, "%s is called while a backward pass runs", function);
    return status == XCVM_OK;
}

xcvm_status tape_begin(xcvm_tape *t, int rules, const char *function, xcvm_error *error)
{
    XCVM_TRY(tape_report(t, error));
    return tape_enter(t, rules, function) ? XCVM_OK : tape_report(t, error);
}

xcvm_status tape_report(xcvm_tape *t, xcvm_error *error)
{
    XCVM_CHECK(error, t != NULL, INVALID_ARGUMENT, "tape is NULL");
    if (!t->failed)
        return XCVM_OK;
    const xcvm_status status = t->error.status;
    if (error != NULL)
        *error = t->error;
    xcvm_error_set(&t->error, XCVM_OK, "%s", "");
    t->failed = false;
    return status;
}

xcvm_status xcvm_tape_status(xcvm_tape *tape, xcvm_error *error)
{
    return TAPE_ENTER(tape, xcvm_tape_status) ? tape_report(tape, error) : tape_report(NULL, error);
}

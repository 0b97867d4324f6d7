/* Profiles of runs: the times of their instructions, for requests that ask for them. Other runs have no observer. */
#include "server/pool/pool.h"

#include <string.h>

enum { FIRST_INSTRUCTIONS = 64 };

static xcvm_status record_instruction(void *user, const xcvm_event *event, xcvm_error *error)
{
    xcs_profile *profile = user;
    (void)error;
    if (profile->count == profile->capacity && profile->capacity < XCS_PROFILE_INSTRUCTIONS) {
        const size_t wanted = profile->capacity != 0 ? 2 * profile->capacity : FIRST_INSTRUCTIONS;
        xcs_instruction *grown = xcvm_allocate(profile->allocator, wanted * sizeof *grown);
        if (grown != NULL) {
            if (profile->count > 0)
                memcpy(grown, profile->at, profile->count * sizeof *grown);
            xcvm_deallocate(profile->allocator, profile->at, profile->capacity * sizeof *grown);
            profile->at = grown;
            profile->capacity = wanted;
        }
    }
    if (profile->count == profile->capacity) {
        profile->left_out++;
        return XCVM_OK;
    }
    profile->at[profile->count++] = (xcs_instruction){.pc = event->pc,
                                                      .name = event->instruction,
                                                      .node = event->node,
                                                      .start_ns = event->start_ns,
                                                      .end_ns = event->end_ns};
    return XCVM_OK;
}

void xcs_profile_clear(xcs_profile *profile)
{
    profile->begun_ns = profile->ended_ns = 0;
    profile->count = profile->left_out = 0;
}

void xcs_profile_begin(xcs_profile *profile, xcvm_session *session)
{
    const xcvm_observer observer = {.size = sizeof observer, .after = record_instruction, .user = profile};
    xcs_profile_clear(profile);
    xcvm_session_set_observer(session, &observer);
    profile->begun_ns = xcvm_clock_ns();
}

void xcs_profile_end(xcs_profile *profile, xcvm_session *session)
{
    profile->ended_ns = xcvm_clock_ns();
    xcvm_session_set_observer(session, NULL);
}

void xcs_profile_lend(const xcs_profile *profile, xcs_result *result)
{
    result->begun_ns = profile->begun_ns;
    result->ended_ns = profile->ended_ns;
    result->instructions = profile->at;
    result->instruction_count = profile->count;
    result->instructions_left_out = profile->left_out;
}

void xcs_profile_free(xcs_profile *profile)
{
    xcvm_deallocate(profile->allocator, profile->at, profile->capacity * sizeof *profile->at);
    profile->at = NULL;
    profile->capacity = profile->count = 0;
}

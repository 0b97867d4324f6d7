/* Profiles as one self-contained page of HTML: tables that work without scripts, and pictures. */
#ifndef XCVM_TOOLS_PROFILE_PROFILE_PAGE_H
#define XCVM_TOOLS_PROFILE_PROFILE_PAGE_H

#include "cli/buffer.h"
#include "profile/peaks.h"
#include "profile/recording.h"
#include "profile/profile.h"

struct profile_page {
    const struct profile *profile;
    const struct recording *recording;
    const struct peaks *peaks;
    const char *program;   /* path */
    const char *optimizer; /* of a training step, as profile_phase_of takes it; NULL: inference */
    int threads;
    size_t arena_bytes, constant_bytes, peak_bytes;
    const char *earlier; /* data of another page, from profile_page_data; NULL: none */
};

/* Writes the page. It needs no network, and its data are inert: texts of the program become text, never markup. Returns
 * false if the sink fails. */
bool profile_page_write(const struct profile_page *page, xcvm_sink sink);

/* Finds the data of a page that profile_page_write wrote, and appends them to `data`. Returns false if `html` has none
 * of this version. */
bool profile_page_data(const char *html, size_t length, struct buffer *data);

#endif

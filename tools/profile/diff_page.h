/* Differences of two programs as one self-contained page of HTML: tables that work without scripts, and pictures. */
#ifndef XCVM_TOOLS_PROFILE_DIFF_PAGE_H
#define XCVM_TOOLS_PROFILE_DIFF_PAGE_H

#include "profile/profile.h"
#include "profile/recording.h"
#include "values/compare.h"

/* Comparisons of the values that an instruction of the second program computed. */
struct diff_row {
    char *value, *worst; /* name of the value that differs most, and where; NULL: none was compared, or none differs */
    size_t compared, different, elements, different_elements;
    double absolute, relative; /* the greatest */
};

/* A zero-initialized one is empty. */
struct diff_rows {
    struct diff_row *rows; /* by pc */
    size_t count;
};

void diff_rows_add(struct diff_rows *rows, int32_t pc, const char *value, const struct comparison *comparison);
void diff_rows_release(struct diff_rows *rows);

struct diff_output {
    const char *name;
    struct comparison comparison;
};

struct diff_page {
    const char *programs[2]; /* paths */
    struct tolerance tolerance;
    const struct profile *profiles;    /* of both runs */
    const struct recording *recording; /* of the second run */
    const struct diff_rows *rows;
    const struct diff_output *outputs;
    size_t output_count;
    size_t compared, different, not_kept; /* values */
};

/* Writes the page, as profile_page_write does. */
bool diff_page_write(const struct diff_page *page, xcvm_sink sink);

#endif
